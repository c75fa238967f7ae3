// What the warps that don't multiply fetch: parts, and what the end of a tile will read.
#pragma once

#include "epilogue.cuh"
#include "kernels/cuda/device/bulk_copy.cuh"
#include "records.h"
#include "runs.cuh"

namespace dpiframe::cuda {

// Parts of some rows (or columns) of a matrix, a chunk after the other.
class PartsSource {
 public:
  __device__ __forceinline__ PartsSource(const uint8_t* parts, int rows, int64_t first_row, int most_rows,
                                         int part_count, int first_chunk)
      : stride_(static_cast<size_t>(rows) * kPartRowBytes),
        from_(parts + first_row * kPartRowBytes + stride_ * part_count * first_chunk),
        bytes_(static_cast<uint32_t>(min(static_cast<int64_t>(most_rows), rows - first_row)) * kPartRowBytes) {}

  __device__ __forceinline__ uint32_t bytes() const { return bytes_; }
  __device__ __forceinline__ void CopyPart(uint32_t to, uint32_t barrier) {
    CopyToShared(to, from_, bytes_, barrier);
    from_ += stride_;
  }

 private:
  size_t stride_;
  const uint8_t* from_;
  uint32_t bytes_;
};

// Brings the matrices that a tile's steps read to the L2 cache while the products are computed, by one warp.
template <class Tile>
__device__ __forceinline__ void PrefetchMatrices(const GemmArguments& arguments, int64_t first_row,
                                                 const RunColumns& run, int lane) {
  constexpr int kLine = 32;  // values
  const int lines = (min(Tile::kColumns, run.end - run.first) + kLine - 1) / kLine;
  const int rows = static_cast<int>(min(static_cast<int64_t>(Tile::kRows), arguments.m - first_row));
  for (int i = 0; i < arguments.step_count; ++i) {
    const GemmStep& step = arguments.steps[i];
    if (step.kind != StepOperand::kMatrix) continue;
    const float* const first = step.operand + first_row * arguments.n + run.first;
    for (int row = lane; row < rows; row += 32) {
      for (int line = 0; line < lines; ++line) {
        asm volatile("prefetch.global.L2 [%0];" ::"l"(first + static_cast<int64_t>(row) * arguments.n + line * kLine));
      }
    }
  }
}

__device__ __forceinline__ int KeptVectors(const GemmArguments& arguments) {
  int vectors = 0;
  for (int i = 0; i < arguments.step_count; ++i) vectors += arguments.steps[i].kind == StepOperand::kVector ? 1 : 0;
  return min(vectors, kMostKeptVectors);
}

// Fills KeptColumns, by one warp.
template <class Tile>
__device__ __forceinline__ void KeepColumns(const GemmArguments& arguments, const RunColumns& run, float* memory,
                                            int lane) {
  const auto keep = [&](const float* values, int vector) {
#pragma unroll
    for (int i = 0; i < (Tile::kColumns + 31) / 32; ++i) {
      const int column = lane + 32 * i;
      if (column < Tile::kColumns && run.first + column < run.end) {
        memory[vector * Tile::kColumns + column] = values[run.first + column];
      }
    }
  };
  keep(arguments.weight.unscale, 0);
  int vectors = 0;
  for (int i = 0; i < arguments.step_count && vectors < kMostKeptVectors; ++i) {
    if (arguments.steps[i].kind == StepOperand::kVector) keep(arguments.steps[i].operand, ++vectors);
  }
}

}  // namespace dpiframe::cuda
