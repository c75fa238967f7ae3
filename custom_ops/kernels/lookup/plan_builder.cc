#include "plan_builder.h"

#include <algorithm>
#include <string>

namespace dpiframe {
namespace {

// How many cache lines are asked for ahead of their use: about as many as a core can wait for at a time.
constexpr int64_t kLinesInFlight = 48;

// Of a list, whose rows may come from memory one after the other: how many lines ahead rows are asked for, and how many
// lines are pooled between two requests. Measured: less waits for memory, more at a time fills its queues.
constexpr int64_t kListLinesAhead = 128;
constexpr int64_t kListLinesAtOnce = 32;

constexpr int64_t kCacheLine = 64;

// A guess at the columns of a `*` source, for the size of tasks.
constexpr int64_t kGuessedColumns = 32;

IdColumn ColumnOf(const IdExpression& id) {
  return {id.source, id.column, id.constant, id.div, id.mod, id.mul, id.add};
}

template <typename T>
Span<T> SpanOf(const std::vector<T>& values) {
  return {values.data(), static_cast<int>(values.size())};
}

PoolKind KindOf(PoolOp op) {
  return op == PoolOp::kSum ? PoolKind::kSum : op == PoolOp::kMean ? PoolKind::kMean : PoolKind::kMax;
}

bool PrecedesInOutput(const ProgramBlock* a, const ProgramBlock* b) {
  return std::tie(a->output, a->column) < std::tie(b->output, b->column);
}

}  // namespace

void LookupPlanBuilder::Build() {
  AddSources();
  for (const ProgramOutput& output : program_.outputs) {
    plan_->output_row_bytes_.push_back(output.width * ElementBytes());
  }
  // Blocks in the order of their places, so that rows are written from front to back; lines in the program's order.
  std::vector<const ProgramBlock*> blocks;
  std::map<const ProgramBlock*, int> first_lines;
  for (const ProgramBlock& block : program_.blocks) {
    blocks.push_back(&block);
    first_lines[&block] = static_cast<int>(plan_->lines_.size());
    for (const ProgramTerm& term : block.terms) plan_->lines_.push_back({term.id, term.table});
  }
  std::sort(blocks.begin(), blocks.end(), PrecedesInOutput);
  for (const ProgramBlock* block : blocks) {
    if (block->kind == BlockKind::kRow) AddRow(*block, first_lines[block]);
    if (block->kind == BlockKind::kCopy) AddCopy(*block);
    if (block->kind == BlockKind::kPool) AddPool(*block, first_lines[block]);
    if (block->kind == BlockKind::kBag) AddBag(*block, first_lines[block]);
  }
  FinishSlots();
  FinishView();
}

LookupPlanBuilder::SlotKey LookupPlanBuilder::KeyOf(const IdExpression& id, int64_t table_rows) {
  return {id.source, id.column, id.constant, id.div, id.mod, id.mul, id.add, table_rows};
}

Slot LookupPlanBuilder::SlotOf(const SlotKey& key) {
  Slot slot{};
  std::tie(slot.id.source, slot.id.column, slot.id.constant, slot.id.div, slot.id.mod, slot.id.mul, slot.id.add,
           slot.table_rows) = key;
  return slot;
}

void LookupPlanBuilder::AddSources() {
  for (size_t i = 0; i < program_.sources.size(); ++i) {
    const ProgramSource& source = program_.sources[i];
    plan_->sources_.push_back({source_types_[i], source.columns, source.layout == Layout::kColumn});
  }
}

void LookupPlanBuilder::AddRow(const ProgramBlock& block, int line) {
  const int64_t bytes = block.width * ElementBytes();
  const int cell = AddCellRow(block.terms[0], line, bytes);
  const int64_t offset = block.column * ElementBytes();
  if (!plan_->runs_.empty()) {
    RowRun& last = plan_->runs_.back();
    if (last.output == block.output && last.bytes == bytes && last.offset + last.count * bytes == offset &&
        last.first_cell + last.count == cell) {
      ++last.count;
      return;
    }
  }
  plan_->runs_.push_back({block.output, offset, bytes, cell, 1});
}

void LookupPlanBuilder::AddCopy(const ProgramBlock& block) {
  CheckFloat(block.source, "copied");
  const int64_t offset = block.column * ElementBytes();
  if (!plan_->copies_.empty()) {
    CopyColumns& last = plan_->copies_.back();
    if (last.output == block.output && last.source == block.source && last.column + last.width == block.first_column &&
        last.offset + last.width * ElementBytes() == offset) {
      last.width += block.width;
      return;
    }
  }
  plan_->copies_.push_back({block.output, offset, block.source, block.first_column, block.width});
}

void LookupPlanBuilder::AddPool(const ProgramBlock& block, int first_line) {
  Pool pool{};
  pool.kind = KindOf(block.op);
  pool.output = block.output;
  pool.offset = block.column * ElementBytes();
  pool.width = block.width;
  pool.x = block.x;
  pool.first_term = static_cast<int>(plan_->terms_.size());
  pool.term_count = static_cast<int>(block.terms.size());
  for (int i = 0; i < pool.term_count; ++i) {
    const ProgramTerm& term = block.terms[static_cast<size_t>(i)];
    pool.weighted |= term.weight.kind != WeightKind::kOne;
    plan_->terms_.push_back(MakeTerm(block, term, first_line + i));
  }
  plan_->pools_.push_back(pool);
  plan_->view_.pool_width = std::max(plan_->view_.pool_width, pool.width);
}

void LookupPlanBuilder::AddBag(const ProgramBlock& block, int line) {
  const ProgramTerm& term = block.terms[0];
  Bag bag{};
  bag.kind = KindOf(block.op);
  bag.empty = block.empty;
  bag.output = block.output;
  bag.offset = block.column * ElementBytes();
  bag.width = block.width;
  bag.id = CheckedId(term.id);
  bag.table_rows = program_.tables[static_cast<size_t>(term.table)].rows;
  bag.address = Address(term, line);
  bag.padding = block.padding;
  bag.weight_source = -1;
  if (term.weight.kind == WeightKind::kColumn) {
    CheckFloat(term.weight.source, "read as weights");
    RequireEqualColumns(term.id.source, term.weight.source);
    bag.weight_source = term.weight.source;
  }
  bag.offsets = CheckedId(block.offsets);
  bag.bounds = program_.sources[static_cast<size_t>(block.offsets.source)].layout == Layout::kBounds;
  const int64_t lines = (block.width * ElementBytes() + kCacheLine - 1) / kCacheLine;
  bag.rows_ahead = static_cast<int>(std::clamp<int64_t>(kListLinesAhead / lines, 4, kListBlock));
  bag.rows_at_once = static_cast<int>(std::clamp<int64_t>(kListLinesAtOnce / lines, 4, kListBlock / 2));
  plan_->bags_.push_back(bag);
  plan_->view_.pool_width = std::max(plan_->view_.pool_width, bag.width);
}

PoolTerm LookupPlanBuilder::MakeTerm(const ProgramBlock& block, const ProgramTerm& term, int line) {
  PoolTerm made{};
  made.star = term.id.is_star();
  if (made.star) {
    const int64_t columns = program_.sources[static_cast<size_t>(term.id.source)].columns;
    row_lookups_ += columns == kStar ? kGuessedColumns : columns;
    made.id = CheckedId(term.id);
    made.table_rows = program_.tables[static_cast<size_t>(term.table)].rows;
    made.address = Address(term, line);
    const bool weight_column = term.weight.kind == WeightKind::kColumn && term.weight.column == kStar;
    if (weight_column) RequireEqualColumns(term.id.source, term.weight.source);
    if (term.weight.id.is_star()) RequireEqualColumns(term.id.source, term.weight.id.source);
  } else {
    made.cell = AddCellRow(term, line, block.width * ElementBytes());
    plan_->prefetches_.push_back({made.cell, block.width * ElementBytes()});
  }
  AddWeight(term.weight, &made);
  return made;
}

void LookupPlanBuilder::RequireEqualColumns(int source, int weight_source) {
  const std::pair<int, int> pair{source, weight_source};
  auto& pairs = plan_->equal_columns_;
  if (source != weight_source && std::find(pairs.begin(), pairs.end(), pair) == pairs.end()) pairs.push_back(pair);
}

void LookupPlanBuilder::AddWeight(const TermWeight& weight, PoolTerm* term) {
  term->number = weight.number;
  switch (weight.kind) {
    case WeightKind::kOne:
      term->weight = PoolWeight::kOne;
      return;
    case WeightKind::kColumn:
      CheckFloat(weight.source, "read as weights");
      term->weight = PoolWeight::kColumn;
      term->weight_source = weight.source;
      term->weight_column = weight.column;
      term->weight_star = weight.column == kStar;
      return;
    case WeightKind::kNotEqual:
      term->weight = PoolWeight::kNotEqual;
      break;
    case WeightKind::kLess:
      term->weight = weight.position ? PoolWeight::kLessPosition : PoolWeight::kLess;
      break;
  }
  term->weight_star = weight.id.is_star();
  if (term->weight_star) {
    term->weight_id = CheckedId(weight.id);
  } else {
    term->weight_cell = ValueCell(weight.id);
  }
}

int LookupPlanBuilder::AddCellRow(const ProgramTerm& term, int line, int64_t bytes) {
  CheckedId(term.id);
  ++row_lookups_;
  lines_ahead_ += (bytes + kCacheLine - 1) / kCacheLine;
  const int cell = NewCell();
  const int64_t table_rows = program_.tables[static_cast<size_t>(term.table)].rows;
  rows_[KeyOf(term.id, table_rows)].push_back({Address(term, line), cell});
  return cell;
}

int LookupPlanBuilder::ValueCell(const IdExpression& id) {
  CheckedId(id);
  const auto [entry, added] = values_.try_emplace(KeyOf(id, 0), 0);
  if (added) entry->second = NewCell();
  return entry->second;
}

RowAddress LookupPlanBuilder::Address(const ProgramTerm& term, int line) const {
  const ProgramTable& table = program_.tables[static_cast<size_t>(term.table)];
  return {term.table, term.first * ElementBytes(), table.dim * ElementBytes(), line};
}

IdColumn LookupPlanBuilder::CheckedId(const IdExpression& id) const {
  if (id.source >= 0 && source_types_[static_cast<size_t>(id.source)] == ElementType::kFloat16) {
    throw SourceTypeError(id.source, "is float16, but is read as ids, which must be int32, int64, float32 or float64");
  }
  return ColumnOf(id);
}

void LookupPlanBuilder::CheckFloat(int source, const char* use) const {
  const ElementType type = source_types_[static_cast<size_t>(source)];
  if (type == ElementType::kFloat32 || type == type_) return;
  throw SourceTypeError(source, std::string("is ") + use + ", so it must be float32 or have the tables' type");
}

void LookupPlanBuilder::FinishSlots() {
  for (const auto& [key, cell_rows] : rows_) {
    Slot slot = SlotOf(key);
    slot.first = static_cast<int>(plan_->cell_rows_.size());
    slot.count = static_cast<int>(cell_rows.size());
    slot.plain = slot.count == 1 && slot.id.source >= 0 && slot.id.div == 0 && slot.id.mod == 0 && slot.id.mul == 1;
    plan_->cell_rows_.insert(plan_->cell_rows_.end(), cell_rows.begin(), cell_rows.end());
    plan_->slots_.push_back(slot);
  }
  for (const auto& [key, cell] : values_) {
    Slot slot = SlotOf(key);
    slot.first = cell;
    plan_->slots_.push_back(slot);
  }
}

void LookupPlanBuilder::FinishView() {
  int64_t zeros = 0;
  for (const ProgramBlock& block : program_.blocks) zeros = std::max(zeros, block.width * ElementBytes());
  plan_->zeros_.assign(static_cast<size_t>(zeros), 0);
  plan_->row_lookups_ = row_lookups_;

  PlanView& view = plan_->view_;
  view.type = type_;
  view.outside = program_.bad == BadIdPolicy::kClamp ? OutsideTable::kClamp : OutsideTable::kZeroRow;
  const int64_t ahead = lines_ahead_ == 0 ? 0 : (kLinesInFlight + lines_ahead_ - 1) / lines_ahead_;
  view.rows_ahead = static_cast<int>(std::min<int64_t>(ahead, kBlockRows));
  view.sources = SpanOf(plan_->sources_);
  view.output_row_bytes = SpanOf(plan_->output_row_bytes_);
  view.slots = SpanOf(plan_->slots_);
  view.cell_rows = SpanOf(plan_->cell_rows_);
  view.runs = SpanOf(plan_->runs_);
  view.copies = SpanOf(plan_->copies_);
  view.pools = SpanOf(plan_->pools_);
  view.terms = SpanOf(plan_->terms_);
  view.prefetches = SpanOf(plan_->prefetches_);
  view.bags = SpanOf(plan_->bags_);
}

}  // namespace dpiframe
