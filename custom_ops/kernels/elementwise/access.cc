#include "access.h"

#include <algorithm>
#include <iterator>

namespace dpiframe {

int64_t ElementsOf(const Sizes& sizes) {
  int64_t elements = 1;
  for (const int64_t size : sizes) elements *= size;
  return elements;
}

Sizes DenseStrides(const Sizes& sizes) {
  Sizes strides(sizes.size());
  int64_t stride = 1;
  for (size_t axis = sizes.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= sizes[axis];
  }
  return strides;
}

bool IsDense(const Layout& layout, const Sizes& sizes) {
  const Sizes dense = DenseStrides(sizes);
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] != 1 && layout.strides[axis] != dense[axis]) return false;
  }
  return true;
}

Sizes WithoutOnes(const Sizes& sizes) {
  Sizes result;
  std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(result), [](int64_t size) { return size != 1; });
  return result;
}

bool ComposeView(const Layout& layout, const Sizes& sizes, int64_t offset, const Sizes& view_sizes,
                 const Sizes& view_strides, Layout* result) {
  result->storage = layout.storage;
  result->strides.assign(view_sizes.size(), 0);
  if (IsDense(layout, sizes)) {
    result->offset = layout.offset + offset;
    result->strides = view_strides;
    return true;
  }
  // Each stride has to go along a single axis, and all that go along one must stay on it.
  const Sizes dense = DenseStrides(sizes);
  result->offset = layout.offset;
  Sizes low(sizes.size());
  Sizes high(sizes.size());
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    const int64_t at = offset / dense[axis];
    offset %= dense[axis];
    low[axis] = high[axis] = at;
    result->offset += at * layout.strides[axis];
  }
  for (size_t i = 0; i < view_sizes.size(); ++i) {
    if (view_sizes[i] == 1 || view_strides[i] == 0) continue;
    const int64_t stride = view_strides[i];
    size_t axis = 0;
    while (axis < sizes.size() && (sizes[axis] == 1 || stride % dense[axis] != 0)) ++axis;
    if (axis == sizes.size()) return false;
    const int64_t step = stride / dense[axis];
    (step < 0 ? low : high)[axis] += (view_sizes[i] - 1) * step;
    if (low[axis] < 0 || high[axis] >= sizes[axis]) return false;
    result->strides[i] = step * layout.strides[axis];
  }
  return true;
}

Access BroadcastTo(const Access& access, const Sizes& from, const Sizes& to) {
  Access result = access;
  result.strides.assign(to.size(), 0);
  for (size_t i = 1; i <= from.size(); ++i) {
    if (from[from.size() - i] != 1) result.strides[to.size() - i] = access.strides[from.size() - i];
  }
  return result;
}

Axes MakeAxes(int phase, const Sizes& sizes, const std::vector<Access>& accesses) {
  Axes axes;
  if (HasRows(phase)) {
    Axis rows{1, true, false, {}};
    for (size_t i = 0; i < accesses.size(); ++i) rows.strides[i] = accesses[i].row_stride;
    axes.push_back(rows);
  }
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == 1) continue;
    Axis next{sizes[axis], false, false, {}};
    for (size_t i = 0; i < accesses.size(); ++i) next.strides[i] = accesses[i].strides[axis];
    axes.push_back(next);
  }
  return axes;
}

void Coalesce(Axes* axes) {
  for (size_t i = axes->size(); i-- > 1;) {
    Axis& outer = (*axes)[i - 1];
    const Axis& inner = (*axes)[i];
    bool joins = outer.reduced == inner.reduced && !inner.rows;
    for (int k = 0; joins && k < kMaxOperands; ++k) joins = outer.strides[k] == inner.strides[k] * inner.size;
    if (!joins) continue;
    outer.size *= inner.size;
    std::copy(std::begin(inner.strides), std::end(inner.strides), outer.strides);
    axes->erase(axes->begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void SetAxes(const std::vector<Access>& accesses, const Axes& axes, int leaf_axes, Step* step) {
  step->operands = static_cast<int>(accesses.size());
  for (size_t i = 0; i < accesses.size(); ++i) {
    step->storages[i] = accesses[i].storage;
    step->offsets[i] = accesses[i].offset;
  }
  const int count = static_cast<int>(axes.size());
  const int missing = std::max(leaf_axes - count, 0);
  const int loops = count + missing - leaf_axes;
  std::fill(step->args.sizes, step->args.sizes + missing, 1);
  for (int i = 0; i < count; ++i) {
    const Axis& axis = axes[static_cast<size_t>(i)];
    const int leaf_axis = i - loops + missing;
    if (axis.rows) step->rows_axis = i < loops ? i : loops + leaf_axis;
    if (i < loops) {
      Loop loop{axis.size, {}};
      std::copy(std::begin(axis.strides), std::end(axis.strides), loop.strides);
      step->loops.push_back(loop);
    } else {
      step->args.sizes[leaf_axis] = axis.size;
      for (int k = 0; k < kMaxOperands; ++k) step->args.strides[k][leaf_axis] = axis.strides[k];
    }
  }
}

}  // namespace dpiframe
