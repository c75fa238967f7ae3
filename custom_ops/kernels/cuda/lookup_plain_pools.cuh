// Plain pools: what multi-hot fields give. A thread fills a chunk for up to 4 rows and always has 8 looked-up rows on
// their way: of several bags where they are short, of one where it is long. Terms are joined in their order.
#pragma once

#include "device_loads.cuh"
#include "lookup_plain.cuh"
#include "lookup_records.h"
#include "pool_totals.cuh"

namespace dpiframe::cuda {

// Where a thread's ids and its chunk's values lie; both go on from row to row by steps in bytes.
struct PlainPoolPlace {
  const char* ids;
  int64_t id_row_step;
  bool wide_ids;
  uint32_t count;  // ids of a row
  char* output;
  uint64_t output_row_step;
};

__device__ __forceinline__ int64_t LoadPlainId(const PlainPoolPlace& place, int row, uint32_t position) {
  const char* const address = place.ids + row * place.id_row_step;
  if (place.wide_ids) return LoadAs<int64_t>(address + int64_t{position} * 8);
  return LoadAs<int32_t>(address + int64_t{position} * 4);
}

// The first `rows` (kRows at most) rows of a place, kBatch terms of each at a time.
template <int kRows, int kBatch, typename Element, int kBytes>
__device__ __forceinline__ void PoolPlainRows(const LookupArguments& a, const PlainPool& pool,
                                              const PlainPoolPlace& place, int rows) {
  constexpr int kTerms = kRows * kBatch;
  const uint64_t table_rows = static_cast<uint64_t>(pool.lookup.facts.table_rows());
  const char* const table = reinterpret_cast<const char*>(pool.lookup.base.bits);
  Totals<Element, kBytes> totals[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) totals[r].Start(pool.pooling);
#pragma unroll 1
  for (uint32_t first = 0; first < place.count; first += kBatch) {
    const auto exists = [&](int i) { return i / kBatch < rows && first + i % kBatch < place.count; };
    int64_t ids[kTerms];
#pragma unroll
    for (int i = 0; i < kTerms; ++i) ids[i] = exists(i) ? LoadPlainId(place, i / kBatch, first + i % kBatch) : 0;
    uint32_t zero_weights = 0;  // as bits
    uint32_t unread = 0;
    bool all_inside = true;
#pragma unroll
    for (int i = 0; i < kTerms; ++i) {
      if (!exists(i)) unread |= 1u << i;
      if (pool.mask != Mask::kNone && ids[i] == pool.number) zero_weights |= 1u << i;
      all_inside &= static_cast<uint64_t>(ids[i]) < table_rows;
    }
    if (!all_inside) {
#pragma unroll
      for (int i = 0; i < kTerms; ++i) {
        const bool outside = ResolveId(pool.lookup.facts.table_rows(), a.clamp, &ids[i]);
        if (!outside) continue;
        if (!a.clamp) unread |= 1u << i;
        const uint32_t line = pool.line + (first + i % kBatch) * pool.line_step;
        if (exists(i) && pool.lookup.facts.counts_bad_ids()) atomicAdd(a.counters + line, 1ull);
      }
    }
    if (pool.mask == Mask::kSkip) unread |= zero_weights;
    Vector<kBytes> values[kTerms];
#pragma unroll
    for (int i = 0; i < kTerms; ++i) {
      values[i] = Vector<kBytes>{};
      if ((unread >> i & 1) != 0) continue;
      values[i] = LoadAs<Vector<kBytes>>(table + uint64_t{static_cast<uint32_t>(ids[i])} * pool.lookup.stride);
    }
#pragma unroll
    for (int i = 0; i < kTerms; ++i) {
      if (exists(i)) totals[i / kBatch].Join(pool.pooling, values[i], (zero_weights >> i & 1) != 0 ? 0.0f : 1.0f);
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r >= rows) continue;
    *reinterpret_cast<Vector<kBytes>*>(place.output + r * place.output_row_step) = totals[r].Result(pool.pooling);
  }
}

template <int kRows, int kBatch, typename Element, int kBytes>
__device__ __forceinline__ void PoolPlainRowsInTurn(const LookupArguments& a, const PlainPool& pool,
                                                    PlainPoolPlace place, int rows) {
#pragma unroll 1
  for (int row = 0; row < rows; row += kRows) {
    PoolPlainRows<kRows, kBatch, Element, kBytes>(a, pool, place, rows - row < kRows ? rows - row : kRows);
    place.ids += kRows * place.id_row_step;
    place.output += kRows * place.output_row_step;
  }
}

// A chunk in `count` single elements, for a call whose addresses don't suit larger ones.
template <typename Element>
__device__ __noinline__ void PoolPlainElements(const LookupArguments& a, PlainPool pool, PlainPoolPlace place, int rows,
                                               int count) {
  constexpr int kSize = static_cast<int>(sizeof(Element));
  const Facts facts = pool.lookup.facts;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    pool.lookup.facts = facts.With(Facts::kCountingBit, i == 0 && facts.counts_bad_ids());
    PoolPlainRowsInTurn<1, 8, Element, kSize>(a, pool, place, rows);
    pool.lookup.base.bits += kSize;
    place.output += kSize;
  }
}

// kShort: no pool has more than kShortPool terms.
template <bool kShort, typename Element, int kBytes>
__device__ __forceinline__ void FillPlainPools(const LookupArguments& a, const Words& words, const Segment& segment) {
  const uint32_t item = (blockIdx.x - segment.first_block) * kBlockThreads + threadIdx.x;
  const uint32_t row_group = Divide(item, segment.by_chunk_count);
  const int64_t row = a.first_row + int64_t{row_group} * segment.pool_rows;
  if (row >= a.end_row) return;
  const uint32_t index = segment.first_chunk + (item - row_group * segment.chunk_count);
  const PlainPool pool = LoadRecord(a.plain_pools + index);
  const uint32_t word = pool.lookup.facts.word();
  const Place at = PlaceOf(a, words, word, pool.lookup.column, pool.lookup.columns, row);
  PlainPoolPlace place;
  place.wide_ids = segment.read == Read::kInt64;
  const int64_t id_bytes = place.wide_ids ? 8 : 4;
  place.ids = reinterpret_cast<const char*>(words[word]) + at.first * id_bytes;
  place.id_row_step = at.row_step * id_bytes;
  place.count = pool.count == kDynamicColumns ? static_cast<uint32_t>(at.row_step) : pool.count;
  place.output =
      reinterpret_cast<char*>(segment.output) + row * segment.row_bytes + uint64_t{pool.lookup.extra} * kBytes;
  place.output_row_step = segment.row_bytes;
  const int64_t left = a.end_row - row;
  const int rows = left < segment.pool_rows ? static_cast<int>(left) : static_cast<int>(segment.pool_rows);
  if (!a.aligned || kBytes == static_cast<int>(sizeof(Element))) {
    PoolPlainElements<Element>(a, pool, place, rows, kBytes / static_cast<int>(sizeof(Element)));
  } else if (kShort || place.count <= kShortPool) {
    PoolPlainRowsInTurn<4, kShortPool, Element, kBytes>(a, pool, place, rows);
  } else if (rows > 1) {
    PoolPlainRowsInTurn<2, 4, Element, kBytes>(a, pool, place, rows);
  } else {
    PoolPlainRows<1, 8, Element, kBytes>(a, pool, place, rows);
  }
}

}  // namespace dpiframe::cuda
