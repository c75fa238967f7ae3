// Leaves of operators and casts. Included once for each instruction set: internal linkage.
#pragma once

#include <cstdint>
#include <type_traits>

#include "elementwise_leaf.h"
#include "elementwise_math.h"
#include "elementwise_tiles.h"

namespace dpiframe {
namespace {

// An element of a tensor of 8-byte elements may start at any multiple of 4 bytes.
template <typename T>
struct InMemory {
  typedef T Type __attribute__((aligned(sizeof(T) < 4 ? sizeof(T) : 4), may_alias));
};
template <typename T>
using Loose = typename InMemory<T>::Type;

template <ElementwiseOp kOp>
struct Operation;

#define DPIFRAME_OPERATOR(enumerator, name, arity, types, gives_bool, code)               \
  template <>                                                                             \
  struct Operation<ElementwiseOp::enumerator> {                                           \
    static constexpr int kArity = arity;                                                  \
    static constexpr unsigned kTypes = types;                                             \
    static constexpr bool kGivesBool = gives_bool;                                        \
    template <typename X, typename T>                                                     \
    static auto Apply([[maybe_unused]] X x, [[maybe_unused]] T y, [[maybe_unused]] T z) { \
      return static_cast<std::conditional_t<gives_bool, uint8_t, T>>(code);               \
    }                                                                                     \
  };
#include "elementwise_operators.inc"
#undef DPIFRAME_OPERATOR

template <ElementwiseOp kOp, typename T, unsigned kBroadcast>
void OperationLeaf(const LeafArgs& args) {
  using O = Operation<kOp>;
  using X = std::conditional_t<kOp == ElementwiseOp::kWhere, uint8_t, T>;
  using Result = std::conditional_t<O::kGivesBool, uint8_t, T>;
  constexpr int kY = O::kArity > 1 ? 2 : 1;
  constexpr int kZ = O::kArity > 2 ? 3 : 1;
  const int64_t inner = args.sizes[1];
  if (O::kArity > 1 && args.sizes[0] > 1) {
    constexpr int64_t kBytes[] = {sizeof(Result), sizeof(X), sizeof(T), sizeof(T)};
    if (RunTiled(args, O::kArity + 1, kBroadcast, kBytes, OperationLeaf<kOp, T, 0>)) return;
  }
  for (int64_t i = 0; i < args.sizes[0]; ++i) {
    Loose<Result>* const out = reinterpret_cast<Loose<Result>*>(args.data[0] + i * args.strides[0][0]);
    const Loose<X>* const x = reinterpret_cast<const Loose<X>*>(args.data[1] + i * args.strides[1][0]);
    const Loose<T>* const y = reinterpret_cast<const Loose<T>*>(args.data[kY] + i * args.strides[kY][0]);
    const Loose<T>* const z = reinterpret_cast<const Loose<T>*>(args.data[kZ] + i * args.strides[kZ][0]);
    const X x0 = x[0];
    const T y0 = O::kArity > 1 ? y[0] : T();
    const T z0 = O::kArity > 2 ? z[0] : T();
    // The result may lie exactly where an operand lies.
#pragma GCC ivdep
    for (int64_t j = 0; j < inner; ++j) {
      out[j] = O::Apply((kBroadcast & 1) != 0 ? x0 : x[j], O::kArity < 2 || (kBroadcast & 2) != 0 ? y0 : y[j],
                        O::kArity < 3 || (kBroadcast & 4) != 0 ? z0 : z[j]);
    }
  }
}

template <ElementwiseOp kOp, typename T>
Leaf OperationOf(unsigned broadcast) {
  constexpr int kArity = Operation<kOp>::kArity;
  if (broadcast == 0) return OperationLeaf<kOp, T, 0>;
  if constexpr (kArity == 2) {
    if (broadcast == 1) return OperationLeaf<kOp, T, 1>;
    if (broadcast == 2) return OperationLeaf<kOp, T, 2>;
  }
  if constexpr (kArity == 3) {
    if (broadcast == 2) return OperationLeaf<kOp, T, 2>;
    if (broadcast == 4) return OperationLeaf<kOp, T, 4>;
    if (broadcast == 6) return OperationLeaf<kOp, T, 6>;
  }
  return nullptr;
}

template <ElementwiseOp kOp>
Leaf OperationOf(Stored type, unsigned broadcast) {
  constexpr unsigned kTypes = Operation<kOp>::kTypes;
  const auto has = [](ScalarType scalar) constexpr { return (kTypes >> static_cast<int>(scalar) & 1) != 0; };
  if constexpr (has(ScalarType::kFloat32)) {
    if (type == Stored::kFloat) return OperationOf<kOp, float>(broadcast);
  }
  if constexpr (has(ScalarType::kFloat64)) {
    if (type == Stored::kDouble) return OperationOf<kOp, double>(broadcast);
  }
  if constexpr (has(ScalarType::kInt32)) {
    if (type == Stored::kInt32) return OperationOf<kOp, int32_t>(broadcast);
  }
  if constexpr (has(ScalarType::kInt64)) {
    if (type == Stored::kInt64) return OperationOf<kOp, int64_t>(broadcast);
  }
  if constexpr (has(ScalarType::kBool)) {
    if (type == Stored::kByte) return OperationOf<kOp, uint8_t>(broadcast);
  }
  return nullptr;
}

inline Leaf FindOperation(ElementwiseOp op, Stored type, unsigned broadcast) {
  switch (op) {
#define DPIFRAME_OPERATOR(enumerator, name, arity, types, gives_bool, code) \
  case ElementwiseOp::enumerator:                                           \
    return OperationOf<ElementwiseOp::enumerator>(type, broadcast);
#include "elementwise_operators.inc"
#undef DPIFRAME_OPERATOR
  }
  return nullptr;
}

}  // namespace
}  // namespace dpiframe
