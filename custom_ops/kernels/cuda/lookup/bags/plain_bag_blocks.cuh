// Bags by whole blocks: all threads look a bag's rows up side by side, into shared memory, from where they are joined
// in their order.
#pragma once

#include "kernels/cuda/device/async_copy.cuh"
#include "kernels/cuda/device/shared_address.cuh"
#include "plain_bag_place.cuh"

namespace dpiframe::cuda {

constexpr int kBagStages = 3;     // of rows in shared memory, all but one on their way there
constexpr int kBagStageRows = 2;  // of which a thread copies a chunk in each stage
constexpr int kJoinBatch = 8;     // rows that are read from there at a time; divides those of a stage

// What a block has in shared memory.
struct PlainBagMemory {
  static constexpr int kChunks = kBagStages * kBagStageRows * kBlockThreads;
  Vector<16> rows[kChunks];
  float weights[kChunks >> kMinSharedLanesLog2];
  uint32_t long_bags[kBlockThreads / 32];  // as bits of their groups' first threads
  unsigned long long left_out;
};

template <int kBytes>
__device__ __forceinline__ void FetchChunk(Vector<kBytes>* to, const char* from, bool read) {
  if constexpr (kBytes == 16) {
    CopyAsync16(SharedAddress(to), from, read ? 16 : 0);
  } else if constexpr (kBytes == 4) {
    CopyAsync4(SharedAddress(to), from, read ? 4 : 0);
  } else {
    *to = read ? LoadAs<Vector<kBytes>>(from) : Vector<kBytes>{};
  }
}

// A bag's chunks by all threads of the block. Each looks its chunk up in some of the rows; one thread an element joins
// them.
template <bool kWide, bool kWeighted, typename Element, int kBytes>
__device__ __forceinline__ void PlainBagByBlock(const LookupArguments& a, const Segment& segment,
                                                const PlainBagPlace& place, PlainBagMemory* memory) {
  constexpr int kSize = static_cast<int>(sizeof(Element));
  constexpr int kElements = kBytes / kSize;
  const uint32_t chunk_count = place.record->chunk_count;
  const uint32_t lane = threadIdx.x & ((1u << segment.lanes_log2) - 1);
  const uint32_t own_row = threadIdx.x >> segment.lanes_log2;
  const uint32_t rows_at_once = kBlockThreads >> segment.lanes_log2;
  const uint32_t stage_rows = rows_at_once * kBagStageRows;
  const bool lowest = place.rule == PoolRule::kMax;
  const bool counts = place.counts && lane == 0;
  const uint32_t first_chunk = place.chunk - lane;
  if (first_chunk >= chunk_count) return;
  uint32_t left_out = 0;
  Vector<kBytes>* const rows = reinterpret_cast<Vector<kBytes>*>(memory->rows);

  int64_t ids[2][kBagStageRows];
  const auto load_ids = [&](int64_t stage, int64_t* to) {
#pragma unroll
    for (int u = 0; u < kBagStageRows; ++u) {
      const int64_t position = stage * stage_rows + u * rows_at_once + own_row;
      to[u] = 0;
      if (position >= place.length) continue;
      to[u] = kWide ? LoadAs<int64_t>(place.ids + position * 8) : LoadAs<int32_t>(place.ids + position * 4);
    }
  };
  const auto fetch = [&](int64_t stage, int buffer) {
#pragma unroll
    for (int u = 0; u < kBagStageRows; ++u) {
      const int64_t position = stage * stage_rows + u * rows_at_once + own_row;
      Vector<kBytes>* const to = rows + (buffer * kBagStageRows + u) * kBlockThreads + threadIdx.x;
      ListTerm term = ListTerm::kNothing;
      if (position < place.length) {
        term = ResolveListId(a, place, counts, &ids[0][u]);
        left_out += term == ListTerm::kNothing ? 1 : 0;
      }
      if (kWeighted && lane == 0) {
        const float weight = term == ListTerm::kNothing ? 0.0f : LoadAs<float>(place.weights + position * 4);
        memory->weights[(buffer * kBagStageRows + u) * rows_at_once + own_row] = weight;
      }
      if (!place.has_chunk) continue;
      if (term == ListTerm::kNothing && lowest) {
        Totals<Element, kBytes> nothing;
        nothing.Set(-INFINITY);
        *to = nothing.Result(BagPooling(PoolRule::kMax));
      } else {
        const bool read = term == ListTerm::kRow;
        FetchChunk<kBytes>(to, read ? ListRow<kBytes>(place, ids[0][u], place.chunk) : place.table, read);
      }
    }
  };
  const auto advance = [&](int64_t stage, int buffer) {
    if (stage * stage_rows < place.length) fetch(stage, buffer);
    CommitCopies();
#pragma unroll
    for (int u = 0; u < kBagStageRows; ++u) ids[0][u] = ids[1][u];
    load_ids(stage + 2, ids[1]);
  };

  if (threadIdx.x == 0) memory->left_out = 0;
  load_ids(0, ids[0]);
  load_ids(1, ids[1]);
#pragma unroll
  for (int stage = 0; stage < kBagStages - 1; ++stage) advance(stage, stage);

  const uint32_t chunks_here = min(1u << segment.lanes_log2, chunk_count - first_chunk);
  const bool joins = threadIdx.x < chunks_here * kElements;
  const Pooling pooling = BagPooling(place.rule);
  Totals<Element, kSize> totals;
  totals.Start(pooling);
  int buffer = 0;
  int64_t stage = 0;
#pragma unroll 1
  for (int64_t first = 0; first < place.length; first += stage_rows) {
    WaitForCopies<kBagStages - 2>();
    __syncthreads();
    advance(stage + kBagStages - 1, buffer == 0 ? kBagStages - 1 : buffer - 1);
    if (joins) {
      const int64_t rest = place.length - first;
      const uint32_t here = rest < stage_rows ? static_cast<uint32_t>(rest) : stage_rows;
      const char* const own =
          reinterpret_cast<const char*>(rows + buffer * kBagStageRows * kBlockThreads) + threadIdx.x * kSize;
      const uint32_t row_bytes = kBytes << segment.lanes_log2;
      const float* const weights = memory->weights + buffer * stage_rows;
      const auto row = [&](uint32_t r) { return *reinterpret_cast<const Vector<kSize>*>(own + r * row_bytes); };
      if (lowest) {
#pragma unroll 1
        for (uint32_t r = 0; r < here; r += kJoinBatch) {
#pragma unroll
          for (uint32_t b = 0; b < kJoinBatch; ++b) totals.Join(pooling, row(r + b), 1.0f);
        }
      } else {
#pragma unroll 2
        for (uint32_t r = 0; r < here; r += kJoinBatch) {
#pragma unroll
          for (uint32_t b = 0; b < kJoinBatch; ++b) {
            if (kWeighted) {
              totals.Join(pooling, row(r + b), weights[r + b]);
            } else {
              totals.Add(row(r + b));
            }
          }
        }
      }
    }
    ++stage;
    buffer = buffer + 1 == kBagStages ? 0 : buffer + 1;
  }
  WaitForCopies<0>();
  if (lane == 0 && left_out != 0) atomicAdd(&memory->left_out, static_cast<unsigned long long>(left_out));
  __syncthreads();
  if (joins) {
    const int64_t count = place.length - static_cast<int64_t>(memory->left_out);
    StoreListPool(segment, place, first_chunk * kElements + threadIdx.x, kElements, count, &totals);
  }
  __syncthreads();  // the memory may serve another bag
}

}  // namespace dpiframe::cuda
