// Which element of its operand an element of a value is made of.
#pragma once

#include <cstdint>
#include <vector>

#include "index.h"
#include "kernels/elementwise/program.h"

namespace dpiframe::cuda {

// The index of the operand's element that element `index` of an operator, a cast or a view reads.
Index OperandIndex(const ElementwiseProgram& program, const ElementwiseValue& value, int operand, const Index& index);

// The same for a reduction: `outer` counts the elements that are kept, `inner` those that are reduced to one.
Index ReducedIndex(const ElementwiseProgram& program, const ElementwiseValue& value, const Index& outer,
                   const Index& inner);

// The run of elements of the operand, up to the last one, that neither part of a reduction interrupts, and whether it's
// the kept ones'.
struct ReducedRun {
  int64_t length;
  bool kept;
};
ReducedRun LastRun(const ElementwiseProgram& program, const ElementwiseValue& value);

// A join as (before, axis, behind): sizes in front of the axis and behind it are taken together.
struct JoinShape {
  int64_t joined;
  int64_t behind;
  std::vector<int64_t> firsts;  // of each part along the axis, and the end of all
};
JoinShape ShapeOfJoin(const ElementwiseProgram& program, const ElementwiseValue& value);

// The index of a join's part, for an index that is known to lie in it.
Index PartIndex(const JoinShape& shape, size_t part, const Index& index);

}  // namespace dpiframe::cuda
