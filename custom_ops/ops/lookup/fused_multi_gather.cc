// FusedMultiGather for the CPU provider.
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/lookup/lookup_cpu.h"
#include "lookup_inputs.h"
#include "ops/op.h"

namespace dpiframe {
namespace {

class FusedMultiGatherCpu final : public Kernel, public NodeBadIds {
 public:
  explicit FusedMultiGatherCpu(const NodeInfo& info)
      : Kernel(info.api()), registry_(info.bad_ids()), inputs_(info), counters_(inputs_.plan().lines().size()) {
    registry_->Add(this);
  }

  ~FusedMultiGatherCpu() override { registry_->Remove(this); }

  void Compute(NodeCall* node_call) override {
    LookupInputs::Call inputs(inputs_);
    inputs_.Read(node_call, &inputs);
    if (inputs.rows == 0) return;
    const LookupPlan& plan = inputs_.plan();
    const LookupCall call{inputs.rows,          inputs.sources.data(), inputs.columns.data(),
                          inputs.tables.data(), inputs.outputs.data(), plan.zeros()};
    BadIds bad_ids(&counters_);
    const std::vector<int64_t> tasks = plan.Tasks(call);
    if (tasks.size() == 2) {
      plan.Run(call, 0, call.rows, &bad_ids);
    } else {
      RunTasks(node_call, call, tasks, &bad_ids);
    }
    if (plan.program().bad == BadIdPolicy::kError && bad_ids.any()) {
      inputs_.node().FailAtId(plan.lines()[static_cast<size_t>(bad_ids.first().line)], bad_ids.first());
    }
  }

  const std::string& node() const override { return inputs_.node().name(); }
  const std::vector<std::string>& labels() const override { return inputs_.labels(); }
  std::vector<uint64_t> Counts() const override { return counters_.Read(); }
  void ResetCounts() override { counters_.Reset(); }

 private:
  // Ranges of rows on ONNX Runtime's own threads.
  void RunTasks(NodeCall* node_call, const LookupCall& call, const std::vector<int64_t>& bounds, BadIds* bad_ids) {
    struct Tasks {
      FusedMultiGatherCpu* kernel;
      const LookupCall& call;
      const std::vector<int64_t>& bounds;
      BadIds* bad_ids;
      std::mutex mutex;
      std::exception_ptr error;
    };
    Tasks tasks{this, call, bounds, bad_ids, {}, nullptr};
    const auto run = [](void* data, size_t task) noexcept {
      Tasks& tasks = *static_cast<Tasks*>(data);
      const int64_t begin = tasks.bounds[task];
      const int64_t end = tasks.bounds[task + 1];
      BadIds bad_ids(&tasks.kernel->counters_);
      try {
        tasks.kernel->inputs_.plan().Run(tasks.call, begin, end, &bad_ids);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(tasks.mutex);
        tasks.error = std::current_exception();
      }
      if (!bad_ids.any()) return;
      const std::lock_guard<std::mutex> lock(tasks.mutex);
      tasks.bad_ids->Merge(bad_ids);
    };
    node_call->ParallelFor(run, bounds.size() - 1, &tasks);
    if (tasks.error) std::rethrow_exception(tasks.error);
  }

  BadIdRegistry* registry_;
  LookupInputs inputs_;
  BadIdCounters counters_;
};

}  // namespace

const OpDefinition kFusedMultiGatherCpu = {
    "FusedMultiGather", 64, nullptr, [](const NodeInfo& info) -> Kernel* { return new FusedMultiGatherCpu(info); },
    InferLookupShapes,
};

}  // namespace dpiframe
