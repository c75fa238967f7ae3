// The textual program of ParallelRegion (docs/ops/parallel-region.md), parsed and checked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/program_error.h"

namespace dpiframe {

struct RegionNode {
  std::string op;
  std::string name;
  std::string program;
  int stream;
  std::vector<int> operands;  // values
  std::vector<int> results;
};

struct RegionProgram {
  int inputs = 0;  // values 0 ... inputs - 1
  int streams = 1;
  int values = 0;
  std::vector<RegionNode> nodes;  // in launch order
  std::vector<int> outputs;       // values
};

// Throws ProgramError.
RegionProgram ParseRegionProgram(std::string_view text);

}  // namespace dpiframe
