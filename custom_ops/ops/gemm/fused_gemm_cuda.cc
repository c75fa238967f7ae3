// FusedGemm for the CUDA provider.
#include <memory>

#include "gemm_node.h"
#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/gemm/gemm_cuda.h"
#include "ops/call_launcher.h"
#include "ops/device_memory.h"
#include "ops/op.h"

namespace dpiframe {
namespace {

using cuda::CudaGemm;
using cuda::CudaGemmCall;

class FusedGemmCuda final : public Kernel {
 public:
  explicit FusedGemmCuda(const NodeInfo& info)
      : Kernel(info.api()), node_(info), allocator_(info.api(), info.kernel_info()), gemm_(MakeGemm()) {
    if (gemm_->device_bytes() > 0) {
      memory_ = std::make_unique<DeviceMemory>(DeviceMemory::Lasting(api_, allocator_, gemm_->device_bytes()));
    }
    try {
      gemm_->Prepare(memory_ ? memory_->data() : nullptr);
    } catch (const cuda::CudaError& error) {
      node_.Fail(error.what());
    }
  }

  const DeviceAllocator* allocator() const override { return &allocator_; }

  void Compute(NodeCall* node_call) override {
    const GemmNode::Call brought = node_.Read(node_call);
    if (brought.m == 0) return;
    CudaGemmCall call{};
    call.m = brought.m;
    call.a = brought.a;
    call.weight = brought.weight;
    call.operands = brought.operands;
    call.y = brought.y;
    call.scratch = node_call->Scratch(gemm_->scratch_bytes(brought.m));
    try {
      gemm_->Launch(call, LauncherOf(node_call));
    } catch (const cuda::CudaError& error) {
      node_.Fail(error.what());
    }
  }

 private:
  std::unique_ptr<CudaGemm> MakeGemm() const {
    int device = 0;
    Check(api_, api_.MemoryInfoGetId(allocator_.memory_info(), &device));
    try {
      return std::make_unique<CudaGemm>(node_.program(), node_.constant_weight(), device);
    } catch (const cuda::CudaError& error) {
      node_.Fail(error.what());
    }
  }

  GemmNode node_;
  DeviceAllocator allocator_;
  std::unique_ptr<CudaGemm> gemm_;
  std::unique_ptr<DeviceMemory> memory_;
};

}  // namespace

const OpDefinition kFusedGemmCuda = {
    "FusedGemm",
    64,
    "CUDAExecutionProvider",
    [](const NodeInfo& info) -> Kernel* { return new FusedGemmCuda(info); },
    InferGemmShapes,
};

}  // namespace dpiframe
