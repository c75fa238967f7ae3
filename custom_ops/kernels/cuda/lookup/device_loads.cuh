// Reads and writes of up to 16 bytes, and single values of sources.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "records.h"

namespace dpiframe::cuda {

template <int kBytes>
struct VectorOf;
template <>
struct VectorOf<16> {
  using Type = uint4;
};
template <>
struct VectorOf<8> {
  using Type = uint2;
};
template <>
struct VectorOf<4> {
  using Type = uint32_t;
};
template <>
struct VectorOf<2> {
  using Type = uint16_t;
};
template <int kBytes>
using Vector = typename VectorOf<kBytes>::Type;

// Nothing that a launch reads is written by it, so reads may go through the read-only cache.
template <typename T>
__device__ __forceinline__ T LoadAs(const char* address) {
  return __ldg(reinterpret_cast<const T*>(address));
}

// A record of 16 or 32 bytes, in reads of 16.
template <typename Record>
__device__ __forceinline__ Record LoadRecord(const Record* record) {
  static_assert(sizeof(Record) % 16 == 0);
  union {
    uint4 parts[sizeof(Record) / 16];
    Record record;
  } value;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(Record) / 16); ++i) {
    value.parts[i] = __ldg(reinterpret_cast<const uint4*>(record) + i);
  }
  return value.record;
}

// A member of a record, in reads of 4 bytes.
template <typename Member>
__device__ __forceinline__ Member LoadPart(const Member* member) {
  static_assert(sizeof(Member) % 4 == 0 && alignof(Member) >= 4);
  union {
    uint32_t parts[sizeof(Member) / 4];
    Member member;
  } value;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(Member) / 4); ++i) {
    value.parts[i] = __ldg(reinterpret_cast<const uint32_t*>(member) + i);
  }
  return value.member;
}

// The bits of value `index` of a source, without a branch: values of 2, 4 and 8 bytes share one sequence of code.
__device__ __forceinline__ uint64_t LoadBits(const char* source, int64_t index, Read read) {
  if (read == Read::kInt64 || read == Read::kFloat64) return LoadAs<uint64_t>(source + index * 8);
  if (read == Read::kFloat16) return LoadAs<uint16_t>(source + index * 2);
  return LoadAs<uint32_t>(source + index * 4);
}

// Truncates toward zero; NaN and values beyond int64 become the smallest int64.
template <typename Float>
__device__ __forceinline__ int64_t TruncateToId(Float value) {
  return value >= static_cast<Float>(-0x1p63) && value < static_cast<Float>(0x1p63) ? static_cast<int64_t>(value)
                                                                                    : INT64_MIN;
}

__device__ __forceinline__ int64_t ToId(uint64_t bits, Read read) {
  if (read == Read::kInt32) return static_cast<int32_t>(static_cast<uint32_t>(bits));
  if (read == Read::kFloat32) return TruncateToId(__uint_as_float(static_cast<uint32_t>(bits)));
  if (read == Read::kFloat64) return TruncateToId(__longlong_as_double(static_cast<long long>(bits)));
  return static_cast<int64_t>(bits);
}

__device__ __forceinline__ float ToFloat(uint64_t bits, Read read) {
  if (read == Read::kFloat16) return __half2float(__ushort_as_half(static_cast<uint16_t>(bits)));
  return __uint_as_float(static_cast<uint32_t>(bits));
}

// The steps of an id in two's complement. Rare and long, so kept out of the loops.
inline __device__ __noinline__ int64_t ApplySteps(const Steps* steps, int64_t value) {
  const int64_t div = steps->div;
  const int64_t mod = steps->mod;
  // A division by -1 is a negation, also of the smallest int64.
  if (div != 0) value = div == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(value)) : value / div;
  if (mod != 0) {
    int64_t remainder = mod == -1 ? 0 : value % mod;
    if (remainder != 0 && (remainder ^ mod) < 0) remainder += mod;
    value = remainder;
  }
  return static_cast<int64_t>(static_cast<uint64_t>(value) * static_cast<uint64_t>(steps->mul) +
                              static_cast<uint64_t>(steps->add));
}

// Of a number below 2^31.
__device__ __forceinline__ uint32_t Divide(uint32_t number, Divisor divisor) {
  return (__umulhi(number, divisor.multiplier) + number) >> divisor.shift;
}

constexpr unsigned kWholeWarp = 0xffffffffu;

// The vector that another lane of the warp has.
template <int kBytes>
__device__ __forceinline__ Vector<kBytes> FromLane(const Vector<kBytes>& vector, int lane) {
  if constexpr (kBytes == 2) {
    return static_cast<uint16_t>(__shfl_sync(kWholeWarp, static_cast<uint32_t>(vector), lane));
  } else {
    Vector<kBytes> result;
    const uint32_t* from = reinterpret_cast<const uint32_t*>(&vector);
    uint32_t* to = reinterpret_cast<uint32_t*>(&result);
#pragma unroll
    for (int k = 0; k < kBytes / 4; ++k) to[k] = __shfl_sync(kWholeWarp, from[k], lane);
    return result;
  }
}

// Where a source's column is in a row, and how far it is to the next row and the next column.
struct Place {
  int64_t first;
  int64_t row_step;
  int64_t column_step;
};

__device__ __forceinline__ Place PlaceOf(const LookupArguments& a, const Words& words, uint32_t word, uint32_t column,
                                         uint32_t columns, int64_t row) {
  if (columns == 0) return {column * a.rows + row, 1, a.rows};
  const int64_t count = columns == kDynamicColumns ? static_cast<int64_t>(words[word + 1]) : columns;
  return {row * count + column, count, 1};
}

__device__ __forceinline__ const char* TableAddress(const Words& words, TableBase base, Facts facts) {
  return reinterpret_cast<const char*>(facts.dynamic_table() ? words[base.word()] + base.offset() : base.bits);
}

// Turns an id into a row of the table: ids below 0 count from the end. Returns whether it was outside; then the row is
// -1, for zeros, or the nearest one.
__device__ __forceinline__ bool ResolveId(int64_t table_rows, bool clamp, int64_t* id) {
  if (*id < 0) *id += table_rows;
  if (static_cast<uint64_t>(*id) < static_cast<uint64_t>(table_rows)) return false;
  *id = !clamp ? -1 : *id < 0 ? 0 : table_rows - 1;
  return true;
}

}  // namespace dpiframe::cuda
