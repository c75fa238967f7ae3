// How a reduction is written: its totals, what joins them, and the loop of one that its reader computes.
#include "expressions.h"

namespace dpiframe::cuda {
namespace {

constexpr int64_t kFullyUnrolled = 16;

}  // namespace

Parts ExpressionPrinter::PrintStarts(const ElementwiseValue& reduction, const std::string& name) {
  Parts totals;
  const std::string type = ComputedType(reduction.type);
  for (int place = 0; place < width_; ++place) {
    totals.push_back(name + "_" + std::to_string(place));
    Line(type + " " + totals.back() + " = " + RuleName(reduction.reduce) + "::Start<" + type + ">();");
  }
  return totals;
}

void ExpressionPrinter::PrintTotals(const ElementwiseValue& reduction, const Parts& totals,
                                    const std::function<Index(const Index&)>& map, const Index& index) {
  const int number = reduction.operands[0];
  const ElementwiseValue& operand = ValueAt(number);
  const bool is_float = reduction.type == ScalarType::kFloat32 || reduction.type == ScalarType::kFloat64;
  const bool is_product = reduction.reduce == ReduceOp::kSum && is_float && operand.kind == ValueKind::kOperator &&
                          operand.op == ElementwiseOp::kMul &&
                          schedule_.homes[static_cast<size_t>(number)] == Home::kNowhere;
  const auto at = [](const Parts& parts, size_t place) { return parts[parts.size() == 1 ? 0 : place]; };
  if (is_product) {
    Parts factors[2];
    for (int i = 0; i < 2; ++i) {
      factors[i] = PrintMapped(operand.operands[static_cast<size_t>(i)], index,
                               [&](const Index& own) { return OperandIndex(program_, operand, i, map(own)); });
    }
    for (size_t i = 0; i < totals.size(); ++i) {
      PrintTotal(totals[i], "MultiplyAdd(" + at(factors[0], i) + ", " + at(factors[1], i) + ", " + totals[i] + ")");
    }
    return;
  }
  const Parts parts = PrintMapped(number, index, map);
  for (size_t i = 0; i < totals.size(); ++i) {
    PrintTotal(totals[i], RuleName(reduction.reduce) + "::Join(" + totals[i] + ", " + at(parts, i) + ")");
  }
}

void ExpressionPrinter::PrintTotal(const std::string& total, const std::string& next) {
  Line(total + " = " + (guard_.empty() ? next : guard_ + " ? " + next + " : " + total) + ";");
}

std::string ExpressionPrinter::Joined(const ElementwiseValue& reduction, const Parts& totals) {
  Parts left = totals;
  while (left.size() > 1) {
    Parts next;
    for (size_t i = 0; i + 1 < left.size(); i += 2) {
      next.push_back(RuleName(reduction.reduce) + "::Join(" + left[i] + ", " + left[i + 1] + ")");
    }
    left = next;
  }
  return left[0];
}

// A reduction that its reader computes: a loop of its own at each place.
Parts ExpressionPrinter::PrintLoop(int number, const Index& index) {
  const ElementwiseValue& value = ValueAt(number);
  const int64_t inner = ValueAt(value.operands[0]).elements / value.elements;
  if (inner == 1) {
    return PrintMapped(value.operands[0], index,
                       [&](const Index& own) { return ReducedIndex(program_, value, own, Index::Constant(0)); });
  }
  const ReducedRun run = LastRun(program_, value);
  int width = 4;
  while (run.kept ? width > 1 : run.length % width != 0) width /= 2;
  const int outer_width = width_;
  const Parts parts = PrintPlaces(index, [&](const Index& own) {
    const std::string name = NewName("loop");
    const std::string round = NewName("s");
    width_ = width;
    const Parts totals = PrintStarts(value, name);
    Line(inner / width <= kFullyUnrolled ? "#pragma unroll" : "#pragma unroll 4");
    Open("for (unsigned " + round + " = 0; " + round + " < " + Number(inner / width) + "; ++" + round + ")");
    PrintTotals(
        value, totals, [&](const Index& element) { return ReducedIndex(program_, value, own, element); },
        Index::Variable(round, inner / width).Times(width) + Index::Place(width));
    Close();
    width_ = outer_width;
    const std::string result = NewName("v");
    Line("const " + ComputedType(value.type) + " " + result + " = " + Rounded(value.type, Joined(value, totals)) + ";");
    return result;
  });
  return parts;
}

}  // namespace dpiframe::cuda
