// Steps of reductions, and of the sums of products that reductions over products are.
#include <algorithm>

#include "builder.h"

namespace dpiframe {
namespace {

constexpr double kReductionCost = 0.06;

int CountReduced(const Axes& axes) {
  return static_cast<int>(std::count_if(axes.begin(), axes.end(), [](const Axis& axis) { return axis.reduced; }));
}

// Gives operand k the strides of a row-major array over the axes, without those that it leaves out; its bytes a row.
template <typename LeavesOut>
int64_t SetDense(Axes* axes, int k, int64_t bytes, LeavesOut&& leaves_out) {
  for (size_t i = axes->size(); i-- > 0;) {
    Axis& axis = (*axes)[i];
    axis.strides[k] = leaves_out(axis) ? 0 : bytes;
    if (!leaves_out(axis)) bytes *= axis.size;
  }
  return bytes;
}

void SwapOperands(Axes* axes, std::vector<Access>* accesses) {
  for (Axis& axis : *axes) std::swap(axis.strides[1], axis.strides[2]);
  std::swap((*accesses)[1], (*accesses)[2]);
}

// Moves an axis to the end.
void MoveInside(Axes* axes, size_t i) {
  std::rotate(axes->begin() + static_cast<std::ptrdiff_t>(i), axes->begin() + static_cast<std::ptrdiff_t>(i) + 1,
              axes->end());
}

}  // namespace

bool ElementwiseBuilder::FusesIntoSum(int value) const {
  const ElementwiseValue& made = Value(value);
  if (made.kind != ValueKind::kReduce || made.reduce != ReduceOp::kSum) return false;
  if (made.type != ScalarType::kFloat32 && made.type != ScalarType::kFloat64) return false;
  const int product = made.operands[0];
  return !FactorsOf(product).empty() && Placement(product).uses == 1 && Value(product).elements > made.elements;
}

void ElementwiseBuilder::BuildReduction(int value) {
  const ElementwiseValue& made = Value(value);
  const int operand = made.operands[0];
  if (delayed_[static_cast<size_t>(operand)]) {
    if (EmitSumOfProducts(value)) return;
    BuildValue(operand);
  }
  const Accesses accesses{Write(value), Read(operand, PhaseOf(value))};
  EmitReduction(value, made.reduce, ReductionAxes(value, Value(operand).sizes, accesses), accesses);
  const bool rounds = made.reduce == ReduceOp::kSum || made.reduce == ReduceOp::kProd;
  if (made.type == ScalarType::kFloat16 && rounds) EmitRound(value);
}

bool ElementwiseBuilder::EmitSumOfProducts(int value) {
  const ElementwiseValue& product = Value(Value(value).operands[0]);
  Accesses accesses{Write(value)};
  for (const int operand : FactorsOf(Value(value).operands[0])) {
    accesses.push_back(BroadcastTo(Read(operand, PhaseOf(value)), Value(operand).sizes, product.sizes));
  }
  Axes axes = ReductionAxes(value, product.sizes, accesses);
  if (PadColumns(value, axes)) {
    accesses[0] = Write(value);
    axes = ReductionAxes(value, product.sizes, accesses);
  }
  return EmitReduction(value, ReduceOp::kSum, axes, accesses);
}

// The result's access is that of its own sizes; the axes are those of the operand.
Axes ElementwiseBuilder::ReductionAxes(int value, const Sizes& sizes, const Accesses& accesses) const {
  const ElementwiseValue& made = Value(value);
  const Sizes kept = accesses[0].strides;
  Accesses aligned = accesses;
  aligned[0].strides.assign(sizes.size(), 0);
  std::vector<bool> reduced;
  size_t next = 0;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == 1) continue;
    reduced.push_back(std::binary_search(made.axes.begin(), made.axes.end(), static_cast<int>(axis)));
    if (reduced.back()) continue;
    while (made.sizes[next] == 1) ++next;
    aligned[0].strides[axis] = kept[next++];
  }
  Axes axes = MakeAxes(PhaseOf(value), sizes, aligned);
  for (size_t i = 0; i < reduced.size(); ++i) axes[axes.size() - reduced.size() + i].reduced = reduced[i];
  Coalesce(&axes);
  return axes;
}

// accesses: of the result and the operand, or of the result and two factors; of the latter not all can be read, and
// then nothing is emitted and the answer is false.
bool ElementwiseBuilder::EmitReduction(int value, ReduceOp op, Axes axes, Accesses accesses) {
  const int phase = PhaseOf(value);
  const int64_t bytes = BytesOf(value);
  const Stored type = StoredOf(Value(value).type);
  const bool product = accesses.size() == 3;
  const int reduced = CountReduced(axes);
  Step step;
  if (reduced == 0) {
    step.leaf = leaves_.copy(static_cast<size_t>(bytes));
    SetAxes(accesses, axes, 2, &step);
    Emit(phase, std::move(step), kReductionCost);
    return true;
  }
  size_t last = axes.size() - 1;
  while (!axes[last].reduced) --last;
  if (reduced > 1) {
    // The last of them first, into an array of the other axes.
    Axes first = axes;
    for (Axis& axis : first) axis.reduced = false;
    first[last].reduced = true;
    const int64_t row_bytes = SetDense(&first, 0, bytes, [](const Axis& axis) { return axis.reduced; });
    Accesses partial = accesses;
    partial[0] = {AddStorage(StorageKind::kBlock, -1, phase, row_bytes), 0, 0, {}};
    if (!EmitReduction(value, op, first, partial)) return false;
    for (size_t i = 0; i < axes.size(); ++i) {
      axes[i].strides[1] = first[i].strides[0];
      axes[i].strides[2] = 0;
    }
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(last));
    Coalesce(&axes);
    return EmitReduction(value, op, axes, {accesses[0], partial[0]});
  }
  if (product && EmitContraction(value, axes, accesses)) return true;
  const auto unit = [&](const Axis& axis, int k) { return axis.strides[k] == bytes; };
  const Axis& over = axes[last];
  if (unit(over, 1) && (!product || unit(over, 2))) {
    MoveInside(&axes, last);
    step.leaf = product ? leaves_.dot_inner(type) : leaves_.reduce_inner(op, type);
    SetAxes(accesses, axes, 2, &step);
    Emit(phase, std::move(step), kReductionCost);
    return true;
  }
  for (size_t i = axes.size(); i-- > 0;) {
    if (axes[i].reduced || !unit(axes[i], 0)) continue;
    if (product && axes[i].strides[1] == 0) SwapOperands(&axes, &accesses);
    const bool broadcast = product && axes[i].strides[2] == 0;
    if (!unit(axes[i], 1) || (product && !broadcast && !unit(axes[i], 2))) continue;
    MoveInside(&axes, last);
    MoveInside(&axes, i > last ? i - 1 : i);
    step.leaf = product ? leaves_.dot_middle(type, broadcast) : leaves_.reduce_middle(op, type);
    SetAxes(accesses, axes, 3, &step);
    Emit(phase, std::move(step), kReductionCost);
    return true;
  }
  if (product) return false;
  // Neither is contiguous: what is reduced is brought together first.
  MoveInside(&axes, last);
  Axes copy = axes;
  const int64_t row_bytes = SetDense(&copy, 0, bytes, [](const Axis&) { return false; });
  const Access together{AddStorage(StorageKind::kBlock, -1, phase, row_bytes), 0, 0, {}};
  step.leaf = leaves_.copy(static_cast<size_t>(bytes));
  SetAxes({together, accesses[1]}, copy, 2, &step);
  Emit(phase, std::move(step), 0.3);
  for (size_t i = 0; i < axes.size(); ++i) axes[i].strides[1] = copy[i].strides[0];
  return EmitReduction(value, op, axes, {accesses[0], together});
}

namespace {

// The axis that operand k has and the other one lacks, -1 unless there is exactly one.
int OnlyAxis(const Axes& axes, int k, int other) {
  int found = -1;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].reduced || axes[i].strides[k] == 0 || axes[i].strides[other] != 0) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(i);
  }
  return found;
}

}  // namespace

int64_t ElementwiseBuilder::PaddedColumns(int64_t columns, int64_t bytes) const {
  int64_t lanes = static_cast<int64_t>(leaves_.vector_bytes) / bytes;
  while (lanes * bytes > 16 && columns <= lanes / 2) lanes /= 2;
  return (columns + lanes - 1) / lanes * lanes;
}

// Where the result is a product of matrices that only steps of this phase read, its rows get whole vectors.
bool ElementwiseBuilder::PadColumns(int value, const Axes& axes) {
  Layout& layout = layouts_[static_cast<size_t>(value)];
  Storage& storage = schedule_.storages[static_cast<size_t>(layout.storage)];
  const int64_t bytes = BytesOf(value);
  const int left = OnlyAxis(axes, 1, 2);
  const int right = OnlyAxis(axes, 2, 1);
  if (left < 0 || right < 0 || CountReduced(axes) != 1) return false;
  if (storage.kind != StorageKind::kBlock || Placement(value).target.joined >= 0) return false;
  const Sizes& sizes = Value(value).sizes;
  size_t last = sizes.size() - 1;
  while (sizes[last] == 1) --last;
  const int64_t columns = sizes[last];
  const int64_t padded = PaddedColumns(columns, bytes);
  for (const int i : {left, right}) {
    const Axis& axis = axes[static_cast<size_t>(i)];
    if (axis.rows || axis.size != columns || axis.strides[0] != bytes || columns == padded) continue;
    Sizes with_padding = sizes;
    with_padding[last] = padded;
    layout.strides = DenseStrides(with_padding);
    storage.row_bytes = storage.row_bytes / columns * padded;
    return true;
  }
  return false;
}

// A product of matrices: one axis belongs to the first factor alone, one to the second, and one is summed over.
bool ElementwiseBuilder::EmitContraction(int value, Axes axes, Accesses accesses) {
  constexpr int64_t kFewestColumns = 4;
  const int phase = PhaseOf(value);
  const int64_t bytes = BytesOf(value);
  int left = OnlyAxis(axes, 1, 2);
  int right = OnlyAxis(axes, 2, 1);
  if (left < 0 || right < 0) return false;
  const auto axis = [&](int i) -> Axis& { return axes[static_cast<size_t>(i)]; };
  // The right one has to be contiguous in the result, and of a size that is known.
  if (axis(right).rows || axis(right).strides[0] != bytes) {
    SwapOperands(&axes, &accesses);
    std::swap(left, right);
  }
  if (axis(right).rows || axis(right).strides[0] != bytes || axis(right).size < kFewestColumns) return false;
  int over = 0;
  while (!axis(over).reduced) ++over;
  const Axis left_axis = axis(left);
  const Axis over_axis = axis(over);
  Axis right_axis = axis(right);
  for (const int i : {left, over, right}) axes[static_cast<size_t>(i)].size = 0;
  axes.erase(std::remove_if(axes.begin(), axes.end(), [](const Axis& axis) { return axis.size == 0; }), axes.end());
  axes.insert(axes.end(), {left_axis, over_axis, right_axis});
  if (right_axis.strides[2] != bytes) {
    // Turned, so that it is contiguous along the right axis; its rows are padded where the result's are, with whatever
    // lies there, since nothing reads what comes of it.
    const int64_t columns = right_axis.size;
    const int64_t padded = PaddedColumns(columns, bytes);
    const Storage& result = schedule_.storages[static_cast<size_t>(accesses[0].storage)];
    bool room = result.kind == StorageKind::kBlock && Placement(value).target.joined < 0;
    for (const Axis& axis : axes)
      room = room && (axis.strides[0] == bytes || axis.reduced || axis.strides[0] >= padded * bytes);
    if (room) axes.back().size = padded;
    Axes copy = axes;
    const auto shared = [](const Axis& axis) { return axis.strides[2] == 0; };
    const int64_t row_bytes = SetDense(&copy, 0, bytes, shared);
    for (size_t i = 0; i < axes.size(); ++i) {
      copy[i].strides[1] = copy[i].strides[2];
      axes[i].strides[2] = copy[i].strides[0];
      copy[i].strides[2] = 0;
    }
    copy.back().size = columns;
    copy.erase(std::remove_if(copy.begin(), copy.end(), [](const Axis& axis) { return axis.strides[1] == 0; }),
               copy.end());
    const Access turned{AddStorage(StorageKind::kBlock, -1, phase, row_bytes), 0, 0, {}};
    Step step;
    step.leaf = leaves_.copy(static_cast<size_t>(bytes));
    SetAxes({turned, accesses[2]}, copy, 2, &step);
    Emit(phase, std::move(step), 0.3);
    accesses[2] = turned;
  }
  Step step;
  step.leaf = leaves_.contract(StoredOf(Value(value).type));
  SetAxes(accesses, axes, 3, &step);
  Emit(phase, std::move(step), kReductionCost);
  return true;
}

}  // namespace dpiframe
