#include "lookup_cpu.h"

#include <algorithm>
#include <new>

#include "lookup_plan_builder.h"

namespace dpiframe {
namespace {

// Memory of a thread for the row loops; grows, and is kept.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { ::operator delete(data_, kAlignment); }

  void* Get(size_t bytes) {
    if (bytes > bytes_) {
      ::operator delete(data_, kAlignment);
      data_ = nullptr;
      bytes_ = 0;
      data_ = ::operator new(bytes, kAlignment);
      bytes_ = bytes;
    }
    return data_;
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

LookupRowsFunction LookupRowsFor([[maybe_unused]] InstructionSet instruction_set) {
#ifdef DPIFRAME_HAS_AVX2_FILE
  const bool best = instruction_set == InstructionSet::kBestOfMachine;
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
