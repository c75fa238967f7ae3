// The inner loops of FusedGemm for compute capability 9.0: a warpgroup of 128 threads multiplies 64 rows with the
// columns of a tile, a chunk of 64 values of K after the other.
//
// The tensor core adds without rounding: what it drops grows with the number of additions. So its sums go on in float32
// registers after each chunk, where they are multiplied with the power of two of their row, too. Of the three products,
// the two small ones come first, with all bits that they have, times 2^11; or they have registers of their own.
#pragma once

#include "exact.cuh"
#include "kernels/cuda/device/bulk_copy.cuh"
#include "records.h"
#include "rows.cuh"
#include "split.cuh"
#include "wgmma_instructions.cuh"
#include "wgmma_tile.cuh"

namespace dpiframe::cuda {

constexpr int kChunkSteps = kChunk / 16;

// What a warp multiplies: rows and columns of the matrices, and which warpgroup it belongs to.
struct WarpShare {
  const float* a;
  int64_t first_row;
  int first_column;
  int group;
  int slice;
};

// Two groups of rows take turns at the tensor core: while one multiplies, the other does the rest. Without, both would
// do the same at the same time. A group's turn begins when the other's first products of a chunk are done.
template <class Tile>
class Turns {
 public:
  __device__ __forceinline__ explicit Turns(int group) : group_(group) {
    if (Tile::kTurns && group == 1) ArriveAtThreads(kFirstTurn, 256);
  }
  __device__ __forceinline__ void Begin() const {
    if constexpr (Tile::kTurns) SyncThreads(kFirstTurn + group_, 256);
  }
  __device__ __forceinline__ void End(bool last) const {
    if constexpr (Tile::kTurns) {
      if (group_ == 0 || !last) ArriveAtThreads(kFirstTurn + 1 - group_, 256);
    }
  }

 private:
  static constexpr int kFirstTurn = 2;  // of the hardware's barriers
  int group_;
};

// A place in the ring of stages.
template <class Tile>
struct Stage {
  int index;
  uint32_t parity;

  __device__ __forceinline__ explicit Stage(int slice)
      : index(slice % Tile::kStages), parity(slice / Tile::kStages & 1) {}
  __device__ __forceinline__ void Next() {
    index += Tile::kSlices;
    if (index >= Tile::kStages) index -= Tile::kStages, parity ^= 1;
  }
};

// Keeps what is computed with registers on its side of this line: to the compiler, a product is there once it was
// begun.
template <int kCount>
__device__ __forceinline__ void Hold(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i]));
}

// The products of a chunk, to be added to the sums.
template <class Tile>
class ChunkProducts {
 public:
  static constexpr int kSums = Tile::kColumns / 2;

  // `high(step)`, `low(step)`: the rows' parts; `columns`: the address of the weight's. `end_turn` is called where the
  // other group may begin.
  template <class High, class Low, class EndTurn>
  __device__ __forceinline__ void Compute(const High& high, const Low& low, uint32_t columns, const EndTurn& end_turn) {
    const uint32_t rests = columns + Tile::kPartBytes;
    BeginProducts();
    constexpr bool kGoOn = Tile::kProducts == 3 && !Tile::kSeparate;
    int begun = 0;
    const auto count = [&](int products) {
      begun += products;
      if (begun == Tile::kTurnAfter) CommitProducts();
    };
    const auto pass_turn = [&] {
      CommitProducts();
      WaitForProducts<1>();
      end_turn();
    };
    if constexpr (Tile::kProducts == 3) {
#pragma unroll
      for (int step = 0; step < kChunkSteps; ++step) {
        Products<Tile::kColumns>::Add(small(), high(step), PartsAt(rests + 32 * step), step > 0);
        Products<Tile::kColumns>::Add(small(), low(step), PartsAt(columns + 32 * step), true);
        count(2);
      }
    }
    if constexpr (kGoOn) {
      pass_turn();
      WaitForProducts<0>();
      Hold(products_);
#pragma unroll
      for (int i = 0; i < kSums; ++i) products_[i] *= 1.0f / kRestScale;
      Hold(products_);
      BeginProducts();
    }
#pragma unroll
    for (int step = 0; step < kChunkSteps; ++step) {
      Products<Tile::kColumns>::Add(products_, high(step), PartsAt(columns + 32 * step), kGoOn || step > 0);
      count(1);
    }
    if constexpr (kGoOn) {
      CommitProducts();
    } else {
      pass_turn();
    }
    WaitForProducts<0>();
    Hold(products_);
    if constexpr (Tile::kSeparate) Hold(small_);
  }

  // `unscale`: of rows g and g + 8.
  __device__ __forceinline__ void AddTo(float (&sums)[kSums], const float (&unscale)[2]) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      if constexpr (Tile::kSeparate) products_[i] = fmaf(small_[i], 1.0f / kRestScale, products_[i]);
      sums[i] = fmaf(products_[i], unscale[i / 2 % 2], sums[i]);
    }
  }

 private:
  __device__ __forceinline__ float (&small()) [kSums] {
    if constexpr (Tile::kSeparate) {
      return small_;
    } else {
      return products_;
    }
  }

  float products_[kSums];
  float small_[Tile::kSeparate ? kSums : 1];
};

// Fetches A's rows, splits them and multiplies. The sums of a thread: of rows g and g + 8 of its warp's 16, columns
// 8j + 2t and the next.
template <class Tile>
__device__ __forceinline__ void MultiplyRows(const GemmArguments& arguments, WgmmaShared<Tile>* shared, uint32_t ring,
                                             const WarpShare& share, const Chunks& chunks, WarpNotes* notes,
                                             float (&sums)[Tile::kColumns / 2]) {
  const int lane = threadIdx.x & 31;
  RowRing<Tile::kRowBuffers> rows(
      arguments, share.a, share.first_row,
      ring + Tile::kStages * Tile::kStageBytes + threadIdx.x / 32 * RowRing<Tile::kRowBuffers>::kBytes);
  const FlagWords<Tile::kColumns> flags(arguments.weight, share.first_column, lane);
  const int first = chunks.first + share.slice;
  int copied = first;
  const auto copy = [&] {
    rows.Copy(arguments, copied < chunks.end ? copied * kChunk : arguments.k);
    copied += Tile::kSlices;
  };
  for (int i = 0; i < Tile::kRowBuffers - 1; ++i) copy();
  notes->of_weight = flags.All();
  const bool note_uneven = (notes->of_weight & kWeightUneven) != 0;
  const Turns<Tile> turns(share.group);
  Stage<Tile> stage(share.slice);
  SplitRows<kChunkSteps, Tile::kProducts> split;
  ChunkProducts<Tile> products;
#pragma unroll 1
  for (int chunk = first; chunk < chunks.end; chunk += Tile::kSlices) {
    rows.Wait();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float4 values[kChunkSteps];
      rows.Read(half, values);
      split.Split(half, values, note_uneven, &notes->of_rows);
    }
    rows.Next();
    copy();
    WaitFor(SharedAddress(&shared->full[stage.index]), stage.parity);
    turns.Begin();
    products.Compute([&](int step) -> auto& { return split.high[step]; },
                     [&](int step) -> auto& { return split.low[step]; }, ring + stage.index * Tile::kStageBytes,
                     [&] { turns.End(chunk + Tile::kSlices >= chunks.end); });
    split.Keep();
    if (lane == 0) Arrive(SharedAddress(&shared->empty[stage.index]));
    products.AddTo(sums, split.unscale);
    stage.Next();
  }
}

}  // namespace dpiframe::cuda
