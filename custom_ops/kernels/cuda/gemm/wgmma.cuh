// FusedGemm for compute capability 9.0 where there are few tiles: warpgroups, or blocks, share out a tile's chunks. One
// warp of a block keeps copying the weight's parts to shared memory; warpgroups multiply; all add up, apply the steps
// and write.
#pragma once

#include "clusters.cuh"
#include "copies.cuh"
#include "halves.cuh"
#include "wgmma_loops.cuh"
#include "wgmma_tile.cuh"

namespace dpiframe::cuda {

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
  const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const KeptColumns kept{shared.kept, Tile::kColumns, run.first, KeptVectors(arguments)};
  const bool copies = group == Tile::kGroups;
  const int row_group = group % Tile::kRowGroups, slice = group / Tile::kRowGroups;
  const int row = 64 * row_group + 16 * warp;  // of the warp, in the tile
  float sums[Tile::kColumns / 2] = {};
  WarpNotes notes;
  if (copies) {
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
    if constexpr (Tile::kBlocks == 1) {
      if (warp == 1) ArriveAtThreads(kWorkersBarrier, kHalvesMeet<Tile>);
      return;
    }
  } else {
    const WarpShare share{arguments.a + run.begin, first_row + row, first_column, group, slice};
    WaitForEarlierKernels();
    MultiplyRows<Tile>(arguments, &shared, ring, share, chunks, &notes, sums);
    notes.of_rows = __reduce_or_sync(0xffffffffu, notes.of_rows);
    if (lane == 0 && notes.of_rows != 0) atomicOr(&shared.notes[row / kStripRows], notes.of_rows);
  }
  if constexpr (Tile::kBlocks == 1) {
    FinishHalves<Tile>(arguments, shared, ring_memory + Tile::kStages * Tile::kStageBytes, first_row, row, run, slice,
                       lane, notes, kept, sums);
  } else {
    __syncthreads();  // all copies have been waited for: the buffers can hold the sums
    if (copies) {
      SyncCluster();
      SyncCluster();
      return;
    }
    FinishInCluster<Tile>(arguments, shared, reinterpret_cast<float*>(ring_memory), first_row, row, run, group, slice,
                          lane, notes, kept, sums);
  }
}

}  // namespace dpiframe::cuda
