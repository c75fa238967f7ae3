// Where each row's ids lie in a list.
#pragma once

#include <cstdint>

#include "ids.h"
#include "plan.h"

namespace dpiframe {
namespace {

// As Slice takes it: below 0 it counts from the end, and what lies outside the list is moved to its nearest end.
inline int64_t ToListPosition(int64_t offset, int64_t length) {
  if (offset < 0) offset += length;
  return offset < 0 ? 0 : offset > length ? length : offset;
}

inline Place PlaceOfOffset(const PlanView& plan, const LookupCall& call, const Bag& bag, int64_t row) {
  const int64_t each = call.rows + 1;
  if (bag.bounds) return {bag.offsets.column * each + row, 1, each};
  return PlaceOf(plan, call, bag.offsets.source, bag.offsets.column, row);
}

// Positions in the list where bags `row` ... `row + count` begin; that behind the last bag is the end of the list
// unless there are bounds.
inline void LoadOffsets(const PlanView& plan, const LookupCall& call, const Bag& bag, int64_t row, int64_t count,
                        int64_t* positions) {
  const int64_t length = call.columns[bag.id.source];
  const bool ends_with_list = !bag.bounds && row + count == call.rows;
  const int64_t stored = ends_with_list ? count : count + 1;
  const Place place = PlaceOfOffset(plan, call, bag, row);
  LoadIds(plan, call, bag.offsets, place.first, place.row_stride, stored, positions);
  for (int64_t i = 0; i < stored; ++i) positions[i] = ToListPosition(positions[i], length);
  if (ends_with_list) positions[count] = length;
}

// Adds the lengths of the bags of kBlockRows rows from `row` on, as far as there are so many.
inline void AddBagLengths(const PlanView& plan, const LookupCall& call, const Bag& bag, int64_t row, int64_t* lengths) {
  const int64_t count = call.rows - row < kBlockRows ? call.rows - row : kBlockRows;
  int64_t positions[kBlockRows + 1];
  LoadOffsets(plan, call, bag, row, count, positions);
  for (int64_t i = 0; i < count; ++i) {
    if (positions[i + 1] > positions[i]) lengths[i] += positions[i + 1] - positions[i];
  }
}

}  // namespace
}  // namespace dpiframe
