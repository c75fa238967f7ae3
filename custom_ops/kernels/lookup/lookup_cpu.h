// FusedMultiGather on the CPU: a program and its inputs' types become a plan, which fills rows of outputs.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/instruction_set.h"
#include "plan.h"
#include "program.h"

namespace dpiframe {

// A source whose type does not suit its use in the program.
struct SourceTypeError : std::invalid_argument {
  SourceTypeError(int source, const std::string& problem) : std::invalid_argument(problem), source(source) {}
  int source;
};

// A `row` or `term` line of a program.
struct LookupLine {
  IdExpression id;
  int table;
};

// Counts of ids outside their table by line, shared by all calls of a kernel.
class BadIdCounters {
 public:
  explicit BadIdCounters(size_t lines) : counts_(lines) {}
  void Add(int line, uint64_t count) { counts_[line].fetch_add(count, std::memory_order_relaxed); }
  std::vector<uint64_t> Read() const;
  void Reset();

 private:
  std::vector<std::atomic<uint64_t>> counts_;
};

// Ids outside their table that a range of rows met: counted, and the first of them kept.
class BadIds {
 public:
  struct First {
    int64_t row;
    int line;
    int64_t value;
  };

  explicit BadIds(BadIdCounters* counters) : counters_(counters) {}
  void Add(int line, int64_t row, int64_t value);
  void Merge(const BadIds& other);
  bool any() const { return any_; }
  const First& first() const { return first_; }

 private:
  BadIdCounters* counters_;
  bool any_ = false;
  First first_{};
};

class LookupPlan {
 public:
  // One type for each source; tables and outputs have `table_type`: float32 or float16. Throws SourceTypeError.
  LookupPlan(LookupProgram program, const std::vector<ElementType>& source_types, ElementType table_type,
             InstructionSet instruction_set = InstructionSet::kBestOfMachine);

  LookupPlan(const LookupPlan&) = delete;
  LookupPlan& operator=(const LookupPlan&) = delete;

  const LookupProgram& program() const { return program_; }
  const std::vector<LookupLine>& lines() const { return lines_; }
  const char* zeros() const { return zeros_.data(); }

  // Sources that must have equally many columns in a call, which only their shapes can tell.
  const std::vector<std::pair<int, int>>& equal_columns() const { return equal_columns_; }

  // Cuts a call into tasks that are worth the trouble of another thread, and of about the same cost: the row that each
  // begins with, then the number of rows. One task is {0, rows}.
  std::vector<int64_t> Tasks(const LookupCall& call) const;

  // Fills rows [begin, end) of all outputs. Any number of threads may be in here.
  void Run(const LookupCall& call, int64_t begin, int64_t end, BadIds* bad_ids) const;

 private:
  friend class LookupPlanBuilder;

  LookupProgram program_;
  std::vector<LookupLine> lines_;
  std::vector<std::pair<int, int>> equal_columns_;
  std::vector<SourceLayout> sources_;
  std::vector<int64_t> output_row_bytes_;
  std::vector<Slot> slots_;
  std::vector<CellRow> cell_rows_;
  std::vector<RowRun> runs_;
  std::vector<CopyColumns> copies_;
  std::vector<Pool> pools_;
  std::vector<PoolTerm> terms_;
  std::vector<Prefetch> prefetches_;
  std::vector<Bag> bags_;
  std::vector<char> zeros_;
  int64_t row_lookups_ = 0;  // looked-up rows of an output row but for those of bags
  PlanView view_{};
  LookupRowsFunction lookup_rows_;
};

}  // namespace dpiframe
