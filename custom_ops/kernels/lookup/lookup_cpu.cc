#include "lookup_cpu.h"

#include <algorithm>

#include "bounds.h"
#include "kernels/scratch.h"
#include "plan_builder.h"

namespace dpiframe {
namespace {

// A task for another thread should cost some 40 microseconds, of which a looked-up row takes about 20 nanoseconds.
constexpr int64_t kLookupsPerTask = 2048;

LookupRowsFunction LookupRowsFor([[maybe_unused]] InstructionSet instruction_set) {
#ifdef DPIFRAME_HAS_X86_FILES
  const bool best = instruction_set != InstructionSet::kBaseline;
  if (best && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) return LookupRowsAvx2;
#endif
  return LookupRowsBaseline;
}

}  // namespace

std::vector<uint64_t> BadIdCounters::Read() const {
  std::vector<uint64_t> counts;
  counts.reserve(counts_.size());
  for (const auto& count : counts_) counts.push_back(count.load(std::memory_order_relaxed));
  return counts;
}

void BadIdCounters::Reset() {
  for (auto& count : counts_) count.store(0, std::memory_order_relaxed);
}

void BadIds::Add(int line, int64_t row, int64_t value) {
  counters_->Add(line, 1);
  if (any_ && (row > first_.row || (row == first_.row && line >= first_.line))) return;
  any_ = true;
  first_ = {row, line, value};
}

void BadIds::Merge(const BadIds& other) {
  if (!other.any_) return;
  const bool earlier =
      other.first_.row < first_.row || (other.first_.row == first_.row && other.first_.line < first_.line);
  if (!any_ || earlier) first_ = other.first_;
  any_ = true;
}

void HandleBadIds(const PlanView& plan, int64_t table_rows, const CellRow* lines, int line_count, int64_t row,
                  int64_t row_step, int64_t* ids, int64_t count, BadIds* bad_ids) {
  for (int64_t i = 0; i < count; ++i) {
    if (ids[i] >= 0 && ids[i] < table_rows) continue;
    // Ids below 0 have had V added to count from the end.
    const int64_t value = ids[i] < 0 ? ids[i] - table_rows : ids[i];
    for (int line = 0; line < line_count; ++line) {
      bad_ids->Add(lines[line].address.line, row + i * row_step, value);
    }
    const bool clamp = plan.outside == OutsideTable::kClamp;
    ids[i] = !clamp ? -1 : ids[i] < 0 ? 0 : table_rows - 1;
  }
}

void AddBadId(int line, int64_t row, int64_t value, BadIds* bad_ids) { bad_ids->Add(line, row, value); }

std::vector<int64_t> LookupPlan::Tasks(const LookupCall& call) const {
  const int64_t per_row = std::max<int64_t>(1, row_lookups_);
  int64_t lookups = call.rows * per_row;
  for (const Bag& bag : bags_) lookups += call.columns[bag.id.source];
  if (lookups <= kLookupsPerTask || call.rows <= 1) return {0, call.rows};
  std::vector<int64_t> tasks{0};
  if (bags_.empty()) {
    const int64_t rows_each = std::max<int64_t>(1, kLookupsPerTask / per_row);
    for (int64_t row = rows_each; row < call.rows; row += rows_each) tasks.push_back(row);
  } else {
    int64_t cost = 0;
    int64_t lengths[kBlockRows];
    for (int64_t row = 0; row < call.rows; ++row) {
      const int64_t place = row % kBlockRows;
      if (place == 0) {
        std::fill_n(lengths, kBlockRows, 0);
        for (const Bag& bag : bags_) AddBagLengths(view_, call, bag, row, lengths);
      }
      if (cost >= kLookupsPerTask) {
        tasks.push_back(row);
        cost = 0;
      }
      cost += per_row + lengths[place];
    }
  }
  tasks.push_back(call.rows);
  return tasks;
}

void LookupPlan::Run(const LookupCall& call, int64_t begin, int64_t end, BadIds* bad_ids) const {
  static thread_local Scratch scratch;
  lookup_rows_(view_, call, begin, end, scratch.Get(static_cast<size_t>(RowLoopScratchBytes(view_))), bad_ids);
}

LookupPlan::LookupPlan(LookupProgram program, const std::vector<ElementType>& source_types, ElementType table_type,
                       InstructionSet instruction_set)
    : program_(std::move(program)), lookup_rows_(LookupRowsFor(instruction_set)) {
  LookupPlanBuilder(this, source_types, table_type).Build();
}

}  // namespace dpiframe
