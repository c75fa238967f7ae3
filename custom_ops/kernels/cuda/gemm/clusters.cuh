// The end of a tile whose chunks several blocks shared: each finishes some of its rows, with the sums of all.
#pragma once

#include "copies.cuh"
#include "exact.cuh"
#include "wgmma_tile.cuh"

namespace dpiframe::cuda {

// `sum_memory`: of the block's sums, one slab a slice.
template <class Tile>
__device__ __forceinline__ void FinishInCluster(const GemmArguments& arguments, WgmmaShared<Tile>& shared,
                                                float* sum_memory, int64_t first_row, int row, const RunColumns& run,
                                                int group, int slice, int lane, const WarpNotes& notes,
                                                const KeptColumns& kept, const float (&sums)[Tile::kColumns / 2]) {
  float* const slab = sum_memory + slice * Tile::kSlab + (row + lane / 4) * Tile::kPitch + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < Tile::kColumns / 2; i += 2) {
    *reinterpret_cast<float2*>(slab + i / 2 % 2 * 8 * Tile::kPitch + i / 4 * 8) = make_float2(sums[i], sums[i + 1]);
  }
  SyncCluster();
  constexpr int kStrips = Tile::kRows / kStripRows;
  const int block = static_cast<int>(BlockInCluster());
  TileSums<Tile::kBlocks> tile{{}, Tile::kPitch, Tile::kSlab, 0, 0, 0};
  tile.first_row = kStrips * block / Tile::kBlocks * kStripRows;
  tile.end_row = kStrips * (block + 1) / Tile::kBlocks * kStripRows;
#pragma unroll
  for (int i = 0; i < Tile::kBlocks; ++i) tile.sums[i] = InBlock(sum_memory, (block + i) % Tile::kBlocks);
  for (int first = tile.first_row; first < tile.end_row; first += kStripRows) {
    const int strip = first / kStripRows;
    uint32_t of_rows = shared.notes[strip];
    for (int i = 0; i < Tile::kBlocks; ++i) of_rows |= *InBlock(&shared.notes[strip], i);
    if (!NeedsExactProducts({of_rows, notes.of_weight}) || first_row + first >= arguments.m) continue;
    tile.exact_strips |= 1u << strip;
    if (strip % Tile::kGroups == group) {
      ExactStrip(arguments, first_row + first, run, Tile::kColumns, threadIdx.x % 128, 128,
                 sum_memory + first * Tile::kPitch, Tile::kPitch);
    }
  }
  if (tile.exact_strips != 0) SyncThreads(kWorkersBarrier, Tile::kWorkers);
  FinishTile<Tile::kColumns, Tile::kSlices, Tile::kWorkers>(arguments, first_row, run, tile, threadIdx.x, kept);
  SyncCluster();  // others may still read this block's sums
}

}  // namespace dpiframe::cuda
