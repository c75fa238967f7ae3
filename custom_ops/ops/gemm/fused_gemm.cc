// FusedGemm for the CPU provider.
#include "gemm_node.h"
#include "kernels/gemm/gemm_cpu.h"
#include "ops/op.h"

namespace dpiframe {
namespace {

class FusedGemmCpu final : public Kernel {
 public:
  explicit FusedGemmCpu(const NodeInfo& info) : Kernel(info.api()), node_(info) {}

  void Compute(NodeCall* node_call) override {
    const GemmNode::Call brought = node_.Read(node_call);
    const int64_t count = GemmTaskCount(node_.program(), brought.m);
    if (count == 0) return;
    struct Tasks {
      const GemmProgram& program;
      GemmCall call;
    };
    Tasks tasks{node_.program(), {brought.m, brought.a, brought.weight, brought.operands, brought.y}};
    const auto run = [](void* data, size_t task) {
      const Tasks& tasks = *static_cast<const Tasks*>(data);
      RunGemmTask(tasks.program, tasks.call, static_cast<int64_t>(task));
    };
    node_call->ParallelFor(run, static_cast<size_t>(count), &tasks);
  }

 private:
  GemmNode node_;
};

}  // namespace

const OpDefinition kFusedGemmCpu = {
    "FusedGemm", 64, nullptr, [](const NodeInfo& info) -> Kernel* { return new FusedGemmCpu(info); }, InferGemmShapes,
};

}  // namespace dpiframe
