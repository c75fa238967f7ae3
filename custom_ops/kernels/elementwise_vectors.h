// Vectors of any element type, as wide as the instruction set has them, and single elements in the same words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "elementwise_program.h"

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

// For vectors and for single elements. NaN wins; where both are NaN, either may.
template <ReduceOp kOp, typename V>
inline V Combine(V total, V x) {
  if constexpr (kOp == ReduceOp::kSum) return total + x;
  if constexpr (kOp == ReduceOp::kProd) return total * x;
  if constexpr (kOp == ReduceOp::kMax) return ((x > total) | (x != x)) ? x : total;
  return ((x < total) | (x != x)) ? x : total;
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
