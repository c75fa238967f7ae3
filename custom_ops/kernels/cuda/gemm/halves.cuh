// The end of a tile whose chunks two warpgroups of one block shared: each finishes half of its columns, from registers.
#pragma once

#include "kernels/cuda/device/bulk_copy.cuh"
#include "registers.cuh"
#include "wgmma_tile.cuh"

namespace dpiframe::cuda {

// The warps that multiply, and the one that keeps columns, meet here.
template <class Tile>
constexpr int kHalvesMeet = Tile::kWorkers + 32;

// `sums`: as FinishRows takes them, of all columns, which another warp has sums of too: that of the same rows in the
// other group. `give`, `take`: where this warp and that one hand theirs over, 4 sums a thread in 16 bytes. `meet` waits
// until both have. Afterwards `own` are the sums of the first half of the columns (half 0) or the second (1).
template <int kSums, class Meet>
__device__ __forceinline__ void ExchangeHalves(const float (&sums)[2 * kSums], int half, float4* give,
                                               const float4* take, int lane, float (&own)[kSums], const Meet& meet) {
  __syncwarp();  // others of the warp have read what was there
#pragma unroll
  for (int i = 0; i < kSums; i += 4) {
    const float* const first = sums + i;
    const float* const second = first + kSums;
    give[i * 8 + lane] = half == 0 ? make_float4(second[0], second[1], second[2], second[3])
                                   : make_float4(first[0], first[1], first[2], first[3]);
#pragma unroll
    for (int j = 0; j < 4; ++j) own[i + j] = half == 0 ? first[j] : second[j];
  }
  meet();
#pragma unroll
  for (int i = 0; i < kSums; i += 4) {
    const float4 more = take[i * 8 + lane];
    own[i] += more.x, own[i + 1] += more.y, own[i + 2] += more.z, own[i + 3] += more.w;
  }
}

// `rings`: of the warps, for A's rows. Each is its warp's own, and has been read.
template <class Tile>
__device__ __forceinline__ void FinishHalves(const GemmArguments& arguments, const WgmmaShared<Tile>& shared,
                                             uint8_t* rings, int64_t first_row, int row, RunColumns run, int half,
                                             int lane, WarpNotes notes, const KeptColumns& kept,
                                             const float (&sums)[Tile::kColumns / 2]) {
  static_assert(Tile::kSlices == 2 && Tile::kRowGroups == 1 && Tile::kBlocks == 1);
  constexpr int kHalf = Tile::kColumns / 2;
  static_assert(32 * kHalf / 2 * 4 <= RowRing<Tile::kRowBuffers>::kBytes);
  const auto handed_over = [&](int by) {
    return reinterpret_cast<float4*>(rings + (4 * by + row / kStripRows) * RowRing<Tile::kRowBuffers>::kBytes);
  };
  float own[kHalf / 2];
  ExchangeHalves<kHalf / 2>(sums, half, handed_over(half), handed_over(1 - half), lane, own,
                            [] { SyncThreads(kWorkersBarrier, kHalvesMeet<Tile>); });
  notes.of_rows = shared.notes[row / kStripRows];
  run.first += half * kHalf;
  FinishRows<kHalf>(arguments, first_row + row, run, notes, own, kept, lane);
}

}  // namespace dpiframe::cuda
