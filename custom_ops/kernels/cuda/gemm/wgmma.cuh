// FusedGemm for compute capability 9.0 where there are few tiles: warpgroups, or blocks, share out a tile's chunks. One
// warp of a block keeps copying the weight's parts to shared memory; warpgroups multiply; all add up, apply the steps
// and write.
#pragma once

#include "copies.cuh"
#include "wgmma_loops.cuh"
#include "wgmma_tile.cuh"

namespace dpiframe::cuda {

constexpr int kWorkersBarrier = 1;

template <class Tile>
__device__ __forceinline__ void CopyChunks(const GemmArguments& arguments, WgmmaShared<Tile>* shared, uint32_t ring,
                                           int first_column, const Chunks& chunks) {
  PartsSource columns(arguments.weight.parts, arguments.weight.rows, first_column, Tile::kColumns, Tile::kParts,
                      chunks.first);
  const uint32_t bytes = Tile::kParts * columns.bytes();
  int stage = 0;
  uint32_t parity = 1;  // of the phase before the first: it is over
  for (int chunk = chunks.first; chunk < chunks.end; ++chunk) {
    const uint32_t full = SharedAddress(&shared->full[stage]);
    const uint32_t to = ring + stage * Tile::kStageBytes;
    WaitFor(SharedAddress(&shared->empty[stage]), parity);
    ArriveExpecting(full, bytes);
#pragma unroll
    for (int part = 0; part < Tile::kParts; ++part) {
      columns.CopyPart(to + part * Tile::kPartBytes, full);
    }
    if (++stage == Tile::kStages) stage = 0, parity ^= 1;
  }
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1) WgmmaGemm(const __grid_constant__ GemmArguments arguments) {
  extern __shared__ uint8_t dynamic[];
  __shared__ WgmmaShared<Tile> shared;
  uint8_t* const ring_memory = dynamic + ((1024 - (SharedAddress(dynamic) & 1023)) & 1023);
  const uint32_t ring = SharedAddress(ring_memory);
  float* const sum_memory = reinterpret_cast<float*>(ring_memory);
  const int number = blockIdx.x, across = TilesAcross(arguments, Tile::kColumns);
  const int64_t first_row = static_cast<int64_t>(number / across) * Tile::kRows;
  const RunColumns run(arguments, number % across, Tile::kColumns);
  const int first_column = run.first;
  const Chunks chunks = ChunksOfBlock<Tile>(arguments.k);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Tile::kStages; ++stage) {
      InitBarrier(SharedAddress(&shared.full[stage]), 1);
      InitBarrier(SharedAddress(&shared.empty[stage]), 4 * Tile::kRowGroups);
    }
    FenceBarriers();
  }
  if (threadIdx.x < Tile::kRows / kStripRows) shared.notes[threadIdx.x] = 0;
  __syncthreads();
  LetLaterKernelsStart();
  const int group = threadIdx.x / 128;
  if (group == Tile::kGroups) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Tile::kCopierRegisters));
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    if (warp == 1) {
      WaitForEarlierKernels();
      PrefetchMatrices<Tile>(arguments, first_row, run, lane);
      KeepColumns<Tile>(arguments, run, shared.kept, lane);
    }
    if (threadIdx.x == Tile::kWorkers) {
      if (!arguments.weight_is_constant) WaitForEarlierKernels();
      CopyChunks<Tile>(arguments, &shared, ring, first_column, chunks);
    }
    __syncwarp();
    __syncthreads();
    if constexpr (Tile::kBlocks > 1) {
      SyncCluster();
      SyncCluster();
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Tile::kWorkerRegisters));
  const int row_group = group % Tile::kRowGroups, slice = group / Tile::kRowGroups;
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const int row = 64 * row_group + 16 * warp;  // of the warp, in the tile
  float sums[Tile::kColumns / 2] = {};
  WarpNotes notes;
  const WarpShare share{arguments.a + run.begin, first_row + row, first_column, group, slice};
  WaitForEarlierKernels();
  MultiplyRows<Tile>(arguments, &shared, ring, share, chunks, &notes, sums);
  notes.of_rows = __reduce_or_sync(0xffffffffu, notes.of_rows);
  const KeptColumns kept{shared.kept, Tile::kColumns, run.first, KeptVectors(arguments)};
  if (lane == 0 && notes.of_rows != 0) atomicOr(&shared.notes[row / kStripRows], notes.of_rows);
  __syncthreads();  // all copies have been waited for: the buffers can hold the sums
  float* const slab = sum_memory + slice * Tile::kSlab + (row + lane / 4) * Tile::kPitch + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < Tile::kColumns / 2; i += 2) {
    *reinterpret_cast<float2*>(slab + i / 2 % 2 * 8 * Tile::kPitch + i / 4 * 8) = make_float2(sums[i], sums[i + 1]);
  }
  TileSums<Tile::kBlocks> tile{{}, Tile::kPitch, Tile::kSlab, 0, 0, Tile::kRows};
  if constexpr (Tile::kBlocks == 1) {
    SyncThreads(kWorkersBarrier, Tile::kWorkers);
    tile.sums[0] = sum_memory;
  } else {
    // Each block finishes some of the rows, with the sums of all.
    SyncCluster();
    constexpr int kStrips = Tile::kRows / kStripRows;
    const int block = static_cast<int>(BlockInCluster());
    tile.first_row = kStrips * block / Tile::kBlocks * kStripRows;
    tile.end_row = kStrips * (block + 1) / Tile::kBlocks * kStripRows;
#pragma unroll
    for (int i = 0; i < Tile::kBlocks; ++i) tile.sums[i] = InBlock(sum_memory, (block + i) % Tile::kBlocks);
  }
  for (int first = tile.first_row; first < tile.end_row; first += kStripRows) {
    const int strip = first / kStripRows;
    uint32_t of_rows = shared.notes[strip];
    if constexpr (Tile::kBlocks > 1) {
      for (int i = 0; i < Tile::kBlocks; ++i) of_rows |= *InBlock(&shared.notes[strip], i);
    }
    if (!NeedsExactProducts({of_rows, notes.of_weight}) || first_row + first >= arguments.m) continue;
    tile.exact_strips |= 1u << strip;
    if (strip % Tile::kGroups == group) {
      ExactStrip(arguments, first_row + first, run, Tile::kColumns, threadIdx.x % 128, 128,
                 sum_memory + first * Tile::kPitch, Tile::kPitch);
    }
  }
  if (tile.exact_strips != 0) SyncThreads(kWorkersBarrier, Tile::kWorkers);
  FinishTile<Tile::kColumns, Tile::kSlices, Tile::kWorkers>(arguments, first_row, run, tile, threadIdx.x, kept);
  if constexpr (Tile::kBlocks > 1) SyncCluster();  // others may still read this block's sums
}

}  // namespace dpiframe::cuda
