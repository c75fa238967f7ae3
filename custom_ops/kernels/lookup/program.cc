#include "program.h"

#include <algorithm>
#include <utility>

#include "kernels/program_fields.h"

namespace dpiframe {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 40;  // of an axis or a table: products of two stay inside 64 bits with room
constexpr size_t kMaxTrailingAxes = 8;

class ProgramParser {
 public:
  explicit ProgramParser(std::string_view text) : reader_(text) {}

  LookupProgram Parse() {
    ParseHead();
    do ParseSource();
    while (reader_.NextLineIs("source"));
    while (reader_.NextLineIs("table")) ParseTable();
    do ParseOutput();
    while (reader_.NextLineIs("output"));
    covered_.resize(program_.outputs.size());
    while (!reader_.AtEnd()) ParseBlock();
    for (size_t i = 0; i < program_.outputs.size(); ++i) CheckCovered(i);
    return std::move(program_);
  }

 private:
  void ParseHead() {
    reader_.Format("lookup");
    reader_.NextLineOf("rows");
    program_.row_axes = static_cast<int>(reader_.Integer("row axes", 1, 2));
    reader_.EndLine();
    reader_.NextLineOf("bad");
    const std::string_view policy = reader_.Word("policy");
    if (policy == "error") {
      program_.bad = BadIdPolicy::kError;
    } else if (policy == "zero") {
      program_.bad = BadIdPolicy::kZero;
    } else if (policy == "clamp") {
      program_.bad = BadIdPolicy::kClamp;
    } else {
      reader_.Fail("is \"" + std::string(policy) + "\": error, zero or clamp was expected");
    }
    reader_.EndLine();
  }

  void ParseSource() {
    reader_.NextLineOf("source");
    ProgramSource source{};
    const std::string_view columns = reader_.Word("columns");
    source.columns = columns == "*" ? kStar : reader_.ToInteger(columns, 1, kMaxSize);
    const std::string_view layout = reader_.Word("layout");
    if (layout == "row") {
      source.layout = Layout::kRow;
    } else if (layout == "column") {
      source.layout = Layout::kColumn;
    } else if (layout == "list") {
      source.layout = Layout::kList;
    } else if (layout == "bounds") {
      source.layout = Layout::kBounds;
    } else {
      reader_.Fail("is \"" + std::string(layout) + "\": row, column, list or bounds was expected");
    }
    CheckLayout(source, std::string(layout));
    reader_.EndLine();
    program_.sources.push_back(source);
  }

  void CheckLayout(const ProgramSource& source, const std::string& layout) const {
    if (source.layout == Layout::kRow) return;
    if (program_.row_axes != 1) reader_.Fail("is " + layout + ", which needs one row axis");
    if (source.layout == Layout::kList) {
      if (source.columns != kStar) reader_.Fail("is list, which has no number of columns but *");
      if (program_.sources.empty())
        reader_.Fail("is list, which can't be the first: it doesn't tell how many rows there are");
    } else if (source.columns == kStar) {
      reader_.Fail("is " + layout + ", which needs a number of columns");
    }
  }

  void ParseTable() {
    reader_.NextLineOf("table");
    ProgramTable table{};
    table.rows = reader_.Integer("V", 1, kMaxSize);
    table.dim = reader_.Integer("D", 1, kMaxSize);
    if (table.rows > kMaxSize / table.dim) reader_.Fail("makes the table larger than 2^40 elements");
    reader_.EndLine();
    program_.tables.push_back(table);
  }

  void ParseOutput() {
    reader_.NextLineOf("output");
    ProgramOutput output{{}, 1};
    while (!reader_.LineDone()) {
      const int64_t size = reader_.Integer("trailing shape", 1, kMaxSize);
      if (output.width > kMaxSize / size) reader_.Fail("makes a row wider than 2^40 elements");
      if (output.trailing_shape.size() == kMaxTrailingAxes) reader_.Fail("is a trailing axis too many: there may be 8");
      output.width *= size;
      output.trailing_shape.push_back(size);
    }
    program_.outputs.push_back(std::move(output));
  }

  void ParseBlock() {
    reader_.NextLine("copy, row, pool or bag");
    const std::string_view kind = reader_.Word("keyword");
    ProgramBlock block{};
    if (kind == "copy") {
      block.kind = BlockKind::kCopy;
    } else if (kind == "row") {
      block.kind = BlockKind::kRow;
    } else if (kind == "pool") {
      block.kind = BlockKind::kPool;
    } else if (kind == "bag") {
      block.kind = BlockKind::kBag;
    } else {
      reader_.Fail("is \"" + std::string(kind) + "\": copy, row, pool or bag was expected");
    }
    block.output = reader_.Index("output", program_.outputs.size());
    const int64_t output_width = program_.outputs[block.output].width;
    block.column = reader_.Integer("first column", 0, output_width - 1);
    block.width = reader_.Integer("width", 1, output_width - block.column);
    switch (block.kind) {
      case BlockKind::kCopy:
        ParseCopy(&block);
        break;
      case BlockKind::kRow:
        block.terms.push_back(ParseRow(block.width));
        if (block.terms[0].id.is_star()) reader_.Fail("names all columns (*), which only a pooled term may");
        reader_.EndLine();
        break;
      case BlockKind::kPool:
        ParsePool(&block);
        break;
      case BlockKind::kBag:
        ParseBag(&block);
        break;
    }
    covered_[block.output].emplace_back(block.column, block.width);
    program_.blocks.push_back(std::move(block));
  }

  void ParseCopy(ProgramBlock* block) {
    block->source = reader_.Index("source", program_.sources.size());
    CheckHasRows(block->source);
    const int64_t columns = program_.sources[block->source].columns;
    if (columns == kStar) reader_.Fail("has a dynamic number of columns (*), so it can't be copied");
    block->first_column = reader_.Integer("source column", 0, columns - 1);
    if (block->width > columns - block->first_column) {
      reader_.Fail("leaves fewer columns than the width " + std::to_string(block->width));
    }
    reader_.EndLine();
  }

  PoolOp ParsePooling() {
    const std::string_view op = reader_.Word("pooling");
    if (op == "sum") return PoolOp::kSum;
    if (op == "mean") return PoolOp::kMean;
    if (op == "max") return PoolOp::kMax;
    reader_.Fail("is \"" + std::string(op) + "\": sum, mean or max was expected");
  }

  void ParsePool(ProgramBlock* block) {
    block->op = ParsePooling();
    const int64_t count = reader_.Integer("number of terms", 1, INT32_MAX);
    block->x = reader_.Float("X");
    if (block->op == PoolOp::kSum && block->x != 0) reader_.Fail("must be 0 for sum");
    reader_.EndLine();
    for (int64_t i = 0; i < count; ++i) {
      reader_.NextLineOf("term");
      ProgramTerm term = ParseRow(block->width);
      term.weight = ParseWeight(term.id);
      reader_.EndLine();
      block->terms.push_back(std::move(term));
    }
  }

  void ParseBag(ProgramBlock* block) {
    block->op = ParsePooling();
    const std::string_view empty = reader_.Word("value of an empty bag");
    if (empty == "-inf" && block->op == PoolOp::kMax) {
      block->empty = -__builtin_inff();
    } else if (empty != "0") {
      reader_.Fail("is \"" + std::string(empty) + "\": 0, or for max -inf, was expected");
    }
    bag_ = true;
    ProgramTerm term = ParseRow(block->width);
    term.weight = ParseWeight(term.id);
    bag_ = false;
    if (term.weight.kind != WeightKind::kOne && block->op != PoolOp::kSum) {
      reader_.Fail("weighs a bag, which only sum can have");
    }
    block->offsets = ParseOffsets();
    const std::string_view padding = reader_.Word("padding");
    if (padding != "none") {
      block->padding = reader_.ToInteger(padding, 0, program_.tables[static_cast<size_t>(term.table)].rows - 1);
    }
    reader_.EndLine();
    block->terms.push_back(std::move(term));
  }

  IdExpression ParseOffsets() {
    offsets_ = true;
    const IdExpression offsets = ParseId("offsets");
    offsets_ = false;
    if (offsets.source < 0) reader_.Fail("is a constant, but offsets come from a source");
    if (offsets.is_star()) reader_.Fail("names all columns (*), but a row has one offset");
    return offsets;
  }

  // A list is read by bags alone, and bounds as their offsets alone; both by nothing else.
  void CheckHasRows(int source) const {
    const Layout layout = program_.sources[static_cast<size_t>(source)].layout;
    if (bag_ != (layout == Layout::kList)) {
      reader_.Fail(bag_ ? "is not a list, which a bag's ids and weights come from"
                        : "is a list, which only a bag can read");
    }
    if (layout == Layout::kBounds && !offsets_) reader_.Fail("holds bounds, which only a bag's offsets can be");
  }

  // T ID J
  ProgramTerm ParseRow(int64_t width) {
    ProgramTerm term{};
    term.table = reader_.Index("table", program_.tables.size());
    term.id = ParseId("id");
    const std::string id_text = IdText(term.id);
    term.first = reader_.Integer("first element", 0, program_.tables[term.table].dim - 1);
    if (width > program_.tables[term.table].dim - term.first) {
      reader_.Fail("leaves fewer elements of the table's row than the width " + std::to_string(width));
    }
    return term;
  }

  IdExpression ParseId(const char* what) {
    std::string_view text = reader_.Word(what);
    IdExpression id;
    const size_t star = text.find(":*");
    const size_t first_step = std::min(star == text.npos ? text.find_first_of("/%*+") : star + 2, text.size());
    ParseIdHead(text.substr(0, first_step), &id);
    text.remove_prefix(first_step);
    static constexpr std::string_view kOrder = "/%*+";
    size_t next = 0;
    while (!text.empty()) {
      const size_t step = kOrder.find(text[0], next);
      if (step == kOrder.npos) reader_.Fail("has steps that are not in the order / % * +, each at most once");
      next = step + 1;
      text.remove_prefix(1);
      const size_t end = std::min(text.find_first_of(kOrder), text.size());
      const int64_t number = reader_.ToInteger(text.substr(0, end));
      if (step < 2 && number == 0) reader_.Fail("divides by 0");
      (step == 0 ? id.div : step == 1 ? id.mod : step == 2 ? id.mul : id.add) = number;
      text.remove_prefix(end);
    }
    return id;
  }

  void ParseIdHead(std::string_view text, IdExpression* id) {
    if (!text.empty() && text[0] == '=') {
      if (bag_) reader_.Fail("is a constant, but a bag's ids come from a list");
      id->constant = reader_.ToInteger(text.substr(1));
      return;
    }
    const size_t colon = text.find(':');
    if (colon == text.npos) reader_.Fail("is neither S:C, S:* nor =N");
    id->source = reader_.ToIndex(text.substr(0, colon), program_.sources.size());
    CheckHasRows(id->source);
    id->column = ParseColumn(text.substr(colon + 1), id->source);
  }

  // A column of a source, or "*".
  int64_t ParseColumn(std::string_view text, int source) {
    const int64_t columns = program_.sources[source].columns;
    if (text == "*") return kStar;
    if (columns == kStar) reader_.Fail("names a single column of a source with a dynamic number of columns (*)");
    return reader_.ToIndex(text, static_cast<size_t>(columns));
  }

  TermWeight ParseWeight(const IdExpression& term_id) {
    TermWeight weight;
    const std::string_view kind = reader_.Word("weight");
    if (kind == "one") return weight;
    if (bag_ && kind != "col") reader_.Fail("is \"" + std::string(kind) + "\": a bag takes one or col");
    if (kind == "ne") {
      weight.kind = WeightKind::kNotEqual;
      weight.id = ParseId("weight id");
      CheckSameColumns(term_id, weight.id.source, weight.id.is_star());
      weight.number = reader_.Integer("weight number", INT64_MIN, INT64_MAX);
    } else if (kind == "lt") {
      weight.kind = WeightKind::kLess;
      const std::string_view position = reader_.Word("weight position");
      weight.position = position == "*";
      if (weight.position && !term_id.is_star()) reader_.Fail("is *, which needs a term over all columns (S:*)");
      if (!weight.position) weight.number = reader_.ToInteger(position);
      weight.id = ParseId("weight id");
      CheckSameColumns(term_id, weight.id.source, weight.id.is_star());
    } else if (kind == "col") {
      weight.kind = WeightKind::kColumn;
      weight.source = reader_.Index("weight source", program_.sources.size());
      CheckHasRows(weight.source);
      weight.column = ParseColumn(reader_.Word("weight column"), weight.source);
      CheckSameColumns(term_id, weight.source, weight.column == kStar);
    } else {
      reader_.Fail("is \"" + std::string(kind) + "\": one, ne, lt or col was expected");
    }
    return weight;
  }

  // A weight over all columns belongs to a term over all columns, and both have equally many.
  void CheckSameColumns(const IdExpression& term_id, int source, bool star) {
    if (!star) return;
    if (!term_id.is_star()) reader_.Fail("names all columns (*), but the term's id does not");
    const int64_t expected = program_.sources[term_id.source].columns;
    const int64_t columns = program_.sources[source].columns;
    if (expected != kStar && columns != kStar && expected != columns) {
      reader_.Fail("has " + std::to_string(columns) + " columns, the term's id " + std::to_string(expected));
    }
  }

  void CheckCovered(size_t output) {
    auto& pieces = covered_[output];
    std::sort(pieces.begin(), pieces.end());
    int64_t next = 0;
    for (const auto& [column, width] : pieces) {
      if (column != next) break;
      next = column + width;
    }
    for (size_t i = 1; i < pieces.size(); ++i) {
      if (pieces[i].first < pieces[i - 1].first + pieces[i - 1].second) {
        throw ProgramError("output " + std::to_string(output) + ": column " + std::to_string(pieces[i].first) +
                           " is filled by two blocks");
      }
    }
    if (next != program_.outputs[output].width) {
      throw ProgramError("output " + std::to_string(output) + ": column " + std::to_string(next) +
                         " is filled by no block");
    }
  }

  ProgramReader reader_;
  LookupProgram program_{};
  bool bag_ = false;                                               // in the fields of a bag that name lists
  bool offsets_ = false;                                           // in the field of a bag that names its offsets
  std::vector<std::vector<std::pair<int64_t, int64_t>>> covered_;  // (column, width) of the blocks of each output
};

}  // namespace

bool IdExpression::operator==(const IdExpression& other) const {
  return source == other.source && column == other.column && constant == other.constant && div == other.div &&
         mod == other.mod && mul == other.mul && add == other.add;
}

LookupProgram ParseLookupProgram(std::string_view text) { return ProgramParser(text).Parse(); }

std::string IdText(const IdExpression& id) {
  if (id.source < 0) return "=" + std::to_string(id.constant);
  return std::to_string(id.source) + ":" + (id.column == kStar ? "*" : std::to_string(id.column));
}

}  // namespace dpiframe
