// Products of few values (K up to 32) with many rows: reading A and the weight once and writing the result is all the
// work. In float32 throughout.
#pragma once

#include <cuda_runtime.h>

#include "epilogue.cuh"
#include "records.h"
#include "runs.cuh"
#include "skinny.cuh"

namespace dpiframe::cuda {

constexpr int kShortThreads = 256;
constexpr int kShortDepth = 32;  // the largest K

// Four values of a row of `count`, from `at` on; those beyond are 0.
__device__ __forceinline__ float4 LoadValues(const float* row, int at, int count, bool by_4) {
  if (at >= count) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  return Load4(row, at, count, by_4);
}

// A block computes a tile of kColumns columns, a thread 4 of them in each of 4 rows.
template <int kColumns>
__global__ void __launch_bounds__(kShortThreads) ShortGemm(const __grid_constant__ GemmArguments arguments) {
  constexpr int kAcross = kColumns / 4;
  constexpr int kDown = kShortThreads / kAcross;
  constexpr int kRows = 4 * kDown;
  __shared__ float a[kRows][kShortDepth + 1];
  __shared__ __align__(16) float w[kShortDepth][kColumns + 4];
  StartAfterEarlierKernels();
  const RunColumns run(arguments, blockIdx.y, kColumns);
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * kRows;
  const int k = arguments.k;
  // 8 threads a row.
  const int at = threadIdx.x % 8 * 4;
  const bool weight_by_4 = k % 4 == 0 && (reinterpret_cast<uintptr_t>(arguments.weight.plain) & 15) == 0;
#pragma unroll
  for (int row = threadIdx.x / 8; row < kRows; row += kShortThreads / 8) {
    const float* from = arguments.a + run.begin + min(first_row + row, arguments.m - 1) * arguments.a_pitch;
    const float4 values = LoadValues(from, at, k, arguments.a_by_4);
    a[row][at] = values.x, a[row][at + 1] = values.y, a[row][at + 2] = values.z, a[row][at + 3] = values.w;
  }
#pragma unroll
  for (int column = threadIdx.x / 8; column < kColumns; column += kShortThreads / 8) {
    const float* from = arguments.weight.plain + static_cast<int64_t>(min(run.first + column, run.end - 1)) * k;
    const float4 values = LoadValues(from, at, k, weight_by_4);
    w[at][column] = values.x, w[at + 1][column] = values.y, w[at + 2][column] = values.z, w[at + 3][column] = values.w;
  }
  __syncthreads();
  const int across = threadIdx.x % kAcross, down = threadIdx.x / kAcross;
  int64_t rows[4];
  int columns[4];
  float4 y[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    y[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    rows[i] = first_row + down + i * kDown;
    columns[i] = run.first + 4 * across;
    if (rows[i] >= arguments.m || columns[i] >= run.end) rows[i] = -1;
  }
  for (int i = 0; i < k; ++i) {
    const float4 weight = *reinterpret_cast<const float4*>(&w[i][4 * across]);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float value = a[down + j * kDown][i];
      y[j].x = fmaf(value, weight.x, y[j].x);
      y[j].y = fmaf(value, weight.y, y[j].y);
      y[j].z = fmaf(value, weight.z, y[j].z);
      y[j].w = fmaf(value, weight.w, y[j].w);
    }
  }
  ApplySteps4<4>(arguments, rows, columns, y);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (rows[i] >= 0) Store4(arguments.y + rows[i] * arguments.n, columns[i], run.end, arguments.y_by_4, y[i]);
  }
}

}  // namespace dpiframe::cuda
