// How a block of FusedGemm for compute capability 9.0 is divided, and what it shares.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "exact.cuh"
#include "kernels/cuda/device/bulk_copy.cuh"
#include "records.h"
#include "rows.cuh"
#include "runs.cuh"

namespace dpiframe::cuda {

constexpr int kWorkersBarrier = 1;  // of the hardware's: where the threads that multiply wait before a tile's end

// A block computes a tile of 64 * kRowGroups rows by kColumns columns. With several kSlices, warpgroups share the rows
// and take turns at the chunks, so that one splits while another multiplies. With kBlocks, as many blocks, a cluster,
// share a tile, each with a part of K: for products that would give too few blocks to fill the GPU. kProducts: 3 with
// both parts of the values, 1 with the rounded values alone. kPresplit: the rows were split by a kernel before.
template <int kRowGroups_, int kSlices_, int kColumns_, int kProducts_, int kBlocks_, bool kPresplit_>
struct WgmmaTile {
  static constexpr int kRowGroups = kRowGroups_;
  static constexpr int kSlices = kSlices_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kProducts = kProducts_;
  static constexpr int kBlocks = kBlocks_;
  static constexpr bool kPresplit = kPresplit_;
  static constexpr bool kAlone = kSlices == 1 && kBlocks == 1;  // a tile's sums are complete in a warp's registers
  static constexpr bool kTurns = kRowGroups == 2;
  static constexpr int kRows = 64 * kRowGroups;
  static constexpr int kGroups = kRowGroups * kSlices;
  static constexpr int kWorkers = 128 * kGroups;
  static constexpr int kThreads = kWorkers + 128;

  // Whether the small products have registers of their own: two rounds of products then need no pause in between.
  static constexpr bool kSeparate = kProducts == 3 && (kPresplit ? kColumns <= 128 : kColumns <= 64 && kGroups == 2);

  // A warpgroup passes the turn on when so many of a chunk's products are done: those that are left keep the tensor
  // core busy until the other begins. Where there is a pause, those before it.
  static constexpr int kTurnAfter = kProducts == 1 ? 2 : kSeparate ? 6 : 8;

  // Shared memory: a ring of stages, each with a chunk of the weight's columns and, if they are split, of A's rows.
  // Then rings of the warps for A's rows that are not. Afterwards the sums that others need.
  static constexpr int kParts = kProducts == 3 ? 2 : 1;
  static constexpr int kPartBytes = kColumns * kPartRowBytes;
  static constexpr int kColumnBytes = kParts * kPartBytes;
  static constexpr int kRowPartBytes = kRows * kPartRowBytes;
  static constexpr int kStageBytes = kColumnBytes + (kPresplit ? kParts * kRowPartBytes : 0);
  static constexpr int kMostShared = 225 * 1024;
  static constexpr int kKeptFloats = (1 + kMostKeptVectors) * kColumns;
  static constexpr int kKeptBytes = kAlone ? kKeptFloats * 4 : 0;
  static constexpr int kRowBuffers =
      (kMostShared - 3 * (kStageBytes + kKeptBytes) - kKeptBytes) / (4 * kGroups * kRowBufferBytes) >= 4 ? 4 : 3;
  static constexpr int kRowRingBytes = kPresplit ? 0 : 4 * kGroups * kRowBuffers * kRowBufferBytes;
  // A stage belongs to one slice: whoever waits for its next contents must have seen those before.
  static constexpr int kStages =
      (kMostShared - kRowRingBytes - kKeptBytes) / (kStageBytes + kKeptBytes) / kSlices * kSlices;
  static constexpr int kPitch = kColumns + 8;  // of the sums: without bank conflicts
  static constexpr int kSlab = kRows * kPitch;
  static constexpr int kSharedBytes = 1024 + kStages * kStageBytes + kRowRingBytes + (kStages + 1) * kKeptBytes;
  static_assert(kStages >= 3 && kStages >= 2 * kSlices && kSlices * kSlab * 4 <= kSharedBytes - 1024 &&
                kSharedBytes <= 226 * 1024);
  static_assert(!kPresplit || kSlices == 1);

  // Registers of a thread in TilesGemm: what is left when the copying threads have given theirs away.
  static constexpr int kCopierRegisters = kPresplit ? 40 : 24;
  static constexpr int kAtMost = (65536 - 128 * kCopierRegisters) / kWorkers / 8 * 8;
  static constexpr int kWorkerRegisters = kAtMost > 240 ? 240 : kAtMost;
};

template <class Tile>
struct WgmmaShared {
  uint64_t full[Tile::kStages];
  uint64_t empty[Tile::kStages];
  uint32_t notes[Tile::kRows / kStripRows];
  alignas(16) float kept[Tile::kKeptFloats];
};

// The chunks of K that a block takes.
struct Chunks {
  int first;
  int end;
};

template <class Tile>
__device__ __forceinline__ Chunks ChunksOfBlock(int k) {
  const int all = (k + kChunk - 1) / kChunk;
  if constexpr (Tile::kBlocks == 1) return {0, all};
  const int block = static_cast<int>(BlockInCluster());
  return {all * block / Tile::kBlocks, all * (block + 1) / Tile::kBlocks};
}

}  // namespace dpiframe::cuda
