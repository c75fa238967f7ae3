// FusedElementwise for the CPU provider.
#include "../kernels/elementwise_cpu.h"
#include "elementwise_node.h"
#include "op.h"

namespace dpiframe {
namespace {

class FusedElementwiseCpu final : public Kernel {
 public:
  explicit FusedElementwiseCpu(const KernelRequest& request)
      : Kernel(request.api), node_(request), plan_(node_.program(), node_.constant_inputs()) {}

  void Compute(OrtKernelContext* context) override {
    ElementwiseNode::Call call(node_);
    node_.Read(context, &call);
    Threads threads{api_, context};
    plan_.Run({{call.row_axes[0], call.row_axes[1]}, call.inputs.data(), call.outputs.data()}, {RunTasks, &threads});
  }

 private:
  struct Threads {
    const OrtApi& api;
    OrtKernelContext* context;
  };

  // On ONNX Runtime's own threads.
  static void RunTasks(void* runner, void (*task)(void*, size_t), size_t count, void* data) {
    const Threads& threads = *static_cast<Threads*>(runner);
    Check(threads.api, threads.api.KernelContext_ParallelFor(threads.context, task, count, 0, data));
  }

  ElementwiseNode node_;
  ElementwisePlan plan_;
};

}  // namespace

const OpDefinition kFusedElementwiseCpu = {
    "FusedElementwise",
    64,
    nullptr,
    [](const KernelRequest& request) -> Kernel* { return new FusedElementwiseCpu(request); },
    InferElementwiseShapes,
};

}  // namespace dpiframe
