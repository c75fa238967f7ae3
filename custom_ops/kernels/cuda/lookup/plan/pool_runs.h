// Finds runs in the terms of a pool: the ids of a multi-hot field stand in consecutive columns, one term each.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/lookup/program.h"

namespace dpiframe::cuda {

// Terms first ... first + count - 1, whose ids are consecutive columns of one source and which are alike but for that.
// From one to the next, the column of the weight (0 or 1) and its number (0 or 1) grow by steps. A term over all
// columns is a run of its own, with a count of 0 where the number of columns is dynamic.
struct TermRun {
  size_t first;
  size_t count;
  int weight_column_step;
  int number_step;
};

// The runs follow each other and cover all terms.
std::vector<TermRun> FindRuns(const LookupProgram& program, const std::vector<ProgramTerm>& terms);

}  // namespace dpiframe::cuda
