#include "builder.h"

#include <algorithm>

namespace dpiframe {
ElementwiseBuilder::ElementwiseBuilder(const ElementwiseProgram& program, const std::vector<bool>& constant_inputs,
                                       const LeafTable& leaves)
    : program_(program),
      leaves_(leaves),
      placements_(PlaceValues(program, constant_inputs)),
      resolved_(program.values.size()),
      layouts_(program.values.size()),
      delayed_(program.values.size()),
      first_(program.values.size(), -1) {}

Schedule ElementwiseBuilder::Build() {
  const int count = static_cast<int>(program_.values.size());
  for (int value = 0; value < count; ++value) {
    if (Placement(value).needed && FusesIntoSum(value)) delayed_[static_cast<size_t>(Value(value).operands[0])] = true;
  }
  for (int value = count; value-- > 0;) {
    const int first = Placement(value).needed ? FirstOfPair(value) : -1;
    first_[static_cast<size_t>(value)] = first;
    if (first >= 0) delayed_[static_cast<size_t>(first)] = true;
  }
  for (int value = 0; value < count; ++value) {
    if (Placement(value).needed && !delayed_[static_cast<size_t>(value)]) BuildValue(value);
  }
  for (size_t output = 0; output < program_.outputs.size(); ++output) FillOutput(output);
  return std::move(schedule_);
}

int ElementwiseBuilder::AddStorage(StorageKind kind, int index, int phase, int64_t row_bytes) {
  schedule_.storages.push_back({kind, index, phase, row_bytes});
  return static_cast<int>(schedule_.storages.size()) - 1;
}

Access ElementwiseBuilder::NewBlock(int phase, const Sizes& sizes, int64_t bytes) {
  const Layout layout{AddStorage(StorageKind::kBlock, -1, phase, ElementsOf(sizes) * bytes), 0, DenseStrides(sizes)};
  return AccessTo(layout, bytes, phase, phase);
}

const Layout& ElementwiseBuilder::LayoutOf(int value) {
  const size_t i = static_cast<size_t>(value);
  if (!resolved_[i]) {
    layouts_[i] = Resolve(value);
    resolved_[i] = true;
  }
  return layouts_[i];
}

Layout ElementwiseBuilder::Resolve(int value) {
  const ElementwiseValue& made = Value(value);
  int64_t offset = 0;
  Sizes strides;
  if (Placement(value).alias_of >= 0) {
    return LayoutOfView(value, Placement(value).alias_of, 0, DenseStrides(made.sizes));
  }
  if (ViewStrides(made, &offset, &strides)) return LayoutOfView(value, made.operands[0], offset, strides);
  return OwnLayout(value);
}

Layout ElementwiseBuilder::LayoutOfView(int value, int operand, int64_t offset, const Sizes& strides) {
  Layout layout;
  const Sizes& sizes = Value(operand).sizes;
  if (!ComposeView(LayoutOf(operand), sizes, offset, Value(value).sizes, strides, &layout)) {
    ComposeView(DenseOf(operand, sizes), sizes, offset, Value(value).sizes, strides, &layout);
  }
  return layout;
}

Layout ElementwiseBuilder::OwnLayout(int value) {
  Layout layout;
  const ElementwiseValue& made = Value(value);
  if (TargetLayout(value, &layout)) return layout;
  // a half that is an input is loaded into a storage of floats
  const bool in_place = made.kind == ValueKind::kInput && made.type != ScalarType::kFloat16;
  layout.storage = AddStorage(in_place ? StorageKind::kInput : StorageKind::kBlock, in_place ? value : -1,
                              PhaseOf(value), made.elements * BytesOf(value));
  layout.strides = DenseStrides(made.sizes);
  return layout;
}

// Where the placement wants the value, if it can lie there.
bool ElementwiseBuilder::TargetLayout(int value, Layout* layout) {
  const ElementwiseValue& made = Value(value);
  const Target& target = Placement(value).target;
  layout->strides = DenseStrides(made.sizes);
  if (target.output >= 0) {
    layout->storage = AddStorage(StorageKind::kOutput, target.output, PhaseOf(value), made.elements * BytesOf(value));
    return true;
  }
  if (target.joined < 0) return false;
  const Layout& joined = LayoutOf(target.joined);
  const Sizes& part_sizes = Value(target.part).sizes;
  layout->storage = joined.storage;
  layout->offset = joined.offset + target.first * joined.strides[static_cast<size_t>(Value(target.joined).axis)];
  const Layout part{layout->storage, layout->offset, joined.strides};
  if (IsDense(part, part_sizes)) return true;
  if (WithoutOnes(part_sizes) != WithoutOnes(made.sizes)) return false;
  size_t axis = 0;
  for (size_t i = 0; i < made.sizes.size(); ++i) {
    if (made.sizes[i] == 1) continue;
    while (part_sizes[axis] == 1) ++axis;
    layout->strides[i] = joined.strides[axis++];
  }
  return true;
}

const Layout& ElementwiseBuilder::DenseOf(int value, const Sizes& sizes) {
  const auto [entry, added] = dense_.try_emplace({value, sizes});
  if (!added) return entry->second;
  const Layout& own = LayoutOf(value);
  const bool same_sizes = WithoutOnes(sizes) == WithoutOnes(Value(value).sizes);
  // Of single elements the rows have to lie side by side.
  const bool rows_dense = ElementsOf(sizes) > 1 || !HasRows(PhaseOf(value)) ||
                          schedule_.storages[static_cast<size_t>(own.storage)].row_bytes == BytesOf(value);
  if (same_sizes && rows_dense && IsDense(own, Value(value).sizes)) {
    entry->second = {own.storage, own.offset, DenseStrides(sizes)};
    return entry->second;
  }
  const int phase = PhaseOf(value);
  const int64_t bytes = BytesOf(value);
  Layout layout;
  layout.storage = AddStorage(StorageKind::kBlock, -1, phase, ElementsOf(sizes) * bytes);
  layout.strides = DenseStrides(sizes);
  entry->second = layout;
  EmitCopy(phase, AccessTo(layout, bytes, phase, phase), BroadcastTo(Read(value, phase), Value(value).sizes, sizes),
           sizes, bytes);
  return entry->second;
}

Access ElementwiseBuilder::AccessTo(const Layout& layout, int64_t bytes, int layout_phase, int phase) {
  Access access{layout.storage, layout.offset * bytes, 0, layout.strides};
  for (int64_t& stride : access.strides) stride *= bytes;
  if (HasRows(layout_phase)) {
    access.row_stride = schedule_.storages[static_cast<size_t>(layout.storage)].row_bytes;
    if (layout_phase != phase) access.storage = Repeated(layout.storage, phase, bytes);
  }
  return access;
}

// A storage of one row axis, its rows repeated for all rows of a block.
int ElementwiseBuilder::Repeated(int storage, int phase, int64_t bytes) {
  const auto [entry, added] = repeated_.try_emplace(storage);
  if (!added) return entry->second;
  const Storage& from = schedule_.storages[static_cast<size_t>(storage)];
  const Repeat repeat = from.phase == kOuterRows ? Repeat::kOuterRows : Repeat::kInnerRows;
  const int64_t row_bytes = from.row_bytes;
  const int to = AddStorage(StorageKind::kBlock, -1, phase, row_bytes);
  entry->second = to;
  Step step;
  step.leaf = leaves_.copy(static_cast<size_t>(bytes));
  step.operands = 2;
  step.storages[0] = to;
  step.storages[1] = storage;
  step.repeat = repeat;
  step.args.sizes[1] = row_bytes / bytes;
  step.args.strides[0][0] = step.args.strides[1][0] = row_bytes;
  step.args.strides[0][1] = step.args.strides[1][1] = bytes;
  Emit(phase, std::move(step), 0.1);
  return to;
}

void ElementwiseBuilder::BuildValue(int value) {
  const ElementwiseValue& made = Value(value);
  if (Placement(value).alias_of >= 0) return;
  switch (made.kind) {
    case ValueKind::kInput:
      if (made.type == ScalarType::kFloat16) LoadInput(value);
      break;
    case ValueKind::kConst:
      constants_.push_back({LayoutOf(value).storage, value});
      break;
    case ValueKind::kOperator:
      BuildOperator(value);
      break;
    case ValueKind::kCast:
      BuildCast(value);
      break;
    case ValueKind::kView:
      break;
    case ValueKind::kPick:
      BuildPick(value);
      break;
    case ValueKind::kJoin:
      BuildJoin(value);
      break;
    case ValueKind::kReduce:
      BuildReduction(value);
      break;
  }
}

void ElementwiseBuilder::LoadInput(int value) {
  const int phase = PhaseOf(value);
  const ElementwiseValue& made = Value(value);
  Layout halves;
  halves.storage = AddStorage(StorageKind::kInput, value, phase, made.elements * 2);
  halves.strides = DenseStrides(made.sizes);
  EmitHalves(phase, Write(value), AccessTo(halves, 2, phase, phase), made.sizes, leaves_.load_halves);
}

void ElementwiseBuilder::FillOutput(size_t output) {
  const int value = program_.outputs[output];
  const ElementwiseValue& made = Value(value);
  if (Placement(Owner(placements_, value)).target.output == static_cast<int>(output)) return;
  const bool halves = made.type == ScalarType::kFloat16;
  const int64_t bytes = halves ? 2 : BytesOf(value);
  Layout layout;
  layout.storage = AddStorage(StorageKind::kOutput, static_cast<int>(output), kRows, made.elements * bytes);
  layout.strides = DenseStrides(made.sizes);
  const Access to = AccessTo(layout, bytes, kRows, kRows);
  if (halves) {
    const Access from = AccessTo(DenseOf(value, made.sizes), 4, kRows, kRows);
    EmitHalves(kRows, to, from, made.sizes, leaves_.store_halves);
  } else {
    EmitCopy(kRows, to, Read(value, kRows), made.sizes, bytes);
  }
}

void ElementwiseBuilder::Emit(int phase, Step step, double element_cost) {
  double elements = 1;
  for (const Loop& loop : step.loops) elements *= static_cast<double>(loop.size);
  for (const int64_t size : step.args.sizes) elements *= static_cast<double>(std::max<int64_t>(size, 1));
  if (step.repeat != Repeat::kNone) elements = static_cast<double>(step.args.sizes[1]);
  step.cost = elements * element_cost;
  schedule_.phases[phase].steps.push_back(std::move(step));
}

}  // namespace dpiframe
