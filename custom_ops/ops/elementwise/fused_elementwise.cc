// FusedElementwise for the CPU provider.
#include "elementwise_node.h"
#include "kernels/elementwise/elementwise_cpu.h"
#include "ops/op.h"

namespace dpiframe {
namespace {

class FusedElementwiseCpu final : public Kernel {
 public:
  explicit FusedElementwiseCpu(const NodeInfo& info)
      : Kernel(info.api()), node_(info), plan_(node_.program(), node_.constant_inputs()) {}

  void Compute(NodeCall* node_call) override {
    ElementwiseNode::Call call(node_);
    node_.Read(node_call, &call);
    plan_.Run({{call.row_axes[0], call.row_axes[1]}, call.inputs.data(), call.outputs.data()}, {RunTasks, node_call});
  }

 private:
  // On ONNX Runtime's own threads.
  static void RunTasks(void* runner, void (*task)(void*, size_t), size_t count, void* data) {
    static_cast<NodeCall*>(runner)->ParallelFor(task, count, data);
  }

  ElementwiseNode node_;
  ElementwisePlan plan_;
};

}  // namespace

const OpDefinition kFusedElementwiseCpu = {
    "FusedElementwise",     64, nullptr, [](const NodeInfo& info) -> Kernel* { return new FusedElementwiseCpu(info); },
    InferElementwiseShapes,
};

}  // namespace dpiframe
