// What a region's streams wait for, and when they need a value no longer: found once, from the program alone.
#pragma once

#include <vector>

#include "program.h"

namespace dpiframe {

struct RegionStep {
  int stream;
  std::vector<int> waits;  // steps on other streams, of which this one waits for the end
  bool waits_for_fork;     // for what the caller's stream did before the region
  bool is_awaited;         // by a step on another stream, or by the end of the region
  std::vector<int> done;   // values that its stream alone has used, and nothing uses after this step
};

struct RegionPlan {
  int streams = 1;
  std::vector<RegionStep> steps;  // the program's nodes, in launch order
  std::vector<int> ends;          // the last steps of other streams, which the caller's stream waits for at the end
  bool forks = false;             // whether any step waits for the fork
};

RegionPlan PlanRegion(const RegionProgram& program);

}  // namespace dpiframe
