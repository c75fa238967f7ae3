// The types and operators of FusedElementwise programs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dpiframe {

enum class ScalarType { kFloat32, kFloat16, kFloat64, kInt32, kInt64, kBool };

constexpr size_t ScalarBytes(ScalarType type) {
  switch (type) {
    case ScalarType::kFloat64:
    case ScalarType::kInt64:
      return 8;
    case ScalarType::kFloat32:
    case ScalarType::kInt32:
      return 4;
    case ScalarType::kFloat16:
      return 2;
    case ScalarType::kBool:
      return 1;
  }
  return 0;
}

// In the order of custom_ops/elementwise_operators.py, from which the build writes elementwise_operators.inc:
// DPIFRAME_OPERATOR(Enumerator, "name", arity, types, gives_bool, (expression in x, y, z)).
enum class ElementwiseOp {
#define DPIFRAME_OPERATOR(enumerator, name, arity, types, gives_bool, code) enumerator,
#include "elementwise_operators.inc"
#undef DPIFRAME_OPERATOR
};

// Whether the result of an operator on halves is a half without being rounded.
constexpr bool KeepsHalves(ElementwiseOp op) {
  switch (op) {
    case ElementwiseOp::kWhere:
    case ElementwiseOp::kMinimum:
    case ElementwiseOp::kMaximum:
    case ElementwiseOp::kNeg:
    case ElementwiseOp::kAbs:
    case ElementwiseOp::kSign:
    case ElementwiseOp::kFloor:
    case ElementwiseOp::kCeil:
    case ElementwiseOp::kRound:
    case ElementwiseOp::kRelu:
      return true;
    default:
      return false;
  }
}

}  // namespace dpiframe
