// FusedElementwise for the CUDA provider.
#include <memory>
#include <string>

#include "../kernels/cuda/cuda_error.h"
#include "../kernels/cuda/elementwise_cuda.h"
#include "device_memory.h"
#include "elementwise_node.h"
#include "op.h"

namespace dpiframe {
namespace {

using cuda::CudaElementwise;
using cuda::ElementwiseCall;
using cuda::ElementwiseLaunch;
using cuda::MisalignedElements;

class FusedElementwiseCuda final : public Kernel {
 public:
  explicit FusedElementwiseCuda(const KernelRequest& request)
      : Kernel(request.api),
        node_(request),
        allocator_(request.api, request.info),
        elementwise_(MakeElementwise()),
        memory_(DeviceMemory::Lasting(request.api, allocator_, elementwise_->device_bytes())) {
    try {
      elementwise_->Upload(memory_.data());
    } catch (const cuda::CudaError& error) {
      node_.Fail(error.what());
    }
  }

  void Compute(OrtKernelContext* context) override {
    ElementwiseNode::Call brought(node_);
    node_.Read(context, &brought);
    if (brought.rows() == 0) return;
    void* stream = nullptr;
    Check(api_, api_.KernelContext_GetGPUComputeStream(context, &stream));
    const ElementwiseCall call{
        {brought.row_axes[0], brought.row_axes[1]}, brought.inputs.data(), brought.outputs.data()};
    try {
      const ElementwiseLaunch launch = elementwise_->Plan(call);
      const DeviceMemory scratch = DeviceMemory::Scratch(api_, allocator_, context, launch.scratch_bytes);
      elementwise_->Launch(call, launch, scratch.data(), static_cast<cudaStream_t>(stream));
    } catch (const cuda::CudaError& error) {
      node_.Fail(error.what());
    } catch (const MisalignedElements& error) {
      if (error.is_input) node_.FailAtInput(error.index, error.what());
      node_.Fail("output " + std::to_string(error.index) + " " + error.what());
    }
  }

 private:
  std::unique_ptr<CudaElementwise> MakeElementwise() const {
    int device = 0;
    Check(api_, api_.MemoryInfoGetId(allocator_.memory_info(), &device));
    try {
      return std::make_unique<CudaElementwise>(node_.program(), device);
    } catch (const cuda::CudaError& error) {
      node_.Fail(error.what());
    }
  }

  ElementwiseNode node_;
  DeviceAllocator allocator_;
  std::unique_ptr<CudaElementwise> elementwise_;
  DeviceMemory memory_;
};

}  // namespace

const OpDefinition kFusedElementwiseCuda = {
    "FusedElementwise",      64,
    "CUDAExecutionProvider", [](const KernelRequest& request) -> Kernel* { return new FusedElementwiseCuda(request); },
    InferElementwiseShapes,
};

}  // namespace dpiframe
