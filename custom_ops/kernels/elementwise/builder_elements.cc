// Steps of operators and casts.
#include <algorithm>

#include "builder.h"

namespace dpiframe {
namespace {

// Inner loops shorter than this cost more than reading a value that the rows share in its full size.
constexpr int64_t kShortLoop = 64;
constexpr int64_t kLargestSpread = int64_t{1} << 14;

double CostOf(const ElementwiseValue& value) {
  if (value.kind != ValueKind::kOperator) return 0.1;
  switch (value.op) {
    case ElementwiseOp::kExp:
    case ElementwiseOp::kLog:
    case ElementwiseOp::kTanh:
    case ElementwiseOp::kErf:
    case ElementwiseOp::kSigmoid:
      return 0.4;
    case ElementwiseOp::kPow:
    case ElementwiseOp::kMod:
    case ElementwiseOp::kDiv:
      return 1;
    case ElementwiseOp::kSin:
    case ElementwiseOp::kCos:
    case ElementwiseOp::kAtan:
    case ElementwiseOp::kFmod:
      return 5;
    default:
      return 0.06;
  }
}

}  // namespace

std::vector<int> ElementwiseBuilder::FactorsOf(int value) const {
  const ElementwiseValue& made = Value(value);
  if (made.kind != ValueKind::kOperator) return {};
  if (made.op == ElementwiseOp::kMul) return made.operands;
  const bool squares = made.op == ElementwiseOp::kPow && Value(made.operands[1]).kind == ValueKind::kConst &&
                       Value(made.operands[1]).number == 2;
  return squares ? std::vector<int>{made.operands[0], made.operands[0]} : std::vector<int>{};
}

ElementwiseOp ElementwiseBuilder::OperatorOf(int value) const {
  return FactorsOf(value).empty() ? Value(value).op : ElementwiseOp::kMul;
}

// An operand that a line can take in, so that it never goes through memory.
int ElementwiseBuilder::FirstOfPair(int value) const {
  const auto simple = [&](int candidate) {
    const ElementwiseValue& made = Value(candidate);
    if (made.kind != ValueKind::kOperator || made.type != ScalarType::kFloat32) return false;
    const ElementwiseOp op = OperatorOf(candidate);
    return op == ElementwiseOp::kAdd || op == ElementwiseOp::kSub || op == ElementwiseOp::kMul;
  };
  if (!simple(value) || delayed_[static_cast<size_t>(value)]) return -1;
  for (const int operand : Value(value).operands) {
    if (simple(operand) && !delayed_[static_cast<size_t>(operand)] && Placement(operand).uses == 1 &&
        PhaseOf(operand) == PhaseOf(value) && Value(operand).sizes == Value(value).sizes) {
      return operand;
    }
  }
  return -1;
}

void ElementwiseBuilder::BuildOperator(int value) {
  const ElementwiseValue& made = Value(value);
  const int first = first_[static_cast<size_t>(value)];
  const auto operands_of = [&](int of) { return FactorsOf(of).empty() ? Value(of).operands : FactorsOf(of); };
  std::vector<int> operands = operands_of(value);
  if (first >= 0) {
    const int other = operands[operands[0] == first ? 1 : 0];
    operands = operands_of(first);
    operands.push_back(other);
  }
  // There is no leaf for a condition that is one element along the inner axis.
  EmitElementwise(value, operands, made.op == ElementwiseOp::kWhere ? 1 : 0);
  if (made.type == ScalarType::kFloat16 && !KeepsHalves(made.op)) EmitRound(value);
}

void ElementwiseBuilder::BuildCast(int value) { EmitElementwise(value, Value(value).operands, 1); }

Leaf ElementwiseBuilder::ElementLeaf(int value, unsigned broadcast) const {
  const ElementwiseValue& made = Value(value);
  if (made.kind == ValueKind::kCast) return leaves_.cast(Value(made.operands[0]).type, made.type);
  const int first = first_[static_cast<size_t>(value)];
  if (first >= 0) return leaves_.pair(OperatorOf(first), OperatorOf(value), made.operands[0] != first, broadcast);
  return leaves_.operation(OperatorOf(value), StoredOf(Value(made.operands.back()).type), broadcast);
}

// Whether the value that all rows share is better read in the result's full size.
bool ElementwiseBuilder::ReadsSlowly(int operand, int value, const Axes& axes) const {
  const ElementwiseValue& read = Value(operand);
  return !HasRows(PhaseOf(operand)) && HasRows(PhaseOf(value)) && read.elements > 1 &&
         WithoutOnes(read.sizes) != WithoutOnes(Value(value).sizes) && Value(value).elements <= kLargestSpread &&
         !axes.empty() && axes.back().size < kShortLoop;
}

// always_spread: operands, by bit, that must not be single elements along the inner axis.
void ElementwiseBuilder::EmitElementwise(int value, const std::vector<int>& operands, unsigned always_spread) {
  const ElementwiseValue& made = Value(value);
  const int phase = PhaseOf(value);
  const int64_t bytes = BytesOf(value);
  Accesses accesses{Write(value)};
  for (const int operand : operands) {
    accesses.push_back(BroadcastTo(Read(operand, phase), Value(operand).sizes, made.sizes));
  }
  const auto spread = [&](size_t k, const Sizes& sizes) {
    const int operand = operands[k];
    const Access dense = AccessTo(DenseOf(operand, sizes), BytesOf(operand), PhaseOf(operand), phase);
    accesses[k + 1] = BroadcastTo(dense, sizes, made.sizes);
  };
  Access to = accesses[0];
  const auto make_axes = [&] {
    Axes axes = MakeAxes(phase, made.sizes, accesses);
    Coalesce(&axes);
    return axes;
  };
  Axes axes = make_axes();
  for (size_t k = 0; k < operands.size(); ++k) {
    if (!ReadsSlowly(operands[k], value, axes)) continue;
    spread(k, made.sizes);
    axes = make_axes();
  }
  if (!axes.empty() && axes.back().strides[0] != bytes) {
    accesses[0] = NewBlock(phase, made.sizes, bytes);
    axes = make_axes();
  }
  for (size_t k = 0; k < operands.size(); ++k) {
    if (axes.empty()) break;
    const int64_t stride = axes.back().strides[k + 1];
    if (stride == 0 || stride == BytesOf(operands[k])) continue;
    spread(k, Value(operands[k]).sizes);
    axes = make_axes();
  }
  unsigned broadcast = 0;
  if (!axes.empty()) {
    for (size_t k = 0; k < operands.size(); ++k) broadcast |= axes.back().strides[k + 1] == 0 ? 1u << k : 0;
  }
  const unsigned all = (1u << operands.size()) - 1;
  if (broadcast == all) always_spread |= 1;
  for (size_t k = 0; k < operands.size(); ++k) {
    if ((broadcast & always_spread & 1u << k) == 0) continue;
    const Access filled = NewBlock(phase, made.sizes, BytesOf(operands[k]));
    EmitCopy(phase, filled, accesses[k + 1], made.sizes, BytesOf(operands[k]));
    accesses[k + 1] = filled;
    broadcast &= ~(1u << k);
  }
  axes = make_axes();
  Step step;
  step.leaf = ElementLeaf(value, broadcast);
  SetAxes(accesses, axes, 2, &step);
  for (size_t k = 1; k < accesses.size(); ++k) {
    bool same = accesses[k].row_stride == accesses[0].row_stride && accesses[k].offset == accesses[0].offset;
    for (const Axis& axis : axes) same = same && axis.strides[k] == axis.strides[0];
    if (same && BytesOf(operands[k - 1]) == bytes) step.overwrites |= 1u << k;
  }
  Emit(phase, std::move(step), CostOf(made));
  if (accesses[0].storage != to.storage) EmitCopy(phase, to, accesses[0], made.sizes, bytes);
}

void ElementwiseBuilder::EmitRound(int value) {
  const Access access = Write(value);
  EmitHalves(PhaseOf(value), access, access, Value(value).sizes, leaves_.round_to_half);
}

}  // namespace dpiframe
