// Turns a parsed program into the plan that the row loops read.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "lookup_cpu.h"

namespace dpiframe {

class LookupPlanBuilder {
 public:
  LookupPlanBuilder(LookupPlan* plan, const std::vector<ElementType>& source_types, ElementType table_type)
      : plan_(plan), program_(plan->program_), source_types_(source_types), type_(table_type) {}

  void Build();

 private:
  // Source, column, constant and steps of an id, and V (0 for a bare value).
  using SlotKey = std::tuple<int, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;

  static SlotKey KeyOf(const IdExpression& id, int64_t table_rows);
  static Slot SlotOf(const SlotKey& key);
  int64_t ElementBytes() const { return type_ == ElementType::kFloat16 ? 2 : 4; }
  int NewCell() { return plan_->view_.cell_count++; }
  void AddSources();
  void AddRow(const ProgramBlock& block, int line);
  void AddCopy(const ProgramBlock& block);
  void AddPool(const ProgramBlock& block, int first_line);
  void AddBag(const ProgramBlock& block, int line);
  PoolTerm MakeTerm(const ProgramBlock& block, const ProgramTerm& term, int line);
  void RequireEqualColumns(int source, int weight_source);
  void AddWeight(const TermWeight& weight, PoolTerm* term);
  int AddCellRow(const ProgramTerm& term, int line, int64_t bytes);
  int ValueCell(const IdExpression& id);
  RowAddress Address(const ProgramTerm& term, int line) const;
  IdColumn CheckedId(const IdExpression& id) const;
  void CheckFloat(int source, const char* use) const;
  void FinishSlots();
  void FinishView();

  LookupPlan* plan_;
  const LookupProgram& program_;
  const std::vector<ElementType>& source_types_;
  ElementType type_;
  std::map<SlotKey, std::vector<CellRow>> rows_;  // in a fixed order, so that equal programs do the same
  std::map<SlotKey, int> values_;
  int64_t lines_ahead_ = 0;  // cache lines that a row fetches ahead
  int64_t row_lookups_ = 0;  // looked-up rows of an output row, `*` counted as a guess, bags not
};

}  // namespace dpiframe
