// Where elements of values lie, and loops over several values at once.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule.h"

namespace dpiframe {

using Sizes = std::vector<int64_t>;

// Of a value: element (i, j, ...) of a row is element offset + i * strides[0] + j * strides[1] + ... of the storage's.
struct Layout {
  int storage = -1;
  int64_t offset = 0;
  Sizes strides;
};

int64_t ElementsOf(const Sizes& sizes);

// Strides of a row-major array.
Sizes DenseStrides(const Sizes& sizes);
bool IsDense(const Layout& layout, const Sizes& sizes);
Sizes WithoutOnes(const Sizes& sizes);

// The view (offset, strides over row-major order of `sizes`) of a value as a layout of its own; false where it has
// none.
bool ComposeView(const Layout& layout, const Sizes& sizes, int64_t offset, const Sizes& view_sizes,
                 const Sizes& view_strides, Layout* result);

// A layout as one phase reads or writes it, in bytes.
struct Access {
  int storage = -1;
  int64_t offset = 0;
  int64_t row_stride = 0;
  Sizes strides;
};

// The access along the axes of a larger value that it is broadcast to.
Access BroadcastTo(const Access& access, const Sizes& from, const Sizes& to);

struct Axis {
  int64_t size;  // where `rows`: a factor of the number of rows
  bool rows;
  bool reduced;
  int64_t strides[kMaxOperands];
};

using Axes = std::vector<Axis>;

// The axes of `sizes` without those of size 1, the rows in front where the phase has them.
Axes MakeAxes(int phase, const Sizes& sizes, const std::vector<Access>& accesses);

// Joins neighbours along which every operand can go in one stride.
void Coalesce(Axes* axes);

// Puts accesses and axes into a step: the last axes, outermost first, are the leaf's.
void SetAxes(const std::vector<Access>& accesses, const Axes& axes, int leaf_axes, Step* step);

}  // namespace dpiframe
