// How many blocks of how many threads run a schedule. Nothing here needs a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "schedule.h"

namespace dpiframe::cuda {

struct Grid {
  unsigned blocks = 0;
  unsigned threads = 0;
  size_t shared_bytes = 0;   // of a block
  size_t scratch_bytes = 0;  // of all
};

// Rows that one launch may have: kernels count its runs of elements, or its rows, in 32 bits.
int64_t MostRows(const Schedule& schedule);

// registers: of a thread. rows: at most so many.
Grid GridFor(const Schedule& schedule, int registers, int64_t rows, int64_t multiprocessors);

// Without teams: the blocks of a stage.
int64_t StageBlocks(const Stage& stage, int64_t rows, unsigned threads);

}  // namespace dpiframe::cuda
