// Plain chunks, nearly all that most models look up: a short path from an id to its row. Neighbouring threads fill
// neighbouring chunks of an output row, each for kRows consecutive rows, so that its loads wait for memory together.
#pragma once

#include "device_loads.cuh"
#include "records.h"

namespace dpiframe::cuda {

// Rows of the table for ids of which some are below 0 or outside; returns the places of rows of zeros, as bits.
template <int kRows>
__device__ __forceinline__ uint32_t ResolveIds(const LookupArguments& a, const Lookup& chunk, uint32_t index,
                                               int64_t* ids) {
  uint32_t outside = 0;
  uint32_t zeros = 0;
#pragma unroll
  for (int u = 0; u < kRows; ++u) {
    outside += ResolveId(chunk.facts.table_rows(), a.clamp, &ids[u]) ? 1 : 0;
    if (ids[u] >= 0) continue;
    zeros |= 1u << u;
    ids[u] = 0;
  }
  if (outside != 0 && chunk.facts.counts_bad_ids()) {
    atomicAdd(a.counters + a.chunk_lines[index], static_cast<unsigned long long>(outside));
  }
  return zeros;
}

// kRows rows of a chunk, ids lying id_step bytes apart.
template <int kRows, int kBytes, typename Id>
__device__ __forceinline__ void FillPlainRows(const LookupArguments& a, const Lookup& chunk, uint32_t index,
                                              const char* first_id, int64_t id_step, int64_t shift, char* output_row,
                                              uint64_t row_bytes) {
  Id raw[kRows];
#pragma unroll
  for (int u = 0; u < kRows; ++u) raw[u] = LoadAs<Id>(first_id + u * id_step);
  const uint64_t table_rows = static_cast<uint64_t>(chunk.facts.table_rows());
  int64_t ids[kRows];
  bool all_inside = true;
#pragma unroll
  for (int u = 0; u < kRows; ++u) {
    ids[u] = static_cast<int64_t>(static_cast<uint64_t>(static_cast<int64_t>(raw[u])) + static_cast<uint64_t>(shift));
    all_inside &= static_cast<uint64_t>(ids[u]) < table_rows;
  }
  uint32_t zeros = 0;
  if (!all_inside) zeros = ResolveIds<kRows>(a, chunk, index, ids);
  Vector<kBytes> values[kRows];
#pragma unroll
  for (int u = 0; u < kRows; ++u) {
    values[u] = LoadAs<Vector<kBytes>>(reinterpret_cast<const char*>(chunk.base.bits) +
                                       uint64_t{static_cast<uint32_t>(ids[u])} * chunk.stride);
  }
  if (zeros != 0) {
#pragma unroll
    for (int u = 0; u < kRows; ++u) {
      if ((zeros >> u & 1) != 0) values[u] = Vector<kBytes>{};
    }
  }
  char* const output = output_row + uint64_t{chunk.extra} * kBytes;
#pragma unroll
  for (int u = 0; u < kRows; ++u) *reinterpret_cast<Vector<kBytes>*>(output + u * row_bytes) = values[u];
}

// The chunk in rows [row, row + kRows), as far as there are any; its places lie in rows row_bytes apart.
template <int kRows, int kBytes, typename Id>
__device__ __forceinline__ void FillPlain(const LookupArguments& a, const Segment& segment, const char* source,
                                          const Lookup& chunk, uint32_t index, int64_t row, char* output_row,
                                          uint64_t row_bytes) {
  const int64_t shift = segment.shifted ? a.steps[a.chunk_lines[index]].add : 0;
  const int64_t first = segment.column_layout ? chunk.column * a.rows + row : row * chunk.columns + chunk.column;
  const int64_t id_step = (segment.column_layout ? 1 : int64_t{chunk.columns}) * static_cast<int64_t>(sizeof(Id));
  const char* first_id = source + first * static_cast<int64_t>(sizeof(Id));
  if (row + kRows <= a.end_row) {
    FillPlainRows<kRows, kBytes, Id>(a, chunk, index, first_id, id_step, shift, output_row, row_bytes);
    return;
  }
#pragma unroll 1
  for (; row < a.end_row; ++row) {
    FillPlainRows<1, kBytes, Id>(a, chunk, index, first_id, id_step, shift, output_row, row_bytes);
    first_id += id_step;
    output_row += row_bytes;
  }
}

}  // namespace dpiframe::cuda
