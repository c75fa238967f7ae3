#include "maps.h"

#include <algorithm>

namespace dpiframe::cuda {
namespace {

struct Axis {
  int64_t size;
  int64_t stride;
};

// Axes without those of size 1, neighbours that count on as one.
std::vector<Axis> Merged(const std::vector<Axis>& axes) {
  std::vector<Axis> merged;
  for (const Axis& axis : axes) {
    if (axis.size == 1) continue;
    if (!merged.empty() && merged.back().stride == axis.stride * axis.size) {
      merged.back() = {merged.back().size * axis.size, axis.stride};
    } else {
      merged.push_back(axis);
    }
  }
  return merged;
}

Index Strided(const std::vector<Axis>& axes, Index index) {
  const std::vector<Axis> merged = Merged(axes);
  Index result = Index::Constant(0);
  for (size_t i = merged.size(); i-- > 0;) {
    if (i == 0) return result + index.Times(merged[0].stride);
    const auto [outer, own] = index.Split(merged[i].size);
    result = result + own.Times(merged[i].stride);
    index = outer;
  }
  return result;
}

std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

bool IsReduced(const ElementwiseValue& value, size_t axis) {
  return std::binary_search(value.axes.begin(), value.axes.end(), static_cast<int>(axis));
}

std::vector<Axis> AxesOfReduction(const ElementwiseProgram& program, const ElementwiseValue& value, bool reduced) {
  const std::vector<int64_t>& sizes = program.values[static_cast<size_t>(value.operands[0])].sizes;
  const std::vector<int64_t> strides = RowMajorStrides(sizes);
  std::vector<Axis> axes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (IsReduced(value, i) == reduced) axes.push_back({sizes[i], strides[i]});
  }
  return axes;
}

}  // namespace

Index OperandIndex(const ElementwiseProgram& program, const ElementwiseValue& value, int operand, const Index& index) {
  std::vector<Axis> axes;
  if (value.kind == ValueKind::kView) {
    for (size_t i = 0; i < value.sizes.size(); ++i) axes.push_back({value.sizes[i], value.strides[i]});
    return Strided(axes, index) + Index::Constant(value.offset);
  }
  const std::vector<int64_t>& sizes = program.values[static_cast<size_t>(value.operands[operand])].sizes;
  const std::vector<int64_t> strides = RowMajorStrides(sizes);
  const size_t missing = value.sizes.size() - sizes.size();
  for (size_t i = 0; i < value.sizes.size(); ++i) {
    const bool repeated = i < missing || sizes[i - missing] == 1;
    axes.push_back({value.sizes[i], repeated ? 0 : strides[i - missing]});
  }
  return Strided(axes, index);
}

Index ReducedIndex(const ElementwiseProgram& program, const ElementwiseValue& value, const Index& outer,
                   const Index& inner) {
  return Strided(AxesOfReduction(program, value, false), outer) + Strided(AxesOfReduction(program, value, true), inner);
}

ReducedRun LastRun(const ElementwiseProgram& program, const ElementwiseValue& value) {
  const std::vector<int64_t>& sizes = program.values[static_cast<size_t>(value.operands[0])].sizes;
  ReducedRun run{1, false};
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (run.length > 1 && run.kept == IsReduced(value, i)) break;
    run = {run.length * sizes[i], !IsReduced(value, i)};
  }
  return run;
}

JoinShape ShapeOfJoin(const ElementwiseProgram& program, const ElementwiseValue& value) {
  const size_t axis = static_cast<size_t>(value.axis);
  JoinShape shape{value.sizes[axis], 1, {0}};
  for (size_t i = axis + 1; i < value.sizes.size(); ++i) shape.behind *= value.sizes[i];
  for (const int operand : value.operands) {
    shape.firsts.push_back(shape.firsts.back() + program.values[static_cast<size_t>(operand)].sizes[axis]);
  }
  return shape;
}

Index PartIndex(const JoinShape& shape, size_t part, const Index& index) {
  const auto [before, inside] = index.Split(shape.joined * shape.behind);
  const int64_t first = shape.firsts[part] * shape.behind;
  const int64_t count = shape.firsts[part + 1] * shape.behind - first;
  return before.Times(count) + inside.Within(first, count);
}

}  // namespace dpiframe::cuda
