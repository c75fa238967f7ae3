// Copies of looked-up rows and of source columns.
#pragma once

#include <cstdint>
#include <cstring>

#include "ids.h"
#include "kernels/half.h"
#include "plan.h"

namespace dpiframe {
namespace {

// Inlined by force: a function of nothing but prefetches looks free of effects to GCC, which would drop calls of it.
[[gnu::always_inline]] inline void PrefetchBytes(const char* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i);
  __builtin_prefetch(from + bytes - 1);
}

// Every line once: for rows of several lines one more each would cost as much as adding a line's floats.
[[gnu::always_inline]] inline void PrefetchLines(const char* from, int64_t bytes) {
  const char* const end = from + bytes;
  const char* line = from - reinterpret_cast<uintptr_t>(from) % 64;
  do __builtin_prefetch(line);
  while ((line += 64) < end);
}

// A few bytes without a call: two overlapping moves cover any length up to twice their size.
inline void CopyBytes(char* to, const char* from, int64_t bytes) {
  if (bytes >= 32) {
    for (int64_t i = 0; i < bytes - 32; i += 32) __builtin_memcpy(to + i, from + i, 32);
    __builtin_memcpy(to + bytes - 32, from + bytes - 32, 32);
  } else if (bytes >= 16) {
    __builtin_memcpy(to, from, 16);
    __builtin_memcpy(to + bytes - 16, from + bytes - 16, 16);
  } else if (bytes >= 8) {
    __builtin_memcpy(to, from, 8);
    __builtin_memcpy(to + bytes - 8, from + bytes - 8, 8);
  } else if (bytes >= 4) {
    __builtin_memcpy(to, from, 4);
    __builtin_memcpy(to + bytes - 4, from + bytes - 4, 4);
  } else {
    __builtin_memcpy(to, from, 2);
  }
}

// Copies the rows of one output row, and asks for those of a later one in between: spread out, so that waiting for
// memory never stops the copies.
template <int kBytes>
inline void CopyFixed(const Cell* cells, const Cell* ahead, int count, char* to) {
  for (int64_t i = 0; i < count; ++i) {
    PrefetchBytes(ahead[i].row, kBytes);
    __builtin_memcpy(to + i * kBytes, cells[i].row, kBytes);
  }
}

inline void CopyRun(const RowRun& run, const Cell* cells, const Cell* ahead, char* to) {
  cells += run.first_cell;
  ahead += run.first_cell;
  switch (run.bytes) {
    case 2:
      return CopyFixed<2>(cells, ahead, run.count, to);
    case 4:
      return CopyFixed<4>(cells, ahead, run.count, to);
    case 8:
      return CopyFixed<8>(cells, ahead, run.count, to);
    case 16:
      return CopyFixed<16>(cells, ahead, run.count, to);
    case 32:
      return CopyFixed<32>(cells, ahead, run.count, to);
    case 64:
      return CopyFixed<64>(cells, ahead, run.count, to);
    case 128:
      return CopyFixed<128>(cells, ahead, run.count, to);
    case 256:
      return CopyFixed<256>(cells, ahead, run.count, to);
    default:
      for (int i = 0; i < run.count; ++i) {
        PrefetchBytes(ahead[i].row, run.bytes);
        CopyBytes(to + i * run.bytes, cells[i].row, run.bytes);
      }
  }
}

inline float ColumnValue(const LookupCall& call, int source, ElementType type, int64_t element) {
  if (type == ElementType::kFloat32) return LoadElement<float>(call.sources[source], element);
  return HalfToFloat(LoadElement<uint16_t>(call.sources[source], element));
}

// From a source of float32 or of the outputs' type.
inline void CopySourceColumns(const PlanView& plan, const LookupCall& call, const CopyColumns& copy, int64_t row,
                              char* to) {
  const Place place = PlaceOf(plan, call, copy.source, copy.column, row);
  const ElementType from_type = plan.sources.data[copy.source].type;
  if (from_type != plan.type) {  // float32 to float16
    for (int64_t i = 0; i < copy.width; ++i) {
      const float value = ColumnValue(call, copy.source, from_type, place.first + i * place.column_stride);
      const uint16_t half = FloatToHalf(value);
      __builtin_memcpy(to + i * 2, &half, 2);
    }
    return;
  }
  const int64_t size = plan.type == ElementType::kFloat32 ? 4 : 2;
  const char* from = static_cast<const char*>(call.sources[copy.source]) + place.first * size;
  if (place.column_stride == 1) return CopyBytes(to, from, copy.width * size);
  for (int64_t i = 0; i < copy.width; ++i) CopyBytes(to + i * size, from + i * place.column_stride * size, size);
}

}  // namespace
}  // namespace dpiframe
