// Pools of any kind: weighted sums, means and maxima of looked-up rows. Terms are joined in their order, so that the
// results are those of the CPU kernel, bit for bit.
//
// A chunk of a pool is filled by one thread or, where there are too few chunks to fill the GPU, by several lanes of a
// warp, which look terms up side by side and then join them in order.
#pragma once

#include "device_loads.cuh"
#include "pool_totals.cuh"
#include "records.h"

namespace dpiframe::cuda {

// A chunk of a pool in one output row.
struct PoolPlace {
  PoolChunk chunk;
  Pool pool;
  int64_t row;
};

__device__ __forceinline__ PoolPlace PoolPlaceOf(const LookupArguments& a, const Segment& segment, uint32_t item) {
  PoolPlace place;
  const uint32_t rows = Divide(item, segment.by_chunk_count);
  place.row = a.first_row + rows;
  place.chunk = LoadRecord(a.pool_chunks + segment.first_chunk + (item - rows * segment.chunk_count));
  place.pool = LoadRecord(a.pools + place.chunk.pool);
  return place;
}

__device__ __forceinline__ uint32_t TermCount(const LookupArguments& a, const Words& words, const Group& group) {
  if (group.count != kDynamicColumns) return group.count;
  return static_cast<uint32_t>(words[a.terms[group.first_term].facts.word() + 1]);
}

// The number of a weight's rule, or the float of its column, as bits.
__device__ __forceinline__ uint64_t LoadWeightBits(const LookupArguments& a, const Words& words, const Weight& weight,
                                                   int64_t row, uint32_t position) {
  const Place place = PlaceOf(a, words, weight.word, weight.column, weight.columns, row);
  const int64_t index = place.first + int64_t{position} * weight.column_step * place.column_step;
  return LoadBits(reinterpret_cast<const char*>(words[weight.word]), index, weight.read);
}

__device__ __forceinline__ float WeightOf(const LookupArguments& a, const Weight& weight, uint64_t bits, int64_t id,
                                          uint32_t position) {
  if (weight.rule == WeightRule::kOne) return 1.0f;
  if (weight.rule == WeightRule::kColumn) return ToFloat(bits, weight.read);
  int64_t value = id;
  if (!weight.same_as_id) {
    value = weight.read == Read::kConstant ? static_cast<int64_t>(uint64_t{weight.columns} << 32 | weight.column)
                                           : ToId(bits, weight.read);
    if (weight.has_steps) value = ApplySteps(a.steps + weight.steps, value);
  }
  const int64_t number = weight.number + int64_t{position} * weight.number_step;
  const bool holds = weight.rule == WeightRule::kNotEqual ? value != number : number < value;
  return holds ? 1.0f : 0.0f;
}

// Rows and weights of terms first ... first + kBatch - 1 of a group with `count` terms: first all ids are read, then
// all rows, so that they wait for memory together.
template <bool kRun, int kBatch, int kBytes>
__device__ __forceinline__ void LoadTerms(const LookupArguments& a, const Words& words, const PoolPlace& place,
                                          const Group& group, uint32_t first, uint32_t count, Vector<kBytes>* rows,
                                          float* weights) {
  constexpr int kTerms = kRun ? 1 : kBatch;  // records of a run: one
  Lookup terms[kTerms];
#pragma unroll
  for (int b = 0; b < kTerms; ++b) {
    const uint32_t term = kRun ? 0 : min(first + b, count - 1);
    terms[b] = LoadRecord(a.terms + group.first_term + term);
  }
  uint64_t bits[kBatch];
  uint64_t weight_bits[kBatch];
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
    const Lookup& term = terms[kRun ? 0 : b];
    bits[b] = uint64_t{term.columns} << 32 | term.column;
    if (term.facts.read() != Read::kConstant && first + b < count) {
      const uint32_t word = term.facts.word();
      const Place at = PlaceOf(a, words, word, term.column, term.columns, place.row);
      const int64_t index = at.first + (kRun ? (first + b) * at.column_step : 0);
      bits[b] = LoadBits(reinterpret_cast<const char*>(words[word]), index, term.facts.read());
    }
  }
  // Most pools have no weights, and most weights compare the term's own id.
  const Weight* const weight_records = a.weights + group.first_term;
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
    weight_bits[b] = 0;
    if (!place.pool.pooling.weighted || first + b >= count) continue;
    const Weight weight = LoadRecord(weight_records + (kRun ? 0 : first + b));
    if (weight.rule == WeightRule::kOne || weight.same_as_id || weight.read == Read::kConstant) continue;
    weight_bits[b] = LoadWeightBits(a, words, weight, place.row, kRun ? first + b : 0);
  }
  int64_t ids[kBatch];
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
    const Lookup& term = terms[kRun ? 0 : b];
    ids[b] = ToId(bits[b], term.facts.read());
    if (term.facts.has_steps()) ids[b] = ApplySteps(a.steps + term.extra, ids[b]);
    weights[b] = 1.0f;
    if (!place.pool.pooling.weighted || first + b >= count) continue;
    const Weight weight = LoadRecord(weight_records + (kRun ? 0 : first + b));
    weights[b] = WeightOf(a, weight, weight_bits[b], ids[b], kRun ? first + b : 0);
  }
  uint32_t bad = 0;
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
    const Lookup& term = terms[kRun ? 0 : b];
    if (ResolveId(term.facts.table_rows(), a.clamp, &ids[b]) && first + b < count) bad |= 1u << b;
    rows[b] = Vector<kBytes>{};
    if (ids[b] < 0 || first + b >= count) continue;
    const char* const table = TableAddress(words, term.base, term.facts) + place.chunk.offset;
    rows[b] = LoadAs<Vector<kBytes>>(table + ids[b] * term.stride);
  }
  if (bad == 0 || place.chunk.counts_bad_ids == 0) return;
#pragma unroll 1
  for (int b = 0; b < kBatch; ++b) {
    if ((bad >> b & 1) == 0) continue;
    const uint32_t line =
        kRun ? terms[0].extra + (first + b) * group.line_step : a.terms[group.first_term + first + b].extra;
    atomicAdd(a.counters + line, 1ull);
  }
}

template <bool kRun, int kBatch, typename Element, int kBytes>
__device__ __forceinline__ void JoinGroup(const LookupArguments& a, const Words& words, const PoolPlace& place,
                                          const Group& group, uint32_t count, Totals<Element, kBytes>* totals) {
#pragma unroll 1
  for (uint32_t first = 0; first < count; first += kBatch) {
    Vector<kBytes> rows[kBatch];
    float weights[kBatch];
    LoadTerms<kRun, kBatch, kBytes>(a, words, place, group, first, count, rows, weights);
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (first + b < count) totals->Join(place.pool.pooling, rows[b], weights[b]);
    }
  }
}

template <typename Element, int kBytes>
__device__ __forceinline__ void StorePool(const Segment& segment, const PoolPlace& place,
                                          Totals<Element, kBytes>* totals) {
  char* const output =
      reinterpret_cast<char*>(segment.output) + place.row * segment.row_bytes + uint64_t{place.chunk.place} * kBytes;
  *reinterpret_cast<Vector<kBytes>*>(output) = totals->Result(place.pool.pooling);
}

// A chunk by one thread.
template <typename Element, int kBytes>
__device__ __forceinline__ void PoolByThread(const LookupArguments& a, const Words& words, const Segment& segment,
                                             const PoolPlace& place) {
  Totals<Element, kBytes> totals;
  totals.Start(place.pool.pooling);
#pragma unroll 1
  for (uint32_t g = 0; g < place.pool.group_count; ++g) {
    const Group group = LoadRecord(a.groups + place.pool.first_group + g);
    const uint32_t count = TermCount(a, words, group);
    if (group.is_run != 0) {
      JoinGroup<true, 4>(a, words, place, group, count, &totals);
    } else {
      JoinGroup<false, 4>(a, words, place, group, count, &totals);
    }
  }
  StorePool<Element, kBytes>(segment, place, &totals);
}

// Chunks by a warp: lane t * n + j looks up every 2^lanes_log2-th term of the warp's chunk j, n being how many it has.
template <typename Element, int kBytes>
__device__ __forceinline__ void PoolByLanes(const LookupArguments& a, const Words& words, const Segment& segment) {
  const uint32_t thread = (blockIdx.x - segment.first_block) * kBlockThreads + threadIdx.x;
  const uint32_t chunks_log2 = 5 - segment.lanes_log2;
  const uint32_t lane = threadIdx.x & 31;
  const uint32_t own_chunk = lane & ((1u << chunks_log2) - 1);
  const uint32_t own_term = lane >> chunks_log2;
  const uint32_t terms_at_once = 1u << segment.lanes_log2;
  const uint32_t item = (thread >> 5 << chunks_log2) + own_chunk;
  const PoolPlace place = PoolPlaceOf(a, segment, item);
  const bool exists = place.row < a.end_row;
  Totals<Element, kBytes> totals;
  totals.Start(place.pool.pooling);
  // A warp's chunks may belong to pools of different lengths: its lanes stay together until all are done.
  uint32_t g = 0;
  uint32_t first = 0;
  uint32_t count = 0;
  Group group{};
  while (true) {
    while (exists && first >= count && g < place.pool.group_count) {
      group = LoadRecord(a.groups + place.pool.first_group + g);
      count = TermCount(a, words, group);
      first = 0;
      ++g;
    }
    const uint32_t left = first < count ? min(count - first, terms_at_once) : 0;
    const uint32_t most = __reduce_max_sync(kWholeWarp, left);
    if (most == 0) break;
    Vector<kBytes> row{};
    float weight = 0.0f;
    if (own_term < left) {
      if (group.is_run != 0) {
        LoadTerms<true, 1, kBytes>(a, words, place, group, first + own_term, count, &row, &weight);
      } else {
        LoadTerms<false, 1, kBytes>(a, words, place, group, first + own_term, count, &row, &weight);
      }
    }
    __syncwarp();
#pragma unroll 4
    for (uint32_t t = 0; t < most; ++t) {
      const int from = static_cast<int>((t << chunks_log2) + own_chunk);
      const Vector<kBytes> other_row = FromLane<kBytes>(row, from);
      const float other_weight = __shfl_sync(kWholeWarp, weight, from);
      if (t < left) totals.Join(place.pool.pooling, other_row, other_weight);
    }
    first += left;
  }
  if (exists && own_term == 0) StorePool<Element, kBytes>(segment, place, &totals);
}

// A chunk in `count` single elements: narrow and unaligned pools, and calls whose addresses don't suit larger chunks.
template <typename Element>
__device__ __noinline__ void PoolByElements(const LookupArguments& a, const Words& words, const Segment& segment,
                                            PoolPlace place, int count) {
  constexpr int kSize = static_cast<int>(sizeof(Element));
  const PoolChunk chunk = place.chunk;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    place.chunk.offset = chunk.offset + i * kSize;
    place.chunk.place = chunk.place * count + i;
    place.chunk.counts_bad_ids = i == 0 ? chunk.counts_bad_ids : 0;
    PoolByThread<Element, kSize>(a, words, segment, place);
  }
}

template <typename Element, int kBytes>
__device__ __forceinline__ void FillPools(const LookupArguments& a, const Words& words, const Segment& segment) {
  constexpr int kCount = kBytes / static_cast<int>(sizeof(Element));
  if (segment.lanes_log2 != 0) {
    PoolByLanes<Element, kBytes>(a, words, segment);
    return;
  }
  const uint32_t item = (blockIdx.x - segment.first_block) * kBlockThreads + threadIdx.x;
  const PoolPlace place = PoolPlaceOf(a, segment, item);
  if (place.row >= a.end_row) return;
  if (kCount > 1 && a.aligned) {
    PoolByThread<Element, kBytes>(a, words, segment, place);
  } else {
    PoolByElements<Element>(a, words, segment, place, kCount);
  }
}

}  // namespace dpiframe::cuda
