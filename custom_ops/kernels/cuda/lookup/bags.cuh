// Bags: each row pools as many rows of a table as it has ids in a list. Terms are joined in their order, so that the
// results are those of the CPU kernel, bit for bit.
//
// A chunk of a bag is filled by one thread, which has kBagBatch looked-up rows on their way, or, where there are too
// few chunks to fill the GPU, by several lanes of a warp, which look terms up side by side.
#pragma once

#include "chunk_groups.cuh"
#include "kernel.cuh"
#include "kernels/cuda/device/device_loads.cuh"
#include "pool_totals.cuh"
#include "records.h"

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

// As Slice takes it: below 0 it counts from the end, and what lies outside the list is moved to its nearest end.
__device__ __forceinline__ int64_t ToListPosition(const LookupArguments& a, const BagChunk& chunk, const char* offsets,
                                                  int64_t index, int64_t length) {
  int64_t offset = ToId(LoadBits(offsets, index, chunk.offsets_read), chunk.offsets_read);
  if (chunk.offsets_steps >= 0) offset = ApplySteps(a.steps + chunk.offsets_steps, offset);
  if (offset < 0) offset += length;
  return offset < 0 ? 0 : offset > length ? length : offset;
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
  place.begin = ToListPosition(a, chunk, offsets, at.first, length);
  const bool ends_with_list = chunk.bounds == 0 && place.row + 1 == a.rows;
  place.end = ends_with_list ? length : ToListPosition(a, chunk, offsets, at.first + at.row_step, length);
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

__device__ __forceinline__ Pooling PoolingOf(const BagChunk& chunk) {
  return {chunk.rule == PoolRule::kMax ? PoolRule::kMax : PoolRule::kSum, false, 0.0f};
}

template <typename Element, int kBytes>
__device__ __forceinline__ void StoreBag(const Segment& segment, const BagPlace& place, int64_t count,
                                         Totals<Element, kBytes>* totals) {
  const BagChunk& chunk = place.chunk;
  if (count == 0) {
    totals->Set(chunk.lowest != 0 ? -INFINITY : 0.0f);
  } else if (chunk.rule == PoolRule::kMean) {
    totals->DivideBy(static_cast<float>(count));
  }
  char* const output =
      reinterpret_cast<char*>(segment.output) + place.row * segment.row_bytes + uint64_t{chunk.lookup.extra} * kBytes;
  *reinterpret_cast<Vector<kBytes>*>(output) = totals->Result(PoolingOf(chunk));
}

// A chunk by one thread.
template <typename Element, int kBytes>
__device__ __forceinline__ void BagByThread(const LookupArguments& a, const Segment& segment, const BagPlace& place) {
  const Pooling pooling = PoolingOf(place.chunk);
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

// A plain bag's id that isn't inside becomes a row of the table, or -1 for zeros; returns whether it was outside.
__device__ __forceinline__ bool ResolvePlainBagId(const LookupArguments& a, const BagChunk* record, int64_t* id) {
  const Facts facts = LoadPart(&record->lookup.facts);
  if (!ResolveId(facts.table_rows(), a.clamp, id)) return false;
  if (facts.counts_bad_ids()) atomicAdd(a.counters + LoadPart(&record->line), 1ull);
  return true;
}

// The same for int32 and int64 ids as they stand in the list, without weights.
template <bool kWide, typename Element, int kBytes>
__device__ __forceinline__ void PlainBagByThread(const LookupArguments& a, const Segment& segment,
                                                 const BagPlace& place, const BagChunk* record) {
  constexpr int64_t kIdBytes = kWide ? 8 : 4;
  const Pooling pooling = PoolingOf(place.chunk);
  const uint64_t last_row = static_cast<uint32_t>(place.chunk.lookup.facts.table_rows() - 1);
  const int64_t padding = place.chunk.padding;
  const uint32_t stride = place.chunk.lookup.stride;
  const char* list = place.list + place.begin * kIdBytes;
  int64_t left = place.end - place.begin;
  int64_t count = left;
  Totals<Element, kBytes> totals;
  totals.Start(pooling);
  int64_t ids[kBagBatch];
  const auto load_ids = [&]() {
#pragma unroll
    for (int b = 0; b < kBagBatch; ++b) {
      ids[b] = 0;
      if (b >= left) continue;
      ids[b] = kWide ? LoadAs<int64_t>(list + b * kIdBytes) : LoadAs<int32_t>(list + b * kIdBytes);
    }
  };
  load_ids();
#pragma unroll 1
  while (left > 0) {
    uint32_t joined = 0;  // as bits
    Vector<kBytes> rows[kBagBatch];
#pragma unroll
    for (int b = 0; b < kBagBatch; ++b) {
      rows[b] = Vector<kBytes>{};
      if (b >= left) continue;
      const bool inside = static_cast<uint64_t>(ids[b]) <= last_row;
      const bool outside = !inside && ResolvePlainBagId(a, record, &ids[b]);
      if (ids[b] == padding && !outside) {
        --count;
        continue;
      }
      joined |= 1u << b;
      if (inside || ids[b] >= 0) {
        rows[b] = LoadAs<Vector<kBytes>>(place.table + uint64_t{static_cast<uint32_t>(ids[b])} * stride);
      }
    }
    list += kBagBatch * kIdBytes;
    left -= kBagBatch;
    load_ids();  // they wait for memory together with the rows
    if (pooling.rule == PoolRule::kMax) {
#pragma unroll
      for (int b = 0; b < kBagBatch; ++b) {
        if ((joined >> b & 1) != 0) totals.Join(pooling, rows[b], 1.0f);
      }
    } else {
      // Zeros, which stand for what isn't read, change no bit of a sum: that is never -0.
#pragma unroll
      for (int b = 0; b < kBagBatch; ++b) totals.Add(rows[b]);
    }
  }
  StoreBag<Element, kBytes>(segment, place, count > 0 ? count : 0, &totals);
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
  const Pooling pooling = PoolingOf(place.chunk);
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
  const Facts facts = place.chunk.lookup.facts;
  const bool plain =
      place.chunk.weights_read == Read::kConstant && !facts.has_steps() && facts.table_rows() <= int64_t{1} << 32;
  const BagChunk* const record = a.bag_chunks + segment.first_chunk + GroupedChunkOf(segment, item).chunk;
  if (plain && facts.read() == Read::kInt64) return PlainBagByThread<true, Element, kBytes>(a, segment, place, record);
  if (plain && facts.read() == Read::kInt32) return PlainBagByThread<false, Element, kBytes>(a, segment, place, record);
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
