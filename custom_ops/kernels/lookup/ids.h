// Ids: read from a column, computed, checked against the table.
#pragma once

#include <cstdint>

#include "plan.h"

namespace dpiframe {
namespace {

inline int64_t ToId(int32_t value) { return value; }
inline int64_t ToId(int64_t value) { return value; }

// Truncates toward zero; NaN and values beyond int64 become the smallest int64.
inline int64_t ToId(float value) {
  return value >= -0x1p63f && value < 0x1p63f ? static_cast<int64_t>(value) : INT64_MIN;
}
inline int64_t ToId(double value) {
  return value >= -0x1p63 && value < 0x1p63 ? static_cast<int64_t>(value) : INT64_MIN;
}

inline int64_t WrappingAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

inline int64_t ApplySteps(const IdColumn& id, int64_t value) {
  // A division by -1 is a negation, and of the smallest int64 only as that not a trap.
  if (id.div != 0) value = id.div == -1 ? WrappingAdd(~value, 1) : value / id.div;
  if (id.mod != 0) {
    int64_t remainder = id.mod == -1 ? 0 : value % id.mod;
    if (remainder != 0 && (remainder ^ id.mod) < 0) remainder += id.mod;
    value = remainder;
  }
  value = static_cast<int64_t>(static_cast<uint64_t>(value) * static_cast<uint64_t>(id.mul));
  return WrappingAdd(value, id.add);
}

// Tensors may start at any byte.
template <typename T>
inline T LoadElement(const void* values, int64_t i) {
  T value;
  __builtin_memcpy(&value, static_cast<const char*>(values) + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
inline void LoadIds(const IdColumn& id, const void* source, int64_t first, int64_t stride, int64_t count,
                    int64_t* ids) {
  if (id.div == 0 && id.mod == 0 && id.mul == 1) {
    for (int64_t i = 0; i < count; ++i) ids[i] = WrappingAdd(ToId(LoadElement<T>(source, first + i * stride)), id.add);
  } else {
    for (int64_t i = 0; i < count; ++i) ids[i] = ApplySteps(id, ToId(LoadElement<T>(source, first + i * stride)));
  }
}

// Ids from element `first` of the source on, `stride` elements apart.
inline void LoadIds(const PlanView& plan, const LookupCall& call, const IdColumn& id, int64_t first, int64_t stride,
                    int64_t count, int64_t* ids) {
  if (id.source < 0) {
    const int64_t value = ApplySteps(id, id.constant);
    for (int64_t i = 0; i < count; ++i) ids[i] = value;
    return;
  }
  const void* source = call.sources[id.source];
  switch (plan.sources.data[id.source].type) {
    case ElementType::kInt32:
      return LoadIds<int32_t>(id, source, first, stride, count, ids);
    case ElementType::kInt64:
      return LoadIds<int64_t>(id, source, first, stride, count, ids);
    case ElementType::kFloat32:
      return LoadIds<float>(id, source, first, stride, count, ids);
    case ElementType::kFloat64:
      return LoadIds<double>(id, source, first, stride, count, ids);
    case ElementType::kFloat16:  // refused when the plan is made
      return;
  }
}

// Element of column `column` in row `row`, and the distances to the next row and the next column.
struct Place {
  int64_t first;
  int64_t row_stride;
  int64_t column_stride;
};

inline Place PlaceOf(const PlanView& plan, const LookupCall& call, int source, int64_t column, int64_t row) {
  if (source < 0) return {0, 0, 0};
  if (plan.sources.data[source].column_layout) return {column * call.rows + row, 1, call.rows};
  return {row * call.columns[source] + column, call.columns[source], 1};
}

// Makes negative ids count from the end; says whether all are inside the table.
inline bool ResolveIds(int64_t table_rows, int64_t* ids, int64_t count) {
  uint64_t outside = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t id = ids[i] + (ids[i] < 0 ? table_rows : 0);
    ids[i] = id;
    outside |= static_cast<uint64_t>(static_cast<uint64_t>(id) >= static_cast<uint64_t>(table_rows));
  }
  return outside == 0;
}

// The first of a table's elements that an address names; row `id` lies `id * stride` bytes further.
inline const char* TableStart(const LookupCall& call, const RowAddress& address) {
  return static_cast<const char*>(call.tables[address.table]) + address.offset;
}

inline const char* AddressOf(const LookupCall& call, const RowAddress& address, int64_t id) {
  return id < 0 ? call.zeros : TableStart(call, address) + id * address.stride;
}

// The common case in one pass: ids of a plain column with an offset, for one table. Says whether all are inside it; if
// not, the cells are not to be used.
template <typename T>
inline bool FillPlainCells(const PlanView& plan, const LookupCall& call, const Slot& slot, const Place& place,
                           int64_t count, Cell* cells) {
  const RowAddress& address = plan.cell_rows.data[slot.first].address;
  const char* const table = TableStart(call, address);
  const char* const source = static_cast<const char*>(call.sources[slot.id.source]);
  const int64_t table_rows = slot.table_rows;
  const int64_t stride = address.stride;
  const int64_t add = slot.id.add;
  const int64_t cell_count = plan.cell_count;
  cells += plan.cell_rows.data[slot.first].cell;
  bool inside = true;
  for (int64_t i = 0; i < count; ++i) {
    int64_t id = WrappingAdd(ToId(LoadElement<T>(source, place.first + i * place.row_stride)), add);
    id += id < 0 ? table_rows : 0;
    inside &= static_cast<uint64_t>(id) < static_cast<uint64_t>(table_rows);
    cells[i * cell_count].row = table + static_cast<uint64_t>(id) * static_cast<uint64_t>(stride);
  }
  return inside;
}

inline bool FillPlainCells(const PlanView& plan, const LookupCall& call, const Slot& slot, const Place& place,
                           int64_t count, Cell* cells) {
  switch (plan.sources.data[slot.id.source].type) {
    case ElementType::kInt32:
      return FillPlainCells<int32_t>(plan, call, slot, place, count, cells);
    case ElementType::kInt64:
      return FillPlainCells<int64_t>(plan, call, slot, place, count, cells);
    case ElementType::kFloat32:
      return FillPlainCells<float>(plan, call, slot, place, count, cells);
    default:
      return FillPlainCells<double>(plan, call, slot, place, count, cells);
  }
}

// Fills the cells of `count` rows from `row` on; `cells` is those of the first.
inline void FillCells(const PlanView& plan, const LookupCall& call, int64_t row, int64_t count, Cell* cells,
                      BadIds* bad_ids) {
  int64_t ids[kBlockRows];
  for (const Slot& slot : plan.slots) {
    const Place place = PlaceOf(plan, call, slot.id.source, slot.id.column, row);
    if (slot.plain && FillPlainCells(plan, call, slot, place, count, cells)) continue;
    LoadIds(plan, call, slot.id, place.first, place.row_stride, count, ids);
    if (slot.table_rows == 0) {
      for (int64_t i = 0; i < count; ++i) cells[i * plan.cell_count + slot.first].value = ids[i];
      continue;
    }
    const CellRow* targets = plan.cell_rows.data + slot.first;
    if (!ResolveIds(slot.table_rows, ids, count)) {
      HandleBadIds(plan, slot.table_rows, targets, slot.count, row, 1, ids, count, bad_ids);
    }
    for (const CellRow* target = targets; target != targets + slot.count; ++target) {
      for (int64_t i = 0; i < count; ++i) {
        cells[i * plan.cell_count + target->cell].row = AddressOf(call, target->address, ids[i]);
      }
    }
  }
}

}  // namespace
}  // namespace dpiframe
