// Steps that move elements.
#include "builder.h"

namespace dpiframe {
namespace {

constexpr int64_t kWidestVector = 64;

// Start and length, in bytes, of each run of neighbours; negative lengths where a vector more than the run would leave
// the result or the operand, of which `readable` bytes follow.
std::vector<int32_t> RunsOf(const std::vector<int32_t>& places, int64_t bytes, int64_t readable) {
  std::vector<int32_t> runs;
  const int64_t count = static_cast<int64_t>(places.size());
  for (int64_t i = 0; i < count;) {
    const int64_t start = places[static_cast<size_t>(i)];
    int64_t length = 1;
    while (i + length < count && places[static_cast<size_t>(i + length)] == start + length) ++length;
    const int64_t widened = length * bytes + kWidestVector;
    const bool room = widened <= (count - i) * bytes && start * bytes + widened <= readable && start >= 0;
    runs.push_back(static_cast<int32_t>(start * bytes));
    runs.push_back(static_cast<int32_t>(room ? length * bytes : -length * bytes));
    i += length;
  }
  return runs;
}

}  // namespace

void ElementwiseBuilder::BuildPick(int value) {
  const ElementwiseValue& made = Value(value);
  const int phase = PhaseOf(value);
  int64_t offset = 0;
  Sizes strides;
  if (ViewStrides(made, &offset, &strides)) return;
  const int64_t bytes = BytesOf(value);
  Access to = Write(value);
  const bool dense = IsDense(LayoutOf(value), made.sizes);
  if (!dense) to = NewBlock(phase, made.sizes, bytes);
  const int operand = made.operands[0];
  const Access from = Read(operand, phase);
  const Sizes& sizes = Value(operand).sizes;
  std::vector<int32_t> places;  // in elements of the operand's storage
  for (int64_t index : made.indices) {
    int64_t at = 0;
    for (size_t axis = sizes.size(); axis-- > 0; index /= sizes[axis]) {
      at += index % sizes[axis] * from.strides[axis] / bytes;
    }
    places.push_back(static_cast<int32_t>(at));
  }
  const int64_t row_bytes = schedule_.storages[static_cast<size_t>(from.storage)].row_bytes;
  const std::vector<int32_t> runs = RunsOf(places, bytes, row_bytes - from.offset);
  // Half as many numbers as elements: as quick as picking one by one, and quicker from there on.
  const bool by_runs = 2 * runs.size() <= places.size();
  Step step;
  step.leaf = by_runs ? leaves_.pick_runs : leaves_.pick(static_cast<size_t>(bytes));
  step.indices = by_runs ? runs : places;
  Access run_from = from;
  Access run_to = to;
  run_from.strides = run_to.strides = {0};
  const int64_t count = by_runs ? static_cast<int64_t>(runs.size()) / 2 : made.elements;
  Axes axes = MakeAxes(phase, {}, {run_to, run_from});
  axes.push_back({count, false, false, {}});
  SetAxes({run_to, run_from}, axes, 2, &step);
  Emit(phase, std::move(step), by_runs ? 2 : 0.4);
  if (!dense) EmitCopy(phase, Write(value), to, made.sizes, bytes);
}

void ElementwiseBuilder::BuildJoin(int value) {
  const ElementwiseValue& made = Value(value);
  const int phase = PhaseOf(value);
  const int64_t bytes = BytesOf(value);
  const size_t axis = static_cast<size_t>(made.axis);
  Access to = Write(value);
  int64_t first = 0;
  for (const int part : made.operands) {
    const Layout& joined = LayoutOf(value);
    const Layout& layout = LayoutOf(part);
    const Sizes& sizes = Value(part).sizes;
    bool in_place = layout.storage == joined.storage;
    in_place = in_place && layout.offset == joined.offset + first * joined.strides[axis];
    for (size_t i = 0; in_place && i < sizes.size(); ++i) {
      in_place = sizes[i] == 1 || layout.strides[i] == joined.strides[i];
    }
    if (!in_place) EmitCopy(phase, to, Read(part, phase), sizes, bytes);
    first += sizes[axis];
    to.offset += sizes[axis] * to.strides[axis];
  }
}

void ElementwiseBuilder::EmitCopy(int phase, const Access& to, const Access& from, const Sizes& sizes, int64_t bytes) {
  Step step;
  step.leaf = leaves_.copy(static_cast<size_t>(bytes));
  Axes axes = MakeAxes(phase, sizes, {to, from});
  Coalesce(&axes);
  SetAxes({to, from}, axes, 2, &step);
  const bool contiguous = axes.empty() || axes.back().strides[1] == bytes;
  Emit(phase, std::move(step), contiguous ? 0.05 : 0.3);
}

void ElementwiseBuilder::EmitHalves(int phase, const Access& to, const Access& from, const Sizes& sizes, Leaf leaf) {
  Step step;
  step.leaf = leaf;
  Axes axes = MakeAxes(phase, sizes, {to, from});
  Coalesce(&axes);
  const int64_t to_bytes = leaf == leaves_.store_halves ? 2 : 4;
  const int64_t from_bytes = leaf == leaves_.load_halves ? 2 : 4;
  const bool contiguous = !axes.empty() && axes.back().strides[0] == to_bytes && axes.back().strides[1] == from_bytes;
  // A single element a row need not lie beside the next row's.
  if (!contiguous) axes.push_back({1, false, false, {}});
  SetAxes({to, from}, axes, 2, &step);
  Emit(phase, std::move(step), 0.1);
}

}  // namespace dpiframe
