#include "placement.h"

#include <algorithm>

namespace dpiframe {
namespace {

// Pieces of a joined value shorter than this are better copied than written one by one by the step that makes them.
constexpr int64_t kShortestPiece = 8;

class Placer {
 public:
  Placer(const ElementwiseProgram& program, const std::vector<bool>& constant_inputs)
      : program_(program), constant_inputs_(constant_inputs), values_(program.values.size()) {}

  std::vector<ValuePlacement> Place() {
    MarkNeeded();
    for (size_t i = 0; i < values_.size(); ++i) {
      values_[i].phase = PhaseOf(i);
      if (IsAlias(program_.values[i])) values_[i].alias_of = program_.values[i].operands[0];
    }
    CountUses();
    for (size_t i = 0; i < program_.outputs.size(); ++i) PlaceInOutput(static_cast<int>(i));
    for (size_t i = values_.size(); i-- > 0;) {
      if (values_[i].needed && program_.values[i].kind == ValueKind::kJoin) PlaceParts(static_cast<int>(i));
    }
    return std::move(values_);
  }

 private:
  const ElementwiseValue& Value(int value) const { return program_.values[static_cast<size_t>(value)]; }
  ValuePlacement& Placement(int value) { return values_[static_cast<size_t>(value)]; }

  void MarkNeeded() {
    for (const int output : program_.outputs) Placement(output).needed = true;
    for (size_t i = values_.size(); i-- > 0;) {
      if (!values_[i].needed) continue;
      for (const int operand : program_.values[i].operands) Placement(operand).needed = true;
    }
  }

  int PhaseOf(size_t i) const {
    const ElementwiseValue& value = program_.values[i];
    const uint32_t all = program_.row_axes == 2 ? 3 : 1;
    if (value.row_axes == all) return kRows;
    if (value.row_axes != 0) return value.row_axes == 1 ? kOuterRows : kInnerRows;
    bool constant = value.kind != ValueKind::kInput || constant_inputs_[i];
    for (const int operand : value.operands) constant &= values_[static_cast<size_t>(operand)].phase == kConstants;
    return constant ? kConstants : kCall;
  }

  bool IsAlias(const ElementwiseValue& value) const {
    if (value.operands.empty()) return false;
    const ElementwiseValue& operand = Value(value.operands[0]);
    if (value.kind == ValueKind::kCast) {
      // a half is kept as a float
      return value.type == operand.type || (operand.type == ScalarType::kFloat16 && value.type == ScalarType::kFloat32);
    }
    Layout layout;
    return ViewStrides(value, &layout.offset, &layout.strides) && layout.offset == 0 &&
           value.elements == operand.elements && IsDense(layout, value.sizes);
  }

  void CountUses() {
    for (const int output : program_.outputs) ++Placement(Owner(values_, output)).uses;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (!values_[i].needed || values_[i].alias_of >= 0) continue;
      for (const int operand : program_.values[i].operands) ++Placement(Owner(values_, operand)).uses;
    }
  }

  // Whether a step makes it, which can be told where to write.
  bool Movable(int value) const {
    const ElementwiseValue& made = Value(value);
    if (values_[static_cast<size_t>(value)].target.output >= 0) return false;
    if (values_[static_cast<size_t>(value)].target.joined >= 0) return false;
    if (made.kind == ValueKind::kView || made.kind == ValueKind::kInput || made.kind == ValueKind::kConst) return false;
    int64_t offset = 0;
    Sizes strides;
    return made.kind != ValueKind::kPick || !ViewStrides(made, &offset, &strides);
  }

  void PlaceInOutput(int output) {
    const int value = program_.outputs[static_cast<size_t>(output)];
    const int owner = Owner(values_, value);
    // a half is written in another form than it is kept in
    if (Value(value).type == ScalarType::kFloat16 || Value(owner).type == ScalarType::kFloat16) return;
    if (Movable(owner)) Placement(owner).target.output = output;
  }

  void PlaceParts(int joined) {
    const ElementwiseValue& value = Value(joined);
    const size_t axis = static_cast<size_t>(value.axis);
    int64_t before = 1;
    int64_t behind = 1;
    for (size_t i = 0; i < value.sizes.size(); ++i) (i < axis ? before : behind) *= i == axis ? 1 : value.sizes[i];
    int64_t first = 0;
    for (const int part : value.operands) {
      const int owner = Owner(values_, part);
      const int64_t size = Value(part).sizes[axis];
      const bool contiguous = before == 1;
      // In pieces only what nobody else reads, since others want it in one.
      const bool pieces = size * behind >= kShortestPiece && Placement(owner).uses == 1 &&
                          WithoutOnes(Value(part).sizes) == WithoutOnes(Value(owner).sizes);
      if (Movable(owner) && Placement(owner).phase == Placement(joined).phase && (contiguous || pieces)) {
        Placement(owner).target.joined = joined;
        Placement(owner).target.first = first;
        Placement(owner).target.part = part;
      }
      first += size;
    }
  }

  const ElementwiseProgram& program_;
  const std::vector<bool>& constant_inputs_;
  std::vector<ValuePlacement> values_;
};

}  // namespace

std::vector<ValuePlacement> PlaceValues(const ElementwiseProgram& program, const std::vector<bool>& constant_inputs) {
  return Placer(program, constant_inputs).Place();
}

bool ViewStrides(const ElementwiseValue& value, int64_t* offset, Sizes* strides) {
  if (value.kind == ValueKind::kView) {
    *offset = value.offset;
    *strides = value.strides;
    return true;
  }
  if (value.kind != ValueKind::kPick) return false;
  const int64_t step = value.indices.size() > 1 ? value.indices[1] - value.indices[0] : 0;
  for (size_t i = 1; i < value.indices.size(); ++i) {
    if (value.indices[i] - value.indices[i - 1] != step) return false;
  }
  *offset = value.indices[0];
  *strides = DenseStrides(value.sizes);
  for (int64_t& stride : *strides) stride *= step;
  return true;
}

int Owner(const std::vector<ValuePlacement>& values, int value) {
  while (values[static_cast<size_t>(value)].alias_of >= 0) value = values[static_cast<size_t>(value)].alias_of;
  return value;
}

}  // namespace dpiframe
