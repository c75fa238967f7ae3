// Looked-up rows of any kind, and copied columns; see plain.cuh for how the work is shared out.
#pragma once

#include "device_loads.cuh"
#include "plain.cuh"
#include "records.h"

namespace dpiframe::cuda {

// Ids of a chunk's lookup in rows [row, row + count).
template <int kRows>
__device__ __forceinline__ void LoadIds(const LookupArguments& a, const Words& words, const Lookup& chunk,
                                        uint32_t index, int64_t row, int count, int64_t* ids) {
  const Read read = chunk.facts.read();
  if (read == Read::kConstant) {
#pragma unroll
    for (int u = 0; u < kRows; ++u) ids[u] = static_cast<int64_t>(uint64_t{chunk.columns} << 32 | chunk.column);
    return;
  }
  const uint32_t word = chunk.facts.word();
  const char* const source = reinterpret_cast<const char*>(words[word]);
  const Place place = PlaceOf(a, words, word, chunk.column, chunk.columns, row);
  uint64_t bits[kRows];
#pragma unroll
  for (int u = 0; u < kRows; ++u) bits[u] = u < count ? LoadBits(source, place.first + u * place.row_step, read) : 0;
#pragma unroll
  for (int u = 0; u < kRows; ++u) ids[u] = ToId(bits[u], read);
  if (!chunk.facts.has_steps()) return;
  const Steps* const steps = a.steps + a.chunk_lines[index];
#pragma unroll
  for (int u = 0; u < kRows; ++u) ids[u] = ApplySteps(steps, ids[u]);
}

template <int kRows, int kBytes>
__device__ __forceinline__ void LoadRows(const LookupArguments& a, const Words& words, const Lookup& chunk,
                                         uint32_t index, int64_t row, int count, Vector<kBytes>* values) {
  int64_t ids[kRows];
  LoadIds<kRows>(a, words, chunk, index, row, count, ids);
  const char* const table = TableAddress(words, chunk.base, chunk.facts);
  const int64_t table_rows = chunk.facts.table_rows();
  uint32_t bad = 0;
#pragma unroll
  for (int u = 0; u < kRows; ++u) bad += ResolveId(table_rows, a.clamp, &ids[u]) && u < count ? 1 : 0;
#pragma unroll
  for (int u = 0; u < kRows; ++u) {
    values[u] = Vector<kBytes>{};
    if (ids[u] >= 0 && u < count) values[u] = LoadAs<Vector<kBytes>>(table + ids[u] * chunk.stride);
  }
  if (bad != 0 && chunk.facts.counts_bad_ids())
    atomicAdd(a.counters + a.chunk_lines[index], static_cast<unsigned long long>(bad));
}

template <int kRows, int kBytes>
__device__ __forceinline__ void LoadColumns(const LookupArguments& a, const Words& words, const Lookup& chunk,
                                            int64_t row, int count, Vector<kBytes>* values) {
  const uint32_t word = chunk.facts.word();
  const char* const source = reinterpret_cast<const char*>(words[word]);
  const Place place = PlaceOf(a, words, word, chunk.column, chunk.columns, row);
  const int size = chunk.facts.read() == Read::kFloat16 ? 2 : 4;
#pragma unroll
  for (int u = 0; u < kRows; ++u) {
    values[u] = Vector<kBytes>{};
    if (u >= count) continue;
    const char* const from = source + (place.first + u * place.row_step) * size;
    if constexpr (kBytes == 2) {
      values[u] =
          chunk.facts.to_half() ? __half_as_ushort(__float2half_rn(LoadAs<float>(from))) : LoadAs<uint16_t>(from);
    } else {
      values[u] = LoadAs<Vector<kBytes>>(from);
    }
  }
}

// The chunk in rows [row, row + kRows) of the output, as far as there are any.
template <bool kCopy, int kRows, int kBytes>
__device__ __forceinline__ void FillChunk(const LookupArguments& a, const Words& words, const Segment& segment,
                                          const Lookup& chunk, uint32_t index, int64_t row) {
  const int64_t left = a.end_row - row;
  const int count = left < kRows ? static_cast<int>(left) : kRows;
  Vector<kBytes> values[kRows];
  if (kCopy) {
    LoadColumns<kRows, kBytes>(a, words, chunk, row, count, values);
  } else {
    LoadRows<kRows, kBytes>(a, words, chunk, index, row, count, values);
  }
  char* const output =
      reinterpret_cast<char*>(segment.output) + row * segment.row_bytes + uint64_t{chunk.extra} * kBytes;
#pragma unroll
  for (int u = 0; u < kRows; ++u) {
    if (u < count) *reinterpret_cast<Vector<kBytes>*>(output + u * segment.row_bytes) = values[u];
  }
}

// Chunk `index` in `rows` rows, each as `count` single elements.
template <int kElementBytes>
__device__ __noinline__ void FillElements(const LookupArguments& a, const Words& words, const Segment& segment,
                                          uint32_t index, int64_t row, int rows, int count) {
#pragma unroll 1
  for (int i = 0; i < count * rows; ++i) {
    const int place = i % count;
    Lookup element = LoadRecord(a.chunks + index);
    element.extra = element.extra * count + place;
    if (element.facts.is_copy()) {
      element.column += place;
      FillChunk<true, 1, kElementBytes>(a, words, segment, element, index, row + i / count);
    } else {
      element.base.bits += place * kElementBytes;
      element.facts = element.facts.With(Facts::kCountingBit, place == 0 && element.facts.counts_bad_ids());
      FillChunk<false, 1, kElementBytes>(a, words, segment, element, index, row + i / count);
    }
  }
}

// Where a thread works: on a chunk, from a row on.
struct ChunkPlace {
  uint32_t index;
  int64_t row;
};

// kRowsPerThread: for chunks of 16 bytes.
template <int kRowsPerThread, int kBytes>
__device__ __forceinline__ ChunkPlace ChunkPlaceOf(const LookupArguments& a, const Segment& segment) {
  const uint32_t item = (blockIdx.x - segment.first_block) * kBlockThreads + threadIdx.x;
  const uint32_t rows = Divide(item, segment.by_chunk_count);
  return {segment.first_chunk + (item - rows * segment.chunk_count),
          a.first_row + int64_t{rows} * (kRowsPerThread * RowsFactor(kBytes))};
}

template <int kRowsPerThread, int kBytes>
__device__ __forceinline__ void FillPlainChunks(const LookupArguments& a, const Words& words, const Segment& segment) {
  constexpr int kRows = kRowsPerThread * RowsFactor(kBytes);
  const ChunkPlace place = ChunkPlaceOf<kRowsPerThread, kBytes>(a, segment);
  if (place.row >= a.end_row) return;
  const Lookup chunk = LoadRecord(a.chunks + place.index);
  const char* const source =
      reinterpret_cast<const char*>(segment.source != 0 ? segment.source : words.values[chunk.facts.word()]);
  char* const output_row = reinterpret_cast<char*>(segment.output) + place.row * segment.row_bytes;
  if (segment.read == Read::kInt64) {
    FillPlain<kRows, kBytes, int64_t>(a, segment, source, chunk, place.index, place.row, output_row, segment.row_bytes);
  } else {
    FillPlain<kRows, kBytes, int32_t>(a, segment, source, chunk, place.index, place.row, output_row, segment.row_bytes);
  }
}

// General chunks and copies.
template <bool kCopy, int kRowsPerThread, int kBytes>
__device__ __forceinline__ void FillOtherChunks(const LookupArguments& a, const Words& words, const Segment& segment) {
  constexpr int kRows = kRowsPerThread * RowsFactor(kBytes);
  constexpr int kAtOnce = kRows < 2 ? kRows : 2;  // more would only make longer code
  const ChunkPlace place = ChunkPlaceOf<kRowsPerThread, kBytes>(a, segment);
  if (place.row >= a.end_row) return;
  const Lookup chunk = LoadRecord(a.chunks + place.index);
#pragma unroll 1
  for (int u = 0; u < kRows; u += kAtOnce) {
    FillChunk<kCopy, kAtOnce, kBytes>(a, words, segment, chunk, place.index, place.row + u);
  }
}

// Chunks of any kind by single elements, for a call whose addresses don't suit larger ones.
template <int kRowsPerThread, int kBytes>
__device__ __forceinline__ void FillUnalignedChunks(const LookupArguments& a, const Words& words,
                                                    const Segment& segment) {
  constexpr int kRows = kRowsPerThread * RowsFactor(kBytes);
  const ChunkPlace place = ChunkPlaceOf<kRowsPerThread, kBytes>(a, segment);
  if (place.row >= a.end_row) return;
  if (a.element_bytes == 4) {
    FillElements<4>(a, words, segment, place.index, place.row, kRows, kBytes / 4);
  } else {
    FillElements<2>(a, words, segment, place.index, place.row, kRows, kBytes / 2);
  }
}

}  // namespace dpiframe::cuda
