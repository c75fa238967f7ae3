// FusedElementwise for the CUDA provider.
#include <memory>
#include <string>

#include "elementwise_node.h"
#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/elementwise/elementwise_cuda.h"
#include "ops/call_launcher.h"
#include "ops/device_memory.h"
#include "ops/op.h"

namespace dpiframe {
namespace {

using cuda::CudaElementwise;
using cuda::ElementwiseCall;
using cuda::ElementwiseLaunch;
using cuda::MisalignedElements;

class FusedElementwiseCuda final : public Kernel {
 public:
  explicit FusedElementwiseCuda(const NodeInfo& info)
      : Kernel(info.api()),
        node_(info),
        allocator_(info.api(), info.kernel_info()),
        elementwise_(MakeElementwise()),
        memory_(DeviceMemory::Lasting(info.api(), allocator_, elementwise_->device_bytes())) {
    try {
      elementwise_->Upload(memory_.data());
    } catch (const cuda::CudaError& error) {
      node_.Fail(error.what());
    }
  }

  const DeviceAllocator* allocator() const override { return &allocator_; }

  void Compute(NodeCall* node_call) override {
    ElementwiseNode::Call brought(node_);
    node_.Read(node_call, &brought);
    if (brought.rows() == 0) return;
    const ElementwiseCall call{
        {brought.row_axes[0], brought.row_axes[1]}, brought.inputs.data(), brought.outputs.data()};
    try {
      const ElementwiseLaunch launch = elementwise_->Plan(call);
      elementwise_->Launch(call, launch, node_call->Scratch(launch.scratch_bytes), LauncherOf(node_call));
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
    "CUDAExecutionProvider", [](const NodeInfo& info) -> Kernel* { return new FusedElementwiseCuda(info); },
    InferElementwiseShapes,
};

}  // namespace dpiframe
