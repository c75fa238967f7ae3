// FusedMultiGather for the CUDA provider.
#include <string>
#include <vector>

#include "../kernels/cuda/cuda_error.h"
#include "../kernels/cuda/lookup_cuda.h"
#include "device_memory.h"
#include "lookup_inputs.h"
#include "op.h"

namespace dpiframe {
namespace {

using cuda::CudaLookup;
using cuda::CudaLookupCall;
using cuda::MisalignedAddress;

class FusedMultiGatherCuda final : public Kernel, public NodeBadIds {
 public:
  explicit FusedMultiGatherCuda(const KernelRequest& request)
      : Kernel(request.api),
        registry_(request.bad_ids),
        inputs_(request),
        allocator_(request.api, request.info),
        lookup_(MakeLookup()),
        memory_(DeviceMemory::Lasting(request.api, allocator_, lookup_->device_bytes())) {
    try {
      lookup_->Upload(memory_.data());
    } catch (const cuda::CudaError& error) {
      inputs_.node().Fail(error.what());
    }
    registry_->Add(this);
  }

  ~FusedMultiGatherCuda() override { registry_->Remove(this); }

  void Compute(OrtKernelContext* context) override {
    LookupInputs::Call inputs(inputs_);
    inputs_.Read(context, &inputs);
    if (inputs.rows == 0) return;
    void* stream = nullptr;
    Check(api_, api_.KernelContext_GetGPUComputeStream(context, &stream));
    const DeviceMemory scratch = DeviceMemory::Scratch(api_, allocator_, context, lookup_->scratch_bytes());
    CudaLookupCall call{};
    call.rows = inputs.rows;
    call.sources = inputs.sources.data();
    call.columns = inputs.columns.data();
    call.tables = inputs.tables.data();
    call.outputs = inputs.outputs.data();
    call.scratch = scratch.data();
    try {
      lookup_->Launch(call, static_cast<cudaStream_t>(stream));
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
    "CUDAExecutionProvider", [](const KernelRequest& request) -> Kernel* { return new FusedMultiGatherCuda(request); },
    InferLookupShapes,
};

}  // namespace dpiframe
