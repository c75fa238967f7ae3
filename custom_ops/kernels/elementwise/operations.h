// Leaves of operators and casts. Included once for each instruction set: internal linkage.
#pragma once

#include <cstdint>
#include <type_traits>

#include "float_math.h"
#include "leaf.h"
#include "math.h"
#include "tiles.h"

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

// An operator as a leaf runs it: on elements of type T, but for a condition.
template <ElementwiseOp kOp, typename E>
struct Single {
  using T = E;
  using X = std::conditional_t<kOp == ElementwiseOp::kWhere, uint8_t, T>;
  using Result = std::conditional_t<Operation<kOp>::kGivesBool, uint8_t, T>;
  static constexpr int kArity = Operation<kOp>::kArity;
  static Result Apply(X x, T y, T z) { return Operation<kOp>::Apply(x, y, z); }
};

// Two, the second on the result of the first and z, or on z and the result.
template <ElementwiseOp kFirst, ElementwiseOp kSecond, bool kReversed>
struct Pair {
  using T = float;
  using X = float;
  using Result = float;
  static constexpr int kArity = 3;
  static float Apply(float x, float y, float z) {
    const float first = Operation<kFirst>::Apply(x, y, 0.0f);
    return kReversed ? Operation<kSecond>::Apply(z, first, 0.0f) : Operation<kSecond>::Apply(first, z, 0.0f);
  }
};

template <typename F, unsigned kBroadcast>
void ElementsLeaf(const LeafArgs& args) {
  using X = typename F::X;
  using T = typename F::T;
  using Result = typename F::Result;
  constexpr int kY = F::kArity > 1 ? 2 : 1;
  constexpr int kZ = F::kArity > 2 ? 3 : 1;
  const int64_t inner = args.sizes[1];
  if (F::kArity > 1 && args.sizes[0] > 1) {
    constexpr int64_t kBytes[] = {sizeof(Result), sizeof(X), sizeof(T), sizeof(T)};
    if (RunTiled(args, F::kArity + 1, kBroadcast, kBytes, ElementsLeaf<F, 0>)) return;
  }
  for (int64_t i = 0; i < args.sizes[0]; ++i) {
    Loose<Result>* const out = reinterpret_cast<Loose<Result>*>(args.data[0] + i * args.strides[0][0]);
    const Loose<X>* const x = reinterpret_cast<const Loose<X>*>(args.data[1] + i * args.strides[1][0]);
    const Loose<T>* const y = reinterpret_cast<const Loose<T>*>(args.data[kY] + i * args.strides[kY][0]);
    const Loose<T>* const z = reinterpret_cast<const Loose<T>*>(args.data[kZ] + i * args.strides[kZ][0]);
    const X x0 = x[0];
    const T y0 = F::kArity > 1 ? y[0] : T();
    const T z0 = F::kArity > 2 ? z[0] : T();
    // The result may lie exactly where an operand lies.
#pragma GCC ivdep
    for (int64_t j = 0; j < inner; ++j) {
      out[j] = F::Apply((kBroadcast & 1) != 0 ? x0 : x[j], F::kArity < 2 || (kBroadcast & 2) != 0 ? y0 : y[j],
                        F::kArity < 3 || (kBroadcast & 4) != 0 ? z0 : z[j]);
    }
  }
}

template <ElementwiseOp kOp, typename T>
Leaf OperationOf(unsigned broadcast) {
  constexpr int kArity = Operation<kOp>::kArity;
  if (broadcast == 0) return ElementsLeaf<Single<kOp, T>, 0>;
  if constexpr (kArity == 2) {
    if (broadcast == 1) return ElementsLeaf<Single<kOp, T>, 1>;
    if (broadcast == 2) return ElementsLeaf<Single<kOp, T>, 2>;
  }
  if constexpr (kArity == 3) {
    if (broadcast == 2) return ElementsLeaf<Single<kOp, T>, 2>;
    if (broadcast == 4) return ElementsLeaf<Single<kOp, T>, 4>;
    if (broadcast == 6) return ElementsLeaf<Single<kOp, T>, 6>;
  }
  return nullptr;
}

template <ElementwiseOp kOp>
Leaf OperationOf(Stored type, unsigned broadcast) {
  constexpr unsigned kTypes = Operation<kOp>::kTypes;
  const auto has = [](ScalarType scalar) constexpr { return (kTypes >> static_cast<int>(scalar) & 1) != 0; };
  if (type == Stored::kFloat) {
    if constexpr (kOp == ElementwiseOp::kExp) {
      return VectorLeaf<VectorExp>;
    } else if constexpr (kOp == ElementwiseOp::kSigmoid) {
      return VectorLeaf<VectorSigmoid>;
    } else if constexpr (kOp == ElementwiseOp::kTanh) {
      return VectorLeaf<VectorTanh>;
    } else if constexpr (kOp == ElementwiseOp::kErf) {
      return VectorLeaf<VectorErf>;
    } else if constexpr (has(ScalarType::kFloat32)) {
      return OperationOf<kOp, float>(broadcast);
    }
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

template <typename F>
Leaf PairOf(unsigned broadcast) {
  static constexpr Leaf kLeaves[] = {ElementsLeaf<F, 0>, ElementsLeaf<F, 1>, ElementsLeaf<F, 2>, ElementsLeaf<F, 3>,
                                     ElementsLeaf<F, 4>, ElementsLeaf<F, 5>, ElementsLeaf<F, 6>};
  return kLeaves[broadcast];
}

template <ElementwiseOp kFirst>
Leaf PairOf(ElementwiseOp second, bool reversed, unsigned broadcast) {
  switch (second) {
    case ElementwiseOp::kAdd:
      return PairOf<Pair<kFirst, ElementwiseOp::kAdd, false>>(broadcast);
    case ElementwiseOp::kMul:
      return PairOf<Pair<kFirst, ElementwiseOp::kMul, false>>(broadcast);
    default:
      if (reversed) return PairOf<Pair<kFirst, ElementwiseOp::kSub, true>>(broadcast);
      return PairOf<Pair<kFirst, ElementwiseOp::kSub, false>>(broadcast);
  }
}

inline Leaf FindPair(ElementwiseOp first, ElementwiseOp second, bool reversed, unsigned broadcast) {
  switch (first) {
    case ElementwiseOp::kAdd:
      return PairOf<ElementwiseOp::kAdd>(second, reversed, broadcast);
    case ElementwiseOp::kMul:
      return PairOf<ElementwiseOp::kMul>(second, reversed, broadcast);
    default:
      return PairOf<ElementwiseOp::kSub>(second, reversed, broadcast);
  }
}

}  // namespace
}  // namespace dpiframe
