// Pools of a few elements over rows of many tables: a wide part's sum of its fields' weights. The threads of a block
// look terms up side by side, each one term in several rows, and leave them in shared memory, where a thread a row
// joins them in their order.
#pragma once

#include "device_loads.cuh"
#include "plain.cuh"
#include "pool_totals.cuh"
#include "records.h"

namespace dpiframe::cuda {

// Values that a block keeps: an odd number for each row, so that rows lie in different banks.
constexpr DPIFRAME_BOTH int TablePoolValues(int rows_per_thread) { return rows_per_thread * kBlockThreads * 3 / 2; }

template <int kRows, int kBytes>
__device__ __forceinline__ void FetchTerm(const LookupArguments& a, const Segment& segment, const char* source,
                                          const Lookup& term, uint32_t index, int64_t row, char* to,
                                          uint64_t row_bytes) {
  if (segment.read == Read::kInt64) {
    FillPlain<kRows, kBytes, int64_t>(a, segment, source, term, index, row, to, row_bytes);
  } else {
    FillPlain<kRows, kBytes, int32_t>(a, segment, source, term, index, row, to, row_bytes);
  }
}

// The same by single elements, for a call whose addresses don't suit larger chunks.
template <int kRows, int kBytes, int kSize>
__device__ __forceinline__ void FetchElements(const LookupArguments& a, const Segment& segment, const char* source,
                                              Lookup term, uint32_t index, int64_t row, char* to, uint64_t row_bytes) {
  term.extra *= kBytes / kSize;
#pragma unroll 1
  for (int i = 0; i < kBytes / kSize; ++i) {
    FetchTerm<kRows, kSize>(a, segment, source, term, index, row, to, row_bytes);
    ++term.extra;
    term.base.bits += kSize;
    term.facts = term.facts.With(Facts::kCountingBit, false);
  }
}

template <int kBytes, int kSize>
__device__ __forceinline__ void StoreElements(const Vector<kBytes>& result, char* output) {
#pragma unroll
  for (int i = 0; i < kBytes / kSize; ++i) {
    reinterpret_cast<Vector<kSize>*>(output)[i] = reinterpret_cast<const Vector<kSize>*>(&result)[i];
  }
}

// kSuited: all addresses suit chunks of kBytes.
template <int kRows, bool kSuited, typename Element, int kBytes>
__device__ __forceinline__ void FillTablePool(const LookupArguments& a, const Words& words, const Segment& segment,
                                              Vector<16>* memory) {
  constexpr int kSize = static_cast<int>(sizeof(Element));
  const bool by_element = !kSuited && kBytes > kSize && !a.aligned;
  Vector<kBytes>* const values = reinterpret_cast<Vector<kBytes>*>(memory);
  const uint32_t terms = TablePoolTerms(segment.chunk_count);
  const uint32_t stride = terms | 1;
  const uint32_t rows = TablePoolRows(Divide(kBlockThreads, segment.by_chunk_count), kRows);
  const int64_t block_row = a.first_row + int64_t{blockIdx.x - segment.first_block} * rows;
  const uint32_t group = Divide(threadIdx.x, segment.by_chunk_count);
  const uint32_t own_term = threadIdx.x - group * terms;
  const int64_t row = block_row + group * kRows;
  const bool fetches = group * kRows < rows && row < a.end_row;
  const bool joins = threadIdx.x < rows && block_row + threadIdx.x < a.end_row;
  // Read before the terms are waited for.
  const uint32_t place = LoadPart(&a.chunks[segment.first_chunk].extra);
  Totals<Element, kBytes> totals;
  totals.Start(segment.pooling);
#pragma unroll 1
  for (uint32_t first = 0; first < segment.chunk_count; first += terms) {
    if (first != 0) __syncthreads();
    const uint32_t here = min(segment.chunk_count - first, terms);
    const uint32_t index = segment.first_chunk + first + own_term;
    if (fetches && own_term < here) {
      Lookup term = LoadRecord(a.chunks + index);
      const char* const source =
          reinterpret_cast<const char*>(segment.source != 0 ? segment.source : words[term.facts.word()]);
      char* const to = reinterpret_cast<char*>(values + group * kRows * stride);
      term.extra = own_term;
      if (by_element) {
        FetchElements<kRows, kBytes, kSize>(a, segment, source, term, index, row, to, stride * kBytes);
      } else {
        FetchTerm<kRows, kBytes>(a, segment, source, term, index, row, to, stride * kBytes);
      }
    }
    __syncthreads();
    if (!joins) continue;
    const Vector<kBytes>* const own = values + threadIdx.x * stride;
    if (segment.pooling.rule == PoolRule::kMax) {
      for (uint32_t t = 0; t < here; ++t) totals.Join(segment.pooling, own[t], 1.0f);
    } else {
#pragma unroll 13
      for (uint32_t t = 0; t < here; ++t) totals.Add(own[t]);
    }
  }
  if (!joins) return;
  totals.SetWeights(segment.chunk_count);
  char* const output = reinterpret_cast<char*>(segment.output) + (block_row + threadIdx.x) * segment.row_bytes +
                       uint64_t{place} * kBytes;
  const Vector<kBytes> result = totals.Result(segment.pooling);
  if (by_element) {
    StoreElements<kBytes, kSize>(result, output);
  } else {
    *reinterpret_cast<Vector<kBytes>*>(output) = result;
  }
}

}  // namespace dpiframe::cuda
