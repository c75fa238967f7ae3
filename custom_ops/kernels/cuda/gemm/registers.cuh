// The end of a tile whose sums are in registers: each warp finishes its own 16 rows, without shared memory and without
// waiting for others.
#pragma once

#include "epilogue.cuh"
#include "exact.cuh"
#include "records.h"
#include "runs.cuh"

namespace dpiframe::cuda {

// Computes 16 rows from `first_row` on in float32, by one warp, applies the steps and writes.
static __device__ __noinline__ void FinishExactly(const GemmArguments& arguments, int64_t first_row, RunColumns run,
                                                  int columns, int lane) {
  const int rows = static_cast<int>(min(static_cast<int64_t>(kStripRows), arguments.m - first_row));
  for (int c = lane; c < columns; c += 32) {
    const int column = run.first + c;
    if (column >= run.end) break;
    float totals[kStripRows];
    ExactColumn(arguments, first_row, rows, run, column, totals);
    float* y = arguments.y + first_row * arguments.n + column;
#pragma unroll 1
    for (int row = 0; row < rows; ++row, y += arguments.n) {
      *y = ApplySteps(arguments, first_row + row, column, totals[0]);
#pragma unroll
      for (int i = 1; i < kStripRows; ++i) totals[i - 1] = totals[i];
    }
  }
}

// `sums`, which are lost: of the rows g and g + 8 (g: lane / 4) of the 16 from `first_row` on, columns 8j + 2t and the
// next (t: lane % 4).
template <int kColumns>
__device__ __forceinline__ void FinishRows(const GemmArguments& arguments, int64_t first_row, const RunColumns& run,
                                           const WarpNotes& notes, float (&sums)[kColumns / 2], const KeptColumns& kept,
                                           int lane) {
  constexpr int kTogether = kColumns / 8 % 8 == 0 ? 8 : kColumns / 8 % 10 == 0 ? 10 : 4;
  static_assert(kColumns / 8 % kTogether == 0);
  if (first_row >= arguments.m) return;
  if (NeedsExactProducts(notes)) {
    FinishExactly(arguments, first_row, run, kColumns, lane);
    return;
  }
  // Two neighbours have two values each of both rows. They exchange a pair, so that each has four of one row.
  const bool odd = (lane & 1) != 0;
  const int64_t row = first_row + lane / 4 + (odd ? 8 : 0);
  int column = run.first + lane % 4 / 2 * 4;
#pragma unroll 1
  for (int first = 0; first < kColumns / 8; first += kTogether) {
    int64_t rows[kTogether];
    int columns[kTogether];
    float4 y[kTogether];
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      const float* const s = sums + 4 * j;
      const float x = __shfl_xor_sync(0xffffffffu, odd ? s[0] : s[2], 1);
      const float z = __shfl_xor_sync(0xffffffffu, odd ? s[1] : s[3], 1);
      y[j] = odd ? make_float4(x, z, s[2], s[3]) : make_float4(s[0], s[1], x, z);
    }
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      columns[j] = column + 8 * j;
      rows[j] = row < arguments.m && columns[j] < run.end ? row : -1;
      const float4 unscale = kept.At(0, columns[j]);
      y[j] = make_float4(y[j].x * unscale.x, y[j].y * unscale.y, y[j].z * unscale.z, y[j].w * unscale.w);
    }
    ApplySteps4<kTogether>(arguments, rows, columns, y, kept);
    float* const to = arguments.y + row * arguments.n;
    if (arguments.y_by_4) {
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        if (rows[j] >= 0) *reinterpret_cast<float4*>(to + columns[j]) = y[j];
      }
    } else {
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        if (rows[j] >= 0) Store4(to, columns[j], run.end, false, y[j]);
      }
    }
    // The next values take the place of these: registers have no addresses, and code for each would fill the cache.
#pragma unroll
    for (int i = 0; i < kColumns / 2 - 4 * kTogether; ++i) sums[i] = sums[i + 4 * kTogether];
    column += 8 * kTogether;
  }
}

}  // namespace dpiframe::cuda
