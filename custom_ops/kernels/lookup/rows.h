// The loop over output rows. Included once for each instruction set, so everything here has internal linkage.
#pragma once

#include <cstdint>

#include "bag.h"
#include "copy.h"
#include "ids.h"
#include "plan.h"
#include "pool.h"

namespace dpiframe {
namespace {

// Looked-up rows lie anywhere in memory and wait for it one after the other unless they are asked for ahead of time.
[[gnu::always_inline]] inline void PrefetchTerms(const PlanView& plan, const Cell* cells) {
  for (const Prefetch& prefetch : plan.prefetches) PrefetchBytes(cells[prefetch.cell].row, prefetch.bytes);
}

[[gnu::always_inline]] inline void PrefetchRow(const PlanView& plan, const Cell* cells) {
  for (const RowRun& run : plan.runs) {
    for (int i = 0; i < run.count; ++i) PrefetchBytes(cells[run.first_cell + i].row, run.bytes);
  }
  PrefetchTerms(plan, cells);
}

// Fills row `row` from its cells, and asks for the rows in the cells `ahead`.
template <typename Element>
inline void LookupRow(const PlanView& plan, const LookupCall& call, int64_t row, const Cell* cells, const Cell* ahead,
                      float* totals, BadIds* bad_ids) {
  const auto place = [&](int output, int64_t offset) {
    return static_cast<char*>(call.outputs[output]) + row * plan.output_row_bytes.data[output] + offset;
  };
  for (const RowRun& run : plan.runs) CopyRun(run, cells, ahead, place(run.output, run.offset));
  for (const CopyColumns& copy : plan.copies) {
    CopySourceColumns(plan, call, copy, row, place(copy.output, copy.offset));
  }
  PrefetchTerms(plan, ahead);
  for (const Pool& pool : plan.pools) {
    PoolRow<Element>(plan, call, pool, row, cells, totals, place(pool.output, pool.offset), bad_ids);
  }
}

template <typename Element>
void LookupRowsOf(const PlanView& plan, const LookupCall& call, int64_t begin, int64_t end, void* scratch,
                  BadIds* bad_ids) {
  Cell* const cells = static_cast<Cell*>(scratch);
  float* const totals = reinterpret_cast<float*>(cells + int64_t{kCellRows} * plan.cell_count);
  const auto cells_of = [&](int64_t row) { return cells + ((row - begin) & (kCellRows - 1)) * plan.cell_count; };
  const auto fill = [&](int64_t row) {
    const int64_t count = end - row < kBlockRows ? end - row : kBlockRows;
    if (count > 0) FillCells(plan, call, row, count, cells_of(row), bad_ids);
  };
  fill(begin);
  for (int64_t row = begin; row < end && row < begin + plan.rows_ahead; ++row) PrefetchRow(plan, cells_of(row));
  for (int64_t block = begin; block < end; block += kBlockRows) {
    fill(block + kBlockRows);
    for (int64_t row = block; row < end && row < block + kBlockRows; ++row) {
      const Cell* ahead = cells_of(row + plan.rows_ahead < end ? row + plan.rows_ahead : row);
      LookupRow<Element>(plan, call, row, cells_of(row), ahead, totals, bad_ids);
    }
  }
  for (const Bag& bag : plan.bags) BagRows<Element>(plan, call, bag, begin, end, totals, bad_ids);
}

inline void LookupRows(const PlanView& plan, const LookupCall& call, int64_t begin, int64_t end, void* scratch,
                       BadIds* bad_ids) {
  if (plan.type == ElementType::kFloat32) {
    LookupRowsOf<float>(plan, call, begin, end, scratch, bad_ids);
  } else {
    LookupRowsOf<uint16_t>(plan, call, begin, end, scratch, bad_ids);
  }
}

}  // namespace
}  // namespace dpiframe
