// FusedMultiGather for the CUDA provider.
#include <string>
#include <vector>

#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/lookup/lookup_cuda.h"
#include "lookup_inputs.h"
#include "ops/call_launcher.h"
#include "ops/device_memory.h"
#include "ops/op.h"

namespace dpiframe {
namespace {

using cuda::CudaLookup;
using cuda::CudaLookupCall;
using cuda::MisalignedAddress;

class FusedMultiGatherCuda final : public Kernel, public NodeBadIds {
 public:
  explicit FusedMultiGatherCuda(const NodeInfo& info)
      : Kernel(info.api()),
        registry_(info.bad_ids()),
        inputs_(info),
        allocator_(info.api(), info.kernel_info()),
        lookup_(MakeLookup()),
        memory_(DeviceMemory::Lasting(info.api(), allocator_, lookup_->device_bytes())) {
    try {
      lookup_->Upload(memory_.data());
    } catch (const cuda::CudaError& error) {
      inputs_.node().Fail(error.what());
    }
    registry_->Add(this);
  }

  ~FusedMultiGatherCuda() override { registry_->Remove(this); }

  const DeviceAllocator* allocator() const override { return &allocator_; }

  void Compute(NodeCall* node_call) override {
    LookupInputs::Call inputs(inputs_);
    inputs_.Read(node_call, &inputs);
    if (inputs.rows == 0) return;
    CudaLookupCall call{};
    call.rows = inputs.rows;
    call.sources = inputs.sources.data();
    call.columns = inputs.columns.data();
    call.tables = inputs.tables.data();
    call.outputs = inputs.outputs.data();
    call.scratch = node_call->Scratch(lookup_->scratch_bytes());
    try {
      lookup_->Launch(call, LauncherOf(node_call));
    } catch (const cuda::CudaError& error) {
      inputs_.node().Fail(error.what());
    } catch (const MisalignedAddress& error) {
      FailAt(error);
    }
  }

  const std::string& node() const override { return inputs_.node().name(); }
  const std::vector<std::string>& labels() const override { return inputs_.labels(); }
  std::vector<uint64_t> Counts() const override { return lookup_->ReadCounters(); }
  void ResetCounts() override { lookup_->ResetCounters(); }

 private:
  std::unique_ptr<CudaLookup> MakeLookup() const {
    const LookupNode& node = inputs_.node();
    try {
      return std::make_unique<CudaLookup>(node.program(), node.source_types(), node.table_type(),
                                          inputs_.constant_tables());
    } catch (const cuda::ProgramTooLarge& error) {
      node.Fail(error.what());
    } catch (const MisalignedAddress& error) {
      FailAt(error);
    }
  }

  [[noreturn]] void FailAt(const MisalignedAddress& error) const {
    const LookupNode& node = inputs_.node();
    switch (error.kind) {
      case MisalignedAddress::Kind::kSource:
        node.FailAtInput(error.index, error.what());
      case MisalignedAddress::Kind::kTable:
        node.FailAtInput(node.table_input(error.index), error.what());
      case MisalignedAddress::Kind::kOutput:
        break;
    }
    node.Fail("output " + std::to_string(error.index) + " " + error.what());
  }

  BadIdRegistry* registry_;
  LookupInputs inputs_;
  DeviceAllocator allocator_;
  std::unique_ptr<CudaLookup> lookup_;
  DeviceMemory memory_;
};

}  // namespace

const OpDefinition kFusedMultiGatherCuda = {
    "FusedMultiGather",      64,
    "CUDAExecutionProvider", [](const NodeInfo& info) -> Kernel* { return new FusedMultiGatherCuda(info); },
    InferLookupShapes,
};

}  // namespace dpiframe
