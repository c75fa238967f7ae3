// Products with few rows or few columns: all that counts is that the matrices are read once, and soon. In float32
// throughout.
#pragma once

#include <cuda_runtime.h>

#include "epilogue.cuh"
#include "records.h"
#include "runs.cuh"

namespace dpiframe::cuda {

constexpr int kSkinnyWarps = 4;  // of a block

__device__ __forceinline__ void StartAfterEarlierKernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// A warp computes kRows rows by kColumns columns, its lanes sharing K.
template <int kRows, int kColumns>
__global__ void __launch_bounds__(32 * kSkinnyWarps) SkinnyGemm(const __grid_constant__ GemmArguments arguments) {
  StartAfterEarlierKernels();
  const int lane = threadIdx.x & 31;
  const int64_t share = static_cast<int64_t>(blockIdx.x) * kSkinnyWarps + threadIdx.x / 32;
  const int across = arguments.n / arguments.run_columns * ((arguments.run_columns + kColumns - 1) / kColumns);
  const int64_t first_row = share / across * kRows;
  const RunColumns run(arguments, static_cast<int>(share % across), kColumns);
  const int first_column = run.first;
  if (first_row >= arguments.m) return;
  const int k = arguments.k;
  const float* a[kRows];
  const float* w[kColumns];
#pragma unroll
  for (int i = 0; i < kRows; ++i)
    a[i] = arguments.a + run.begin + min(first_row + i, arguments.m - 1) * arguments.a_pitch;
#pragma unroll
  for (int j = 0; j < kColumns; ++j) {
    w[j] = arguments.weight.plain + static_cast<int64_t>(min(first_column + j, run.end - 1)) * k;
  }
  float sums[kRows][kColumns] = {};
  if (arguments.a_by_4 && (reinterpret_cast<uintptr_t>(arguments.weight.plain) & 15) == 0) {
#pragma unroll 2
    for (int at = 4 * lane; at < k; at += 128) {
      float4 rows[kRows], columns[kColumns];
#pragma unroll
      for (int i = 0; i < kRows; ++i) rows[i] = *reinterpret_cast<const float4*>(a[i] + at);
#pragma unroll
      for (int j = 0; j < kColumns; ++j) columns[j] = *reinterpret_cast<const float4*>(w[j] + at);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          float& sum = sums[i][j];
          sum = fmaf(rows[i].x, columns[j].x, sum);
          sum = fmaf(rows[i].y, columns[j].y, sum);
          sum = fmaf(rows[i].z, columns[j].z, sum);
          sum = fmaf(rows[i].w, columns[j].w, sum);
        }
      }
    }
  } else {
#pragma unroll 2
    for (int at = lane; at < k; at += 32) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sums[i][j] = fmaf(a[i][at], w[j][at], sums[i][j]);
      }
    }
  }
  // Lane i * kColumns + j takes element [i, j].
  float mine = 0.0f;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      float sum = sums[i][j];
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
      if (lane == i * kColumns + j) mine = sum;
    }
  }
  const int64_t row = first_row + lane / kColumns;
  const int column = first_column + lane % kColumns;
  if (lane >= kRows * kColumns || row >= arguments.m || column >= run.end) return;
  arguments.y[row * arguments.n + column] = ApplySteps(arguments, row, column, mine);
}

}  // namespace dpiframe::cuda
