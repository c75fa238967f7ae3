// Vectors of any element type, as wide as the instruction set has them, and single elements in the same words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "program.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace dpiframe {
namespace {

#if defined(__AVX512F__)
constexpr size_t kVectorBytes = 64;
#elif defined(__AVX__)
constexpr size_t kVectorBytes = 32;
#else
constexpr size_t kVectorBytes = 16;
#endif
constexpr size_t kNarrowestBytes = 16;

template <typename T, size_t kBytes>
struct VectorType {
  typedef T Type __attribute__((vector_size(kBytes)));
};
template <typename T, size_t kBytes = kVectorBytes>
using Vector = typename VectorType<T, kBytes>::Type;

template <typename V>
inline V Load(const char* data) {
  V value;
  __builtin_memcpy(&value, data, sizeof value);
  return value;
}

template <typename V>
inline void Store(V value, char* data) {
  __builtin_memcpy(data, &value, sizeof value);
}

template <typename V, typename T>
inline V Splat(T value) {
  if constexpr (std::is_same<V, T>::value) return value;
  return value - V{};  // keeps the sign of zero, as value + V{} would not
}

// The larger and the smaller; x where either is NaN. Of comparisons gcc makes two instructions, or three with masks.
template <typename V>
inline V Larger(V total, V x) {
  return total > x ? total : x;
}

template <typename V>
inline V Smaller(V total, V x) {
  return total < x ? total : x;
}

#ifdef __AVX512F__
// For the forms with a mask, since gcc's header warns of the others' undefined operand.
constexpr __mmask16 kAllLanes = 0xffff;

inline Vector<float, 16> Larger(Vector<float, 16> total, Vector<float, 16> x) { return _mm_max_ps(total, x); }
inline Vector<float, 16> Smaller(Vector<float, 16> total, Vector<float, 16> x) { return _mm_min_ps(total, x); }
inline Vector<float, 32> Larger(Vector<float, 32> total, Vector<float, 32> x) { return _mm256_max_ps(total, x); }
inline Vector<float, 32> Smaller(Vector<float, 32> total, Vector<float, 32> x) { return _mm256_min_ps(total, x); }
inline Vector<float, 64> Larger(Vector<float, 64> total, Vector<float, 64> x) {
  return _mm512_maskz_max_ps(kAllLanes, total, x);
}
inline Vector<float, 64> Smaller(Vector<float, 64> total, Vector<float, 64> x) {
  return _mm512_maskz_min_ps(kAllLanes, total, x);
}
#endif

// For vectors and for single elements. NaN wins; where both are NaN, either may.
template <ReduceOp kOp, typename V>
inline V Combine(V total, V x) {
  if constexpr (kOp == ReduceOp::kSum) return total + x;
  if constexpr (kOp == ReduceOp::kProd) return total * x;
  if constexpr (std::is_arithmetic<V>::value) {
    // Of a single comparison the compiler makes a jump, which no processor can foresee.
    using One = Vector<V, kNarrowestBytes>;
    return Combine<kOp, One>(One{total}, One{x})[0];
  } else {
    V most = kOp == ReduceOp::kMax ? Larger(total, x) : Smaller(total, x);
    if constexpr (std::is_floating_point<std::decay_t<decltype(x[0])>>::value) most = total != total ? total : most;
    return most;
  }
}

// All lanes of a vector of the narrowest kind.
template <ReduceOp kOp, typename T>
inline T CombineLanes(Vector<T, kNarrowestBytes> total) {
  if constexpr (sizeof(T) == 4) {
    total = Combine<kOp>(total, __builtin_shufflevector(total, total, 2, 3, 0, 1));
    total = Combine<kOp>(total, __builtin_shufflevector(total, total, 1, 0, 3, 2));
  } else {
    total = Combine<kOp>(total, __builtin_shufflevector(total, total, 1, 0));
  }
  return total[0];
}

template <typename V, size_t... kLane>
inline auto Half(V value, std::index_sequence<kLane...>, std::integral_constant<size_t, 0>) {
  return __builtin_shufflevector(value, value, kLane...);
}

template <typename V, size_t... kLane>
inline auto Half(V value, std::index_sequence<kLane...>, std::integral_constant<size_t, 1>) {
  return __builtin_shufflevector(value, value, (sizeof...(kLane) + kLane)...);
}

// Calls f(V{}, k) for pieces of 0 ... count - 1, each as wide as possible: V is a vector of T or T itself.
template <typename T, size_t kBytes = kVectorBytes, typename F>
inline void ForPieces(int64_t count, F&& f, int64_t k = 0) {
  constexpr int64_t kLanes = kBytes / sizeof(T);
  for (; k + kLanes <= count; k += kLanes) f(Vector<T, kBytes>{}, k);
  if (k == count) return;
  if constexpr (kBytes > kNarrowestBytes) {
    ForPieces<T, kBytes / 2>(count, f, k);
  } else {
    for (; k < count; ++k) f(T{}, k);
  }
}

}  // namespace
}  // namespace dpiframe
