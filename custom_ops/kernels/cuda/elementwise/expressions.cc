#include "expressions.h"

#include <algorithm>

namespace dpiframe::cuda {
namespace {

constexpr int64_t kManyRuns = int64_t{1} << 32;

}  // namespace

ExpressionPrinter::ExpressionPrinter(const ElementwiseProgram& program, const Schedule& schedule, bool aligned)
    : program_(program), schedule_(schedule), aligned_(aligned) {}

void ExpressionPrinter::Open(const std::string& text) {
  text_.Open(text);
  known_.emplace_back();
}

void ExpressionPrinter::Close(const std::string& text) {
  known_.pop_back();
  text_.Close(text);
}

Parts ExpressionPrinter::Print(int number, const Index& index) {
  const Home home = schedule_.homes[static_cast<size_t>(number)];
  if (home == Home::kNowhere) return PrintAnew(number, index);
  return PrintKept(number, index, home);
}

Parts ExpressionPrinter::PrintAnew(int number, const Index& at) {
  const ElementwiseValue& value = ValueAt(number);
  if (value.kind == ValueKind::kConst) return {Literal(value)};
  const Index index = value.elements == 1 ? Index::Constant(0) : at;
  const std::string key = std::to_string(number) + "@" + index.Key();
  for (const auto& scope : known_) {
    const auto found = scope.find(key);
    if (found != scope.end()) return found->second;
  }
  Parts parts;
  switch (value.kind) {
    case ValueKind::kConst:
      break;
    case ValueKind::kInput:
      parts = PrintInput(number, index);
      break;
    case ValueKind::kOperator:
    case ValueKind::kCast:
      parts = PrintOperator(number, index);
      break;
    case ValueKind::kView:
      parts = PrintMapped(value.operands[0], index,
                          [&](const Index& own) { return OperandIndex(program_, value, 0, own); });
      break;
    case ValueKind::kPick:
      parts = PrintPick(number, index);
      break;
    case ValueKind::kJoin:
      parts = PrintJoin(number, index);
      break;
    case ValueKind::kReduce:
      parts = PrintLoop(number, index);
      break;
  }
  known_.back()[key] = parts;
  return parts;
}

Parts ExpressionPrinter::PrintPlaces(const Index& index, const std::function<std::string(const Index&)>& print) const {
  Parts parts;
  const int places = index.depends_on_place() ? width_ : 1;
  for (int place = 0; place < places; ++place) parts.push_back(print(index.At(place)));
  return parts;
}

// A value at what an index becomes by a map; place by place where the map takes the places apart.
Parts ExpressionPrinter::PrintMapped(int value, const Index& index, const std::function<Index(const Index&)>& map) {
  const Index mapped = map(index);
  if (!mapped.opaque()) return Print(value, mapped);
  return PrintPlaces(index, [&](const Index& own) { return Print(value, map(own))[0]; });
}

std::vector<InputRead> ExpressionPrinter::ReadsOf(int number, const Index& index) const {
  std::set<std::string> visited;
  std::vector<InputRead> reads;
  FindReads(number, index, &visited, &reads);
  return reads;
}

void ExpressionPrinter::FindReads(int number, const Index& at, std::set<std::string>* visited,
                                  std::vector<InputRead>* reads) const {
  const ElementwiseValue& value = ValueAt(number);
  const Index index = value.elements == 1 ? Index::Constant(0) : at;
  if (!visited->insert(std::to_string(number) + "@" + index.Key()).second) return;
  if (value.kind == ValueKind::kInput) reads->push_back({number, index});
  if (value.kind != ValueKind::kOperator && value.kind != ValueKind::kCast && value.kind != ValueKind::kView) return;
  for (size_t i = 0; i < value.operands.size(); ++i) {
    const int operand = value.operands[i];
    if (schedule_.homes[static_cast<size_t>(operand)] != Home::kNowhere) continue;
    const auto map = [&](const Index& own) { return OperandIndex(program_, value, static_cast<int>(i), own); };
    const Index mapped = map(index);
    if (!mapped.opaque()) {
      FindReads(operand, mapped, visited, reads);
      continue;
    }
    for (int place = 0; place < width_; ++place) FindReads(operand, map(index.At(place)), visited, reads);
  }
}

std::string ExpressionPrinter::Rounded(ScalarType type, const std::string& text) const {
  return type == ScalarType::kFloat16 ? "Rounded<Half>(" + text + ")" : text;
}

Parts ExpressionPrinter::PrintOperator(int number, const Index& index) {
  const ElementwiseValue& value = ValueAt(number);
  std::vector<Parts> operands;
  size_t places = 1;
  for (size_t i = 0; i < value.operands.size(); ++i) {
    operands.push_back(PrintMapped(value.operands[i], index, [&](const Index& own) {
      return OperandIndex(program_, value, static_cast<int>(i), own);
    }));
    places = std::max(places, operands.back().size());
  }
  const ScalarType from = ValueAt(value.operands.back()).type;
  const bool is_float = value.type == ScalarType::kFloat32 || value.type == ScalarType::kFloat16;
  if (places > 1 && is_float && value.kind == ValueKind::kOperator && value.op == ElementwiseOp::kDiv) {
    return PrintDivision(value, operands);
  }
  std::string function = "Caster<" + StoredType(value.type) + ", " + StoredType(from) + ">::Cast";
  if (value.kind == ValueKind::kOperator) {
    function = OperatorName(value.op) + "<" + ComputedType(from) + ">";
    operators_.insert(value.op);
  }
  const bool rounds = value.kind == ValueKind::kCast || !KeepsHalves(value.op);
  Parts parts;
  for (size_t place = 0; place < places; ++place) {
    std::string call = function + "(";
    for (size_t i = 0; i < operands.size(); ++i) {
      call += (i > 0 ? ", " : "") + operands[i][operands[i].size() == 1 ? 0 : place];
    }
    call += ")";
    parts.push_back(NewName("v"));
    Line("const " + ComputedType(value.type) + " " + parts.back() + " = " +
         (rounds ? Rounded(value.type, call) : call) + ";");
  }
  return parts;
}

Parts ExpressionPrinter::PrintDivision(const ElementwiseValue& value, const std::vector<Parts>& operands) {
  const std::string pack = NewName("pack");
  std::string line =
      "const Pack<float, " + std::to_string(width_) + "> " + pack + " = DivideAll<" + std::to_string(width_) + ">({";
  for (size_t i = 0; i < 2; ++i) {
    line += i == 0 ? "{" : "}, {{";
    for (size_t place = 0; place < static_cast<size_t>(width_); ++place) {
      line += (place > 0 ? ", " : "") + operands[i][operands[i].size() == 1 ? 0 : place];
    }
    line += "}";
  }
  Line(line + "});");
  Parts parts;
  for (int place = 0; place < width_; ++place) {
    parts.push_back(NewName("v"));
    Line("const float " + parts.back() + " = " + Rounded(value.type, pack + ".values[" + std::to_string(place) + "]") +
         ";");
  }
  return parts;
}

Parts ExpressionPrinter::PrintLoad(ScalarType type, const std::string& array, bool in_one, const char* function,
                                   bool skewed, const Index& index) {
  const std::string stored = StoredType(type);
  const auto address = [&](const Index& own) {
    return array + " + " + (skewed ? "Skewed<" + stored + ">(" + own.Text() + ")" : own.AddressText());
  };
  if (!in_one) {
    return PrintPlaces(index, [&](const Index& own) {
      const std::string name = NewName("v");
      Line("const " + ComputedType(type) + " " + name + " = Widen(" + function + "<1>(" + address(own) +
           ").values[0]);");
      return name;
    });
  }
  const std::string pack = NewName("pack");
  Line("const auto " + pack + " = " + function + "<" + std::to_string(width_) + ">(" + address(index) + ");");
  Parts parts;
  for (int place = 0; place < width_; ++place) {
    parts.push_back(NewName("v"));
    Line("const " + ComputedType(type) + " " + parts.back() + " = Widen(" + pack + ".values[" + std::to_string(place) +
         "]);");
  }
  return parts;
}

Parts ExpressionPrinter::PrintInput(int number, const Index& index) {
  const ElementwiseValue& value = ValueAt(number);
  const bool rows_fit = value.row_axes == 0 || value.elements % width_ == 0;
  const bool in_one = aligned_ && width_ > 1 && index.step() == 1 && index.IsMultipleOf(width_) && rows_fit;
  if (in_one) {
    int& alignment = alignments_[number];
    alignment = std::max(alignment, std::min(16, width_ * static_cast<int>(ScalarBytes(value.type))));
  }
  const std::string name = "in" + std::to_string(number);
  const bool by_run = value.elements == run_ && value.row_axes == (1u << program_.row_axes) - 1 &&
                      index.IsVariable("u", run_ / width_, width_);
  const Index own = by_run ? RunElement(width_) : index;
  return PrintLoad(value.type, by_run ? "all_" + name : name, in_one, "ReadInput", false, own);
}

// Known without a division, unlike the row and the place in it.
Index ExpressionPrinter::RunElement(int width) {
  return Index::Variable("static_cast<unsigned long long>(n)", kManyRuns).Times(width) + Index::Place(width);
}

// All its readers are loops over its own elements, so the round and the place say which it is.
Parts ExpressionPrinter::LanePlaces(int number) const {
  Parts parts;
  for (int place = 0; place < lane_width_; ++place) {
    parts.push_back("lane" + std::to_string(number) + "[" + round_ + " * " + Number(lane_width_) + " + " +
                    Number(place) + "]");
  }
  return parts;
}

Parts ExpressionPrinter::PrintKept(int number, const Index& at, Home home) {
  const ElementwiseValue& value = ValueAt(number);
  const std::string name = std::to_string(number);
  if (home == Home::kEvery) return {"every" + name};
  if (home == Home::kLane) {
    const Parts places = LanePlaces(number);
    if (at.depends_on_place()) return places;
    return {places[static_cast<size_t>(at.constant() % lane_width_)]};  // where places are taken one by one
  }
  const Index index = value.elements == 1 ? Index::Constant(0) : at;
  const std::string key = name + "@" + index.Key();
  for (const auto& scope : known_) {
    const auto found = scope.find(key);
    if (found != scope.end()) return found->second;
  }
  const bool in_one = width_ > 1 && index.step() == 1 && index.IsMultipleOf(width_);
  Parts parts = PrintLoad(value.type, "memory" + name, in_one, "Read", true, index);
  known_.back()[key] = parts;
  return parts;
}

Parts ExpressionPrinter::PrintPick(int number, const Index& index) {
  const ElementwiseValue& value = ValueAt(number);
  const int64_t bound = ValueAt(value.operands[0]).elements;
  return PrintPlaces(index, [&](const Index& own) {
    if (own.is_constant()) {
      return Print(value.operands[0], Index::Constant(value.indices[static_cast<size_t>(own.constant())]))[0];
    }
    picks_.insert(number);
    const std::string text = "pick" + std::to_string(number) + "[" + own.Text() + "]";
    return Print(value.operands[0], Index::Variable(text, bound))[0];
  });
}

Parts ExpressionPrinter::PrintJoin(int number, const Index& index) {
  const ElementwiseValue& value = ValueAt(number);
  const JoinShape shape = ShapeOfJoin(program_, value);
  const Index inside = index.Split(shape.joined * shape.behind).second;
  const bool whole = !inside.opaque() && (inside.step() == 0 || inside.step() == 1) && inside.IsMultipleOf(width_) &&
                     std::all_of(shape.firsts.begin(), shape.firsts.end(),
                                 [&](int64_t first) { return first * shape.behind % width_ == 0; });
  if (index.depends_on_place() && !whole) {
    return PrintPlaces(index, [&](const Index& own) { return PrintAnew(number, own)[0]; });
  }
  size_t first = 0;
  size_t last = value.operands.size();
  if (inside.At(0).is_constant()) {
    while (shape.firsts[first + 1] * shape.behind <= inside.constant()) ++first;
    last = first + 1;
  }
  Parts names;
  std::string declared;
  for (int place = 0; place < (index.depends_on_place() ? width_ : 1); ++place) {
    names.push_back(NewName("v"));
    declared += (declared.empty() ? "" : ", ") + names.back();
  }
  Line(ComputedType(value.type) + " " + declared + ";");
  PrintJoinParts(number, shape, inside.Text(), first, last, index, names);
  return names;
}

void ExpressionPrinter::PrintJoinParts(int number, const JoinShape& shape, const std::string& inside, size_t first,
                                       size_t last, const Index& index, const Parts& names) {
  if (last - first == 1) {
    const Parts parts = PrintMapped(ValueAt(number).operands[first], index,
                                    [&](const Index& own) { return PartIndex(shape, first, own); });
    for (size_t i = 0; i < names.size(); ++i) Line(names[i] + " = " + parts[parts.size() == 1 ? 0 : i] + ";");
    return;
  }
  const size_t middle = (first + last) / 2;
  Open("if (" + inside + " < " + Number(shape.firsts[middle] * shape.behind) + ")");
  PrintJoinParts(number, shape, inside, first, middle, index, names);
  known_.back().clear();
  text_.Else();
  PrintJoinParts(number, shape, inside, middle, last, index, names);
  Close();
}

void ExpressionPrinter::PrintWrite(ScalarType type, const std::string& address, const Parts& parts, bool in_one) {
  const std::string stored = StoredType(type);
  const auto value = [&](int place) {
    return "Narrow<" + stored + ">(" + parts[parts.size() == 1 ? 0 : static_cast<size_t>(place)] + ")";
  };
  if (!in_one) {
    for (int place = 0; place < width_; ++place) {
      Line("(" + address + ")[" + std::to_string(place) + "] = " + value(place) + ";");
    }
    return;
  }
  std::string values;
  for (int place = 0; place < width_; ++place) values += (place > 0 ? ", " : "") + value(place);
  Line("Write(" + address + ", Pack<" + stored + ", " + std::to_string(width_) + ">{{" + values + "}});");
}

}  // namespace dpiframe::cuda
