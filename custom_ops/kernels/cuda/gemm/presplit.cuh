// Splits A in a kernel of its own, into the same parts as the weight's (prepare.cu): worth it where many tiles
// share its rows and would each split them.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/device/bulk_copy.cuh"
#include "split.cuh"

namespace dpiframe::cuda {

constexpr int kPresplitWarps = 8;
constexpr int kPresplitRows = 8;  // of a warp, in one chunk

// A warp takes 8 rows of a chunk, two at a time: 16 lanes a row, each with four values.
template <int kParts>
__global__ void __launch_bounds__(32 * kPresplitWarps) PresplitRows(const __grid_constant__ GemmArguments arguments) {
  constexpr int kPairs = kPresplitRows / 2;
  LetLaterKernelsStart();
  WaitForEarlierKernels();
  const int chunk = blockIdx.y;
  const int lane = threadIdx.x & 31, piece = lane % 16;
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kPresplitWarps + threadIdx.x / 32) * kPresplitRows;
  const int rows = arguments.split.rows, k = arguments.k;
  if (first >= rows) return;
  const int at = chunk * kChunk + 4 * piece;
  float4 values[kPairs];
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const float* row = arguments.a + min(first + 2 * i + lane / 16, arguments.m - 1) * arguments.a_pitch;
    values[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (arguments.a_by_4) {
      if (at < k) values[i] = *reinterpret_cast<const float4*>(row + at);
    } else {
      if (at < k) values[i].x = row[at];
      if (at + 1 < k) values[i].y = row[at + 1];
      if (at + 2 < k) values[i].z = row[at + 2];
      if (at + 3 < k) values[i].w = row[at + 3];
    }
  }
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const int64_t row = first + 2 * i + lane / 16;
    const float4& v = values[i];
    float largest = Largest(Largest(v.x, v.y), Largest(v.z, v.w));
    uint32_t smallest = SmallestBits(SmallestBits(SmallestBits(SmallestBits(0xffffffffu, v.x), v.y), v.z), v.w);
#pragma unroll
    for (int distance = 1; distance < 16; distance *= 2) {
      largest = Largest(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
      smallest = min(smallest, __shfl_xor_sync(0xffffffffu, smallest, distance));
    }
    const PowerOfTwo power = ScaleOf(largest);
    if (piece == 0) {
      arguments.split.unscale[static_cast<int64_t>(chunk) * rows + row] =
          __float_as_uint(power.unscale) | RowNotes(largest, smallest);
    }
    // A lane has two pairs, for two places of 16 bytes that it shares with three others. It gives one to its neighbour
    // for one of the neighbour's, so that each writes 8 bytes in a row.
    const Halves pairs[2] = {Split2(v.x, v.y, power.scale), Split2(v.z, v.w, power.scale)};
    const bool odd = (lane & 1) != 0;
    const int place = 2 * (piece / 4) + (odd ? 1 : 0);
    uint8_t* to = arguments.split.parts + (static_cast<size_t>(chunk) * kParts * rows + row) * kPartRowBytes +
                  (place ^ static_cast<int>(row & 7)) * 16 + piece % 4 / 2 * 8;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const uint32_t first_pair = part == 0 ? pairs[0].high : pairs[0].low;
      const uint32_t second_pair = part == 0 ? pairs[1].high : pairs[1].low;
      const uint32_t received = __shfl_xor_sync(0xffffffffu, odd ? first_pair : second_pair, 1);
      *reinterpret_cast<uint2*>(to) = odd ? make_uint2(received, second_pair) : make_uint2(first_pair, received);
      to += static_cast<size_t>(rows) * kPartRowBytes;
    }
  }
}

}  // namespace dpiframe::cuda
