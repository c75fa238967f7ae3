// FusedGemm on a CPU: plain, in float32 whatever the precision. A file for a GPU runs here with the same answers.
#pragma once

#include <cstdint>

#include "program.h"

namespace dpiframe {

struct GemmCall {
  int64_t m;
  const float* a;
  const float* weight;
  const float* const* operands;  // inputs 2, 3, ...
  float* y;
};

// Tiles of the result, each of which any thread may compute.
int64_t GemmTaskCount(const GemmProgram& program, int64_t m);

void RunGemmTask(const GemmProgram& program, const GemmCall& call, int64_t task);

}  // namespace dpiframe
