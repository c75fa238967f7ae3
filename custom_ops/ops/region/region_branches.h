// The branches of a CUDA graph of one call of a region.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/cuda/launch/graph_builder.h"
#include "kernels/region/plan.h"

namespace dpiframe {

// What RegionFork is on streams. A graph needs neither fork nor join: it begins with what waits for nothing in it, and
// ends with all of it.
class RegionBranches {
 public:
  RegionBranches(const RegionPlan& plan, const cuda::GraphBuilder& graph)
      : plan_(plan), branches_(static_cast<size_t>(plan.streams), graph.NewBranch()), ends_(plan.steps.size()) {}

  // The branch of a step, which waits for what the step needs.
  cuda::GraphBranch* Enter(size_t step) {
    cuda::GraphBranch* branch = BranchOf(step);
    for (const int before : plan_.steps[step].waits) branch->WaitFor(ends_[static_cast<size_t>(before)]);
    return branch;
  }
  void Leave(size_t step) {
    if (plan_.steps[step].is_awaited) ends_[step] = BranchOf(step)->here();
  }

 private:
  cuda::GraphBranch* BranchOf(size_t step) { return &branches_[static_cast<size_t>(plan_.steps[step].stream)]; }

  const RegionPlan& plan_;
  std::vector<cuda::GraphBranch> branches_;
  std::vector<cuda::GraphBranch::Point> ends_;  // of steps that others wait for
};

}  // namespace dpiframe
