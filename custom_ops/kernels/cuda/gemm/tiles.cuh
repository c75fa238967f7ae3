// FusedGemm for compute capability 9.0 in tiles of 128 rows: two warpgroups multiply 64 rows each, with the columns
// that one warp of the block keeps copying to shared memory, and A's rows in parts with them, where a kernel has split
// it before. A block goes on from tile to tile without a pause: while the sums of one are finished, the copies for the
// next are under way.
#pragma once

#include "copies.cuh"
#include "registers.cuh"
#include "wgmma_loops.cuh"
#include "wgmma_tile.cuh"

namespace dpiframe::cuda {

template <class Tile>
struct TilesShared {
  uint64_t full[Tile::kStages];
  uint64_t empty[Tile::kStages];
};

// The tiles of a block.
template <class Tile>
class BlockTiles {
 public:
  __device__ __forceinline__ explicit BlockTiles(const GemmArguments& arguments)
      : across_(TilesAcross(arguments, Tile::kColumns)),
        end_(static_cast<int>((arguments.m + Tile::kRows - 1) / Tile::kRows) * across_),
        tile_(blockIdx.x) {}

  __device__ __forceinline__ bool Any() const { return tile_ < end_; }
  __device__ __forceinline__ void Next() { tile_ += gridDim.x; }
  __device__ __forceinline__ int64_t first_row() const { return static_cast<int64_t>(tile_ / across_) * Tile::kRows; }
  __device__ __forceinline__ RunColumns columns(const GemmArguments& arguments) const {
    return {arguments, tile_ % across_, Tile::kColumns};
  }

 private:
  int across_;
  int end_;
  int tile_;
};

// A tile's KeptColumns come with its last chunk. There is one more place for them than there are stages: so many tiles
// may be under way, of one chunk each.
template <class Tile>
__device__ __forceinline__ uint32_t KeptAt(uint32_t ring, int buffer) {
  return ring + Tile::kStages * Tile::kStageBytes + Tile::kRowRingBytes + buffer * Tile::kKeptBytes;
}

template <class Tile>
class KeptSource {
 public:
  __device__ __forceinline__ KeptSource(const GemmArguments& arguments, const RunColumns& run)
      : arguments_(arguments),
        first_(run.first),
        vectors_(Vectors(arguments)),
        unscale_bytes_(4 * min(Tile::kColumns, arguments.weight.rows - run.first)),
        vector_bytes_(4 * min(Tile::kColumns, run.end - run.first)) {}

  static __device__ __forceinline__ int Vectors(const GemmArguments& arguments) {
    return arguments.y_by_4 ? KeptVectors(arguments) : 0;
  }
  __device__ __forceinline__ uint32_t bytes() const { return unscale_bytes_ + vectors_ * vector_bytes_; }
  __device__ __forceinline__ void Copy(uint32_t to, uint32_t barrier) const {
    CopyToShared(to, arguments_.weight.unscale + first_, unscale_bytes_, barrier);
    for (int i = 0, vector = 0; vector < vectors_; ++i) {
      if (arguments_.steps[i].kind != StepOperand::kVector) continue;
      CopyToShared(to + ++vector * Tile::kColumns * 4, arguments_.steps[i].operand + first_, vector_bytes_, barrier);
    }
  }

 private:
  const GemmArguments& arguments_;
  int first_;
  int vectors_;
  uint32_t unscale_bytes_;
  uint32_t vector_bytes_;
};

constexpr int kTileBegins = 1;  // a barrier of the hardware

// The copying warp. Its first thread copies; all tell the prefetching warp of each tile.
template <class Tile>
__device__ __forceinline__ void CopyTiles(const GemmArguments& arguments, TilesShared<Tile>* shared, uint32_t ring,
                                          int chunks, int lane) {
  int stage = 0, buffer = 0;
  uint32_t parity = 1;  // of the phase before the first: it is over
  if (Tile::kPresplit || !arguments.weight_is_constant) WaitForEarlierKernels();
  for (BlockTiles<Tile> tiles(arguments); tiles.Any(); tiles.Next()) {
    const RunColumns run = tiles.columns(arguments);
    PartsSource columns(arguments.weight.parts, arguments.weight.rows, run.first, Tile::kColumns, Tile::kParts, 0);
    [[maybe_unused]] PartsSource rows(arguments.split.parts, arguments.split.rows, tiles.first_row(), Tile::kRows,
                                      Tile::kParts, 0);
    const KeptSource<Tile> kept(arguments, run);
    const uint32_t bytes = Tile::kParts * (columns.bytes() + (Tile::kPresplit ? rows.bytes() : 0));
    if (lane == 0) {
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const uint32_t full = SharedAddress(&shared->full[stage]);
        const uint32_t to = ring + stage * Tile::kStageBytes;
        WaitFor(SharedAddress(&shared->empty[stage]), parity);
        const bool last = chunk + 1 == chunks;
        ArriveExpecting(full, bytes + (last ? kept.bytes() : 0));
#pragma unroll
        for (int part = 0; part < Tile::kParts; ++part) {
          columns.CopyPart(to + part * Tile::kPartBytes, full);
          if constexpr (Tile::kPresplit) rows.CopyPart(to + Tile::kColumnBytes + part * Tile::kRowPartBytes, full);
        }
        if (last) {
          WaitForEarlierKernels();
          kept.Copy(KeptAt<Tile>(ring, buffer), full);
        }
        if (++stage == Tile::kStages) stage = 0, parity ^= 1;
      }
    }
    __syncwarp();
    SyncThreads(kTileBegins, 64);
    if (++buffer > Tile::kStages) buffer = 0;
  }
}

// The prefetching warp: a tile ahead of the copies of its last chunk, except for the first.
template <class Tile>
__device__ __forceinline__ void PrefetchTiles(const GemmArguments& arguments, int lane) {
  WaitForEarlierKernels();
  for (BlockTiles<Tile> tiles(arguments); tiles.Any(); tiles.Next()) {
    PrefetchMatrices<Tile>(arguments, tiles.first_row(), tiles.columns(arguments), lane);
    SyncThreads(kTileBegins, 64);
  }
}

// The rows of a warp, split before: they come with the columns, and their scales are read a chunk ahead.
template <class Tile, bool kPresplit>
class WarpRows {
 public:
  float unscale[2];

  __device__ __forceinline__ WarpRows(uint32_t ring, int group, int chunks)
      : chunks_(chunks), high_(ring + Tile::kColumnBytes + group * 64 * kPartRowBytes) {}

  __device__ __forceinline__ void Begin(const GemmArguments& arguments, int64_t first_row, const RunColumns&) {
    first_row_ = first_row;
    ReadScales(arguments, 0);
  }
  __device__ __forceinline__ void Take(const GemmArguments& arguments, int chunk, WarpNotes* notes) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      unscale[half] = __uint_as_float(bits_[half] & ~kRowNotes);
      notes->of_rows |= bits_[half] & kRowNotes;
    }
    ReadScales(arguments, min(chunk + 1, chunks_ - 1));
  }
  template <class EndTurn>
  __device__ __forceinline__ void Multiply(ChunkProducts<Tile>* products, int stage, uint32_t columns,
                                           const EndTurn& end_turn) {
    const uint32_t high = high_ + stage * Tile::kStageBytes;
    products->Compute([&](int step) { return PartsAt(high + 32 * step); },
                      [&](int step) { return PartsAt(high + Tile::kRowPartBytes + 32 * step); }, columns, end_turn);
  }

 private:
  __device__ __forceinline__ void ReadScales(const GemmArguments& arguments, int chunk) {
    const int rows = arguments.split.rows;
    const uint32_t* const of_chunk = arguments.split.unscale + static_cast<int64_t>(chunk) * rows;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      bits_[half] = of_chunk[min(first_row_ + threadIdx.x % 32 / 4 + 8 * half, static_cast<int64_t>(rows - 1))];
    }
  }

  int chunks_;
  uint32_t high_;
  int64_t first_row_ = 0;
  uint32_t bits_[2];
};

// The rows of a warp that splits them itself: copies of later chunks are under way.
template <class Tile>
class WarpRows<Tile, false> : public SplitRows<kChunkSteps, Tile::kProducts> {
 public:
  __device__ __forceinline__ WarpRows(uint32_t ring, int, int)
      : memory_(ring + Tile::kStages * Tile::kStageBytes + threadIdx.x / 32 * Ring::kBytes) {}

  __device__ __forceinline__ void Begin(const GemmArguments& arguments, int64_t first_row, const RunColumns& run) {
    rows_ = Ring(arguments, arguments.a + run.begin, first_row, memory_);
    for (int i = 0; i < Tile::kRowBuffers - 1; ++i) rows_.Copy(arguments, i * kChunk);
  }
  __device__ __forceinline__ void Take(const GemmArguments& arguments, int chunk, WarpNotes* notes) {
    const bool note_uneven = (notes->of_weight & kWeightUneven) != 0;
    rows_.Wait();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float4 values[kChunkSteps];
      rows_.Read(half, values);
      this->Split(half, values, note_uneven, &notes->of_rows);
    }
    rows_.Next();
    rows_.Copy(arguments, (chunk + Tile::kRowBuffers - 1) * kChunk);
  }
  template <class EndTurn>
  __device__ __forceinline__ void Multiply(ChunkProducts<Tile>* products, int, uint32_t columns,
                                           const EndTurn& end_turn) {
    products->Compute([&](int step) -> auto& { return this->high[step]; },
                      [&](int step) -> auto& { return this->low[step]; }, columns, end_turn);
    this->Keep();
  }

 private:
  using Ring = RowRing<Tile::kRowBuffers>;

  uint32_t memory_;
  Ring rows_;
};

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1) TilesGemm(const __grid_constant__ GemmArguments arguments) {
  extern __shared__ uint8_t dynamic[];
  __shared__ TilesShared<Tile> shared;
  uint8_t* const ring_memory = dynamic + ((1024 - (SharedAddress(dynamic) & 1023)) & 1023);
  const uint32_t ring = SharedAddress(ring_memory);
  const int chunks = (arguments.k + kChunk - 1) / kChunk;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Tile::kStages; ++stage) {
      InitBarrier(SharedAddress(&shared.full[stage]), 1);
      InitBarrier(SharedAddress(&shared.empty[stage]), 4 * Tile::kRowGroups);
    }
    FenceBarriers();
  }
  __syncthreads();
  LetLaterKernelsStart();
  const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  if (group == Tile::kGroups) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Tile::kCopierRegisters));
    if (warp == 0) CopyTiles<Tile>(arguments, &shared, ring, chunks, lane);
    if (warp == 1) PrefetchTiles<Tile>(arguments, lane);
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Tile::kWorkerRegisters));
  const int row = 64 * group + 16 * warp;  // of the warp, in the tile
  const int kept_vectors = KeptSource<Tile>::Vectors(arguments);
  const Turns<Tile> turns(group);
  Stage<Tile> stage(0);
  int buffer = 0;
  BlockTiles<Tile> tiles(arguments);
  WarpRows<Tile, Tile::kPresplit> rows(ring, group, chunks);
  WaitForEarlierKernels();
  rows.Begin(arguments, tiles.first_row() + row, tiles.columns(arguments));
#pragma unroll 1
  while (tiles.Any()) {
    const RunColumns run = tiles.columns(arguments);
    const int64_t first_row = tiles.first_row() + row;
    tiles.Next();
    const FlagWords<Tile::kColumns> flags(arguments.weight, run.first, lane);
    WarpNotes notes;
    if constexpr (!Tile::kPresplit) notes.of_weight = flags.All();
    float sums[Tile::kColumns / 2] = {};
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; ++chunk) {
      ChunkProducts<Tile> products;
      rows.Take(arguments, chunk, &notes);
      WaitFor(SharedAddress(&shared.full[stage.index]), stage.parity);
      turns.Begin();
      rows.Multiply(&products, stage.index, ring + stage.index * Tile::kStageBytes,
                    [&] { turns.End(chunk + 1 == chunks && !tiles.Any()); });
      if (lane == 0) Arrive(SharedAddress(&shared.empty[stage.index]));
      products.AddTo(sums, rows.unscale);
      stage.Next();
    }
    if (tiles.Any()) rows.Begin(arguments, tiles.first_row() + row, tiles.columns(arguments));
    notes.of_rows = __reduce_or_sync(0xffffffffu, notes.of_rows);
    if constexpr (Tile::kPresplit) notes.of_weight = flags.All();
    const KeptColumns kept{reinterpret_cast<const float*>(ring_memory + KeptAt<Tile>(0, buffer)), Tile::kColumns,
                           run.first, kept_vectors};
    FinishRows<Tile::kColumns>(arguments, first_row, run, notes, sums, kept, lane);
    FenceBeforeCopies();  // these reads, from the copy that fills the place again
    if (++buffer > Tile::kStages) buffer = 0;
  }
}

}  // namespace dpiframe::cuda
