// Bags: each row pools as many rows of a table as it has ids in a list. Terms are joined in their order, so that the
// results are those of the CPU kernel, bit for bit.
//
// A chunk of a bag is filled by one thread, which has kBagBatch looked-up rows on their way, or, where there are too
// few chunks to fill the GPU, by several lanes of a warp, which look terms up side by side.
#pragma once

#include "bag_rules.cuh"
#include "kernels/cuda/lookup/chunk_groups.cuh"
#include "kernels/cuda/lookup/device_loads.cuh"
#include "kernels/cuda/lookup/kernel.cuh"
#include "kernels/cuda/lookup/pool_totals.cuh"
#include "kernels/cuda/lookup/records.h"

namespace dpiframe::cuda {

// A chunk of a bag in one output row, and where its ids lie in the list.
struct BagPlace {
  BagChunk chunk;
  int64_t row;
  int64_t begin;
  int64_t end;
  const char* list;
  const char* weights;
  const char* table;
};

__device__ __forceinline__ int64_t LoadOffset(const LookupArguments& a, const BagChunk& chunk, const char* offsets,
                                              int64_t index) {
  const int64_t offset = ToId(LoadBits(offsets, index, chunk.offsets_read), chunk.offsets_read);
  return chunk.offsets_steps >= 0 ? ApplySteps(a.steps + chunk.offsets_steps, offset) : offset;
}

__device__ __forceinline__ BagPlace BagPlaceOf(const LookupArguments& a, const Words& words, const Segment& segment,
                                               uint32_t item) {
  BagPlace place{};
  const GroupedChunk grouped = GroupedChunkOf(segment, item);
  place.row = grouped.chunk < segment.chunk_count ? a.first_row + grouped.row_group : a.end_row;
  if (place.row >= a.end_row) return place;
  place.chunk = LoadRecord(a.bag_chunks + segment.first_chunk + grouped.chunk);
  const BagChunk& chunk = place.chunk;
  const uint32_t word = chunk.lookup.facts.word();
  const int64_t length = static_cast<int64_t>(words[word + 1]);
  const char* const offsets = reinterpret_cast<const char*>(words[chunk.offsets_word]);
  Place at = {chunk.offsets_column * (a.rows + 1) + place.row, 1, 0};
  if (chunk.bounds == 0) {
    at = PlaceOf(a, words, chunk.offsets_word, chunk.offsets_column, chunk.offsets_columns, place.row);
  }
  place.begin = ToListPosition(LoadOffset(a, chunk, offsets, at.first), length);
  const bool ends_with_list = chunk.bounds == 0 && place.row + 1 == a.rows;
  place.end = ends_with_list ? length : ToListPosition(LoadOffset(a, chunk, offsets, at.first + at.row_step), length);
  place.list = reinterpret_cast<const char*>(words[word]);
  place.weights = reinterpret_cast<const char*>(words[chunk.weights_word]);
  place.table = TableAddress(words, chunk.lookup.base, chunk.lookup.facts);
  return place;
}

__device__ __forceinline__ uint64_t LoadBagId(const BagPlace& place, int64_t position) {
  return position < place.end ? LoadBits(place.list, position, place.chunk.lookup.facts.read()) : 0;
}

// The row of the table that an id names, or -1 for zeros; whether it counts, as padding and what lies behind the bag
// do not.
struct BagId {
  int64_t row;
  bool counts;
};

__device__ __forceinline__ BagId ResolveBagId(const LookupArguments& a, const BagPlace& place, uint64_t bits,
                                              int64_t position) {
  const BagChunk& chunk = place.chunk;
  const Facts facts = chunk.lookup.facts;
  int64_t id = ToId(bits, facts.read());
  if (facts.has_steps()) id = ApplySteps(a.steps + chunk.line, id);
  const int64_t counted = id + (id < 0 ? facts.table_rows() : 0);
  // an id far below the table would be the -1 that stands for no padding
  const bool padding = chunk.padding >= 0 && counted == chunk.padding;
  if (position >= place.end || padding) return {-1, false};
  if (ResolveId(facts.table_rows(), a.clamp, &id) && facts.counts_bad_ids()) atomicAdd(a.counters + chunk.line, 1ull);
  return {id, true};
}

template <int kBytes>
__device__ __forceinline__ Vector<kBytes> LoadBagRow(const BagPlace& place, int64_t row) {
  return row < 0 ? Vector<kBytes>{} : LoadAs<Vector<kBytes>>(place.table + row * place.chunk.lookup.stride);
}

__device__ __forceinline__ float LoadBagWeight(const BagPlace& place, int64_t position) {
  const Read read = place.chunk.weights_read;
  if (read == Read::kConstant) return 1.0f;
  return position < place.end ? ToFloat(LoadBits(place.weights, position, read), read) : 0.0f;
}

template <typename Element, int kBytes>
__device__ __forceinline__ void StoreBag(const Segment& segment, const BagPlace& place, int64_t count,
                                         Totals<Element, kBytes>* totals) {
  const BagChunk& chunk = place.chunk;
  char* const output =
      reinterpret_cast<char*>(segment.output) + place.row * segment.row_bytes + uint64_t{chunk.lookup.extra} * kBytes;
  *reinterpret_cast<Vector<kBytes>*>(output) = BagResult(chunk.rule, chunk.lowest != 0, count, totals);
}

// A chunk by one thread.
template <typename Element, int kBytes>
__device__ __forceinline__ void BagByThread(const LookupArguments& a, const Segment& segment, const BagPlace& place) {
  const Pooling pooling = BagPooling(place.chunk.rule);
  Totals<Element, kBytes> totals;
  totals.Start(pooling);
  int64_t count = 0;
#pragma unroll 1
  for (int64_t first = place.begin; first < place.end; first += kBagBatch) {
    uint64_t ids[kBagBatch];
#pragma unroll
    for (int b = 0; b < kBagBatch; ++b) ids[b] = LoadBagId(place, first + b);
    Vector<kBytes> rows[kBagBatch];
    uint32_t counted = 0;
#pragma unroll
    for (int b = 0; b < kBagBatch; ++b) {
      const BagId id = ResolveBagId(a, place, ids[b], first + b);
      counted |= (id.counts ? 1u : 0u) << b;
      rows[b] = LoadBagRow<kBytes>(place, id.row);
    }
#pragma unroll
    for (int b = 0; b < kBagBatch; ++b) {
      if ((counted >> b & 1) != 0) totals.Join(pooling, rows[b], LoadBagWeight(place, first + b));
    }
    count += __popc(counted);
  }
  StoreBag<Element, kBytes>(segment, place, count, &totals);
}

// Chunks by a warp: lane t * n + j looks up every 2^lanes_log2-th term of the warp's chunk j, n being how many it has.
template <typename Element, int kBytes>
__device__ __forceinline__ void BagByLanes(const LookupArguments& a, const Words& words, const Segment& segment) {
  constexpr int kBatch = kBagBatch / 2;
  const uint32_t thread = (blockIdx.x - segment.first_block) * kBlockThreads + threadIdx.x;
  const uint32_t chunks_log2 = 5 - segment.lanes_log2;
  const uint32_t lane = threadIdx.x & 31;
  const uint32_t own_chunk = lane & ((1u << chunks_log2) - 1);
  const uint32_t own_term = lane >> chunks_log2;
  const uint32_t terms_at_once = 1u << segment.lanes_log2;
  const BagPlace place = BagPlaceOf(a, words, segment, (thread >> 5 << chunks_log2) + own_chunk);
  const bool exists = place.row < a.end_row;
  const Pooling pooling = BagPooling(place.chunk.rule);
  Totals<Element, kBytes> totals;
  totals.Start(pooling);
  int64_t count = 0;
  // A warp's chunks may belong to bags of different lengths: its lanes stay together until all are done.
  for (int64_t first = place.begin;;) {
    const int64_t rest = place.end > first ? place.end - first : 0;
    const uint32_t left = rest < kBatch * terms_at_once ? static_cast<uint32_t>(rest) : kBatch * terms_at_once;
    const uint32_t most = __reduce_max_sync(kWholeWarp, left);
    if (most == 0) break;
    Vector<kBytes> rows[kBatch];
    float weights[kBatch];
    uint32_t counted = 0;
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      rows[b] = Vector<kBytes>{};
      weights[b] = 0.0f;
      const uint32_t term = b * terms_at_once + own_term;
      if (term >= left) continue;
      const BagId id = ResolveBagId(a, place, LoadBagId(place, first + term), first + term);
      counted |= (id.counts ? 1u : 0u) << b;
      rows[b] = LoadBagRow<kBytes>(place, id.row);
      weights[b] = LoadBagWeight(place, first + term);
    }
    __syncwarp();
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
#pragma unroll 4
      for (uint32_t t = 0; t < terms_at_once; ++t) {
        const uint32_t term = b * terms_at_once + t;
        if (term >= most) break;
        const int from = static_cast<int>((t << chunks_log2) + own_chunk);
        const Vector<kBytes> row = FromLane<kBytes>(rows[b], from);
        const float weight = __shfl_sync(kWholeWarp, weights[b], from);
        const uint32_t counts = __shfl_sync(kWholeWarp, counted, from) >> b & 1;
        if (term >= left || counts == 0) continue;
        totals.Join(pooling, row, weight);
        ++count;
      }
    }
    first += left;
  }
  if (exists && own_term == 0) StoreBag<Element, kBytes>(segment, place, count, &totals);
}

// A chunk in `count` single elements: narrow and unaligned bags, and calls whose addresses don't suit larger ones.
template <typename Element>
__device__ __noinline__ void BagByElements(const LookupArguments& a, const Segment& segment, BagPlace place,
                                           int count) {
  constexpr int kSize = static_cast<int>(sizeof(Element));
  const Lookup whole = place.chunk.lookup;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    place.chunk.lookup.extra = whole.extra * count + i;
    place.chunk.lookup.facts = whole.facts.With(Facts::kCountingBit, i == 0 && whole.facts.counts_bad_ids());
    BagByThread<Element, kSize>(a, segment, place);
    place.table += kSize;
  }
}

template <typename Element, int kBytes>
__device__ __forceinline__ void FillBags(const LookupArguments& a, const Words& words, const Segment& segment) {
  constexpr int kCount = kBytes / static_cast<int>(sizeof(Element));
  if (segment.lanes_log2 != 0) return BagByLanes<Element, kBytes>(a, words, segment);
  const uint32_t item = (blockIdx.x - segment.first_block) * kBlockThreads + threadIdx.x;
  const BagPlace place = BagPlaceOf(a, words, segment, item);
  if (place.row >= a.end_row) return;
  if (kCount == 1 || !a.aligned) return BagByElements<Element>(a, segment, place, kCount);
  BagByThread<Element, kBytes>(a, segment, place);
}

// Element: the type of tables.
template <typename Element>
__global__ void __launch_bounds__(kBlockThreads, 4)
    BagKernel(const __grid_constant__ LookupArguments a, const __grid_constant__ Words words) {
  const Segment& segment = SegmentOfBlock(a);
  if (segment.kind == ChunkKind::kBag16) return FillBags<Element, 16>(a, words, segment);
  FillBags<Element, sizeof(Element)>(a, words, segment);
}

}  // namespace dpiframe::cuda
