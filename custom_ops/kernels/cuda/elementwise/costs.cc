#include "costs.h"

#include <algorithm>

namespace dpiframe::cuda {
namespace {

double OperatorCost(const ElementwiseValue& value) {
  switch (value.op) {
    case ElementwiseOp::kDiv:
    case ElementwiseOp::kReciprocal:
    case ElementwiseOp::kSqrt:
      return 10;
    case ElementwiseOp::kExp:
    case ElementwiseOp::kLog:
      return 15;
    case ElementwiseOp::kMod:
    case ElementwiseOp::kSin:
    case ElementwiseOp::kCos:
    case ElementwiseOp::kAtan:
    case ElementwiseOp::kTanh:
    case ElementwiseOp::kErf:
    case ElementwiseOp::kSigmoid:
      return 25;
    case ElementwiseOp::kFmod:
    case ElementwiseOp::kPow:
      return 60;
    default:
      return 1;
  }
}

}  // namespace

double OwnCost(const ElementwiseValue& value) {
  switch (value.kind) {
    case ValueKind::kConst:
      return 0;
    case ValueKind::kInput:
      return 1.5;
    case ValueKind::kOperator:
      // Double precision has a fraction of the units.
      return OperatorCost(value) * (value.type == ScalarType::kFloat64 ? 4 : 1);
    case ValueKind::kCast:
    case ValueKind::kReduce:
      return 1;
    case ValueKind::kView:
      return 0.5;
    case ValueKind::kPick:
    case ValueKind::kJoin:
      return 2;
  }
  return 0;
}

std::vector<double> WholeCosts(const ElementwiseProgram& program) {
  constexpr double kMost = 1e9;
  std::vector<double> costs;
  for (const ElementwiseValue& value : program.values) {
    double cost = OwnCost(value);
    if (value.kind == ValueKind::kJoin) {
      double part = 0;
      for (const int operand : value.operands) part = std::max(part, costs[static_cast<size_t>(operand)]);
      cost += part;
    } else if (value.kind != ValueKind::kReduce) {
      for (const int operand : value.operands) cost += costs[static_cast<size_t>(operand)];
    }
    costs.push_back(std::min(cost, kMost));
  }
  return costs;
}

}  // namespace dpiframe::cuda
