// Plain pools: what multi-hot fields give. A thread fills a chunk, for two rows at a time where bags are short, and has
// up to kPoolBatch looked-up rows on their way. Few registers, so that there are many threads, count for more than many
// loads a thread. Terms are joined in their order.
#pragma once

#include "chunk_groups.cuh"
#include "device_loads.cuh"
#include "pool_totals.cuh"
#include "records.h"

namespace dpiframe::cuda {

// A chunk of a pool from a row on: what is needed of its record again and again, the rest being read when it is.
struct PlainPoolPlace {
  const PlainPool* record;
  const char* table;
  const char* ids;
  int64_t id_row_step;  // in bytes
  int64_t row;
  uint32_t stride;
  uint32_t last_row;  // of the table
  uint32_t count;     // ids of a row
  bool wide_ids;
};

__device__ __forceinline__ int64_t LoadPlainId(const PlainPoolPlace& place, int row, uint32_t position) {
  const char* const address = place.ids + row * place.id_row_step;
  if (place.wide_ids) return LoadAs<int64_t>(address + uint64_t{position} * 8);
  return LoadAs<int32_t>(address + uint64_t{position} * 4);
}

__device__ __forceinline__ bool IsInside(const PlainPoolPlace& place, int64_t id) {
  return static_cast<uint64_t>(id) <= place.last_row;
}

// Turns an id that isn't inside into a row of the table; returns whether that is to be read.
__device__ __forceinline__ bool ResolvePlainId(const LookupArguments& a, const PlainPoolPlace& place, int element,
                                               uint32_t position, int64_t* id) {
  if (!ResolveId(int64_t{place.last_row} + 1, a.clamp, id)) return true;
  const Facts facts = LoadPart(&place.record->lookup.facts);
  if (facts.counts_bad_ids() && element == 0) {
    const uint32_t line = LoadPart(&place.record->line) + position * LoadPart(&place.record->line_step);
    atomicAdd(a.counters + line, 1ull);
  }
  return a.clamp;
}

// Which element of a chunk is filled, where it isn't filled as a whole.
struct ElementOf {
  int element;
  int count;
};

// The first `rows` (kRows at most) rows of a place, kBatch terms of each at a time.
template <bool kMasked, int kRows, int kBatch, typename Element, int kBytes>
__device__ __forceinline__ void PoolPlainRows(const LookupArguments& a, const Segment& segment,
                                              const PlainPoolPlace& place, int rows, ElementOf part) {
  constexpr int kTerms = kRows * kBatch;
  const Pooling pooling = LoadPart(&place.record->pooling);
  const Mask mask = kMasked ? LoadPart(&place.record->mask) : Mask::kNone;
  const int64_t number = kMasked ? LoadPart(&place.record->number) : 0;
  Totals<Element, kBytes> totals[kRows];
  uint32_t ones[kRows];  // terms whose weight is 1
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    totals[r].Start(pooling);
    ones[r] = place.count;
  }
  const auto exists = [&](uint32_t first, int i) {
    return (kRows == 1 || i / kBatch < rows) && first + i % kBatch < place.count;
  };
  int64_t ids[kTerms];
  const auto load_ids = [&](uint32_t first) {
#pragma unroll
    for (int i = 0; i < kTerms; ++i) {
      ids[i] = 0;
      if (exists(first, i)) ids[i] = LoadPlainId(place, i / kBatch, first + i % kBatch);
    }
  };
  constexpr bool kAhead = kRows == 1;  // the next ids wait for memory together with the rows
  if (kAhead) load_ids(0);
#pragma unroll 1
  for (uint32_t first = 0; first < place.count; first += kBatch) {
    if (!kAhead) load_ids(first);
    uint32_t zero_weights = 0;  // as bits
    Vector<kBytes> values[kTerms];
#pragma unroll
    for (int i = 0; i < kTerms; ++i) {
      bool is_read = exists(first, i);
      if (kMasked && mask != Mask::kNone && ids[i] == number && is_read) {
        zero_weights |= 1u << i;
        is_read = mask != Mask::kSkip;
        --ones[i / kBatch];
      }
      if (!IsInside(place, ids[i]) && exists(first, i)) {
        is_read &= ResolvePlainId(a, place, part.element, first + i % kBatch, &ids[i]);
      }
      values[i] = Vector<kBytes>{};
      if (is_read) {
        values[i] = LoadAs<Vector<kBytes>>(place.table + uint64_t{static_cast<uint32_t>(ids[i])} * place.stride);
      }
    }
    if (kAhead) load_ids(first + kBatch);
    if (pooling.rule == PoolRule::kMax) {
#pragma unroll
      for (int i = 0; i < kTerms; ++i) {
        const float weight = (zero_weights >> i & 1) != 0 ? 0.0f : 1.0f;
        if (exists(first, i)) totals[i / kBatch].Join(pooling, values[i], weight);
      }
    } else {
      // Zeros, which stand for what isn't read, change no bit of a sum: that is never -0.
#pragma unroll
      for (int i = 0; i < kTerms; ++i) {
        if (kMasked && mask == Mask::kZeroWeight && (zero_weights >> i & 1) != 0) {
          totals[i / kBatch].Join(pooling, values[i], 0.0f);
        } else {
          totals[i / kBatch].Add(values[i]);
        }
      }
    }
  }
  const uint64_t chunk = LoadPart(&place.record->lookup.extra);
  char* const output = reinterpret_cast<char*>(segment.output) + place.row * segment.row_bytes +
                       (chunk * static_cast<uint64_t>(part.count) + static_cast<uint64_t>(part.element)) * kBytes;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (kRows > 1 && r >= rows) continue;
    totals[r].SetWeights(ones[r]);
    *reinterpret_cast<Vector<kBytes>*>(output + r * segment.row_bytes) = totals[r].Result(pooling);
  }
}

template <int kRows, int kBatch, typename Element, int kBytes>
__device__ __forceinline__ void PoolMaskedOrNot(const LookupArguments& a, const Segment& segment,
                                                const PlainPoolPlace& place, int rows) {
  if (LoadPart(&place.record->mask) == Mask::kNone) {
    PoolPlainRows<false, kRows, kBatch, Element, kBytes>(a, segment, place, rows, {0, 1});
  } else {
    PoolPlainRows<true, kRows, kBatch, Element, kBytes>(a, segment, place, rows, {0, 1});
  }
}

// A chunk in `count` single elements: narrow pools, and calls whose addresses don't suit larger chunks.
template <typename Element>
__device__ __noinline__ void PoolPlainElements(const LookupArguments& a, const Segment& segment, PlainPoolPlace place,
                                               int rows, int count) {
  constexpr int kSize = static_cast<int>(sizeof(Element));
#pragma unroll 1
  for (int i = 0; i < rows * count; ++i) {
    const int element = i % count;
    PoolPlainRows<true, 1, kPoolBatch, Element, kSize>(a, segment, place, 1, {element, count});
    place.table += kSize;
    if (element + 1 < count) continue;
    place.table -= count * kSize;
    place.ids += place.id_row_step;
    ++place.row;
  }
}

__device__ __forceinline__ PlainPoolPlace PlainPoolPlaceOf(const LookupArguments& a, const Words& words,
                                                           const Segment& segment) {
  PlainPoolPlace place{};
  const GroupedChunk grouped =
      GroupedChunkOf(segment, (blockIdx.x - segment.first_block) * kBlockThreads + threadIdx.x);
  place.row =
      grouped.chunk < segment.chunk_count ? a.first_row + int64_t{grouped.row_group} * segment.thread_rows : a.end_row;
  if (place.row >= a.end_row) return place;
  place.record = a.plain_pools + segment.first_chunk + grouped.chunk;
  const Lookup lookup = LoadRecord(&place.record->lookup);
  const uint32_t word = lookup.facts.word();
  const Place at = PlaceOf(a, words, word, lookup.column, lookup.columns, place.row);
  place.wide_ids = segment.read == Read::kInt64;
  const int64_t id_bytes = place.wide_ids ? 8 : 4;
  place.ids = reinterpret_cast<const char*>(words[word]) + at.first * id_bytes;
  place.id_row_step = at.row_step * id_bytes;
  place.table = reinterpret_cast<const char*>(lookup.base.bits);
  place.stride = lookup.stride;
  place.last_row = static_cast<uint32_t>(lookup.facts.table_rows() - 1);
  place.count = LoadPart(&place.record->count);
  if (place.count == kDynamicColumns) place.count = static_cast<uint32_t>(at.row_step);
  return place;
}

// kShort: no pool has more than kShortPool terms.
template <bool kShort, typename Element, int kBytes>
__device__ __forceinline__ void FillPlainPools(const LookupArguments& a, const Words& words, const Segment& segment) {
  const PlainPoolPlace place = PlainPoolPlaceOf(a, words, segment);
  if (place.row >= a.end_row) return;
  const int64_t left = a.end_row - place.row;
  const int rows = left < segment.thread_rows ? static_cast<int>(left) : segment.thread_rows;
  if (!a.aligned || kBytes == static_cast<int>(sizeof(Element))) {
    PoolPlainElements<Element>(a, segment, place, rows, kBytes / static_cast<int>(sizeof(Element)));
  } else if (kShort) {
    PoolMaskedOrNot<kShortPoolRows, kShortPool, Element, kBytes>(a, segment, place, rows);
  } else {
    PoolMaskedOrNot<1, kPoolBatch, Element, kBytes>(a, segment, place, rows);
  }
}

}  // namespace dpiframe::cuda
