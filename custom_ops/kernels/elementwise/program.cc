#include "program.h"

#include <algorithm>
#include <utility>

#include "kernels/half.h"
#include "kernels/program_fields.h"

namespace dpiframe {
namespace {

constexpr size_t kMaxValues = 4096;
constexpr size_t kMaxRank = 8;
constexpr int64_t kMaxElements = int64_t{1} << 20;  // of a value, a row

constexpr uint32_t Bit(ScalarType type) { return 1u << static_cast<int>(type); }
constexpr uint32_t kNumbers = Bit(ScalarType::kFloat32) | Bit(ScalarType::kFloat16) | Bit(ScalarType::kFloat64) |
                              Bit(ScalarType::kInt32) | Bit(ScalarType::kInt64);

constexpr std::pair<std::string_view, ScalarType> kTypes[] = {
    {"f32", ScalarType::kFloat32}, {"f16", ScalarType::kFloat16}, {"f64", ScalarType::kFloat64},
    {"i32", ScalarType::kInt32},   {"i64", ScalarType::kInt64},   {"bool", ScalarType::kBool},
};

constexpr std::pair<std::string_view, ReduceOp> kReductions[] = {
    {"sum", ReduceOp::kSum},
    {"max", ReduceOp::kMax},
    {"min", ReduceOp::kMin},
    {"prod", ReduceOp::kProd},
};

struct OperatorRow {
  std::string_view name;
  ElementwiseOp op;
  int arity;
  uint32_t types;
  bool gives_bool;
};

constexpr OperatorRow kOperators[] = {
#define DPIFRAME_OPERATOR(enumerator, name, arity, types, gives_bool, code) \
  {name, ElementwiseOp::enumerator, arity, types, gives_bool},
#include "elementwise_operators.inc"
#undef DPIFRAME_OPERATOR
};

const OperatorRow* FindOperator(std::string_view name) {
  const auto* row = std::find_if(std::begin(kOperators), std::end(kOperators),
                                 [&](const OperatorRow& candidate) { return candidate.name == name; });
  return row == std::end(kOperators) ? nullptr : row;
}

std::string_view TypeName(ScalarType type) {
  for (const auto& [name, candidate] : kTypes) {
    if (candidate == type) return name;
  }
  return "";
}

std::string SizesText(const std::vector<int64_t>& sizes) {
  if (sizes.empty()) return "a single element";
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "" : " ") + std::to_string(size);
  return text;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : reader_(text) {}

  ElementwiseProgram Parse() {
    ParseHead();
    while (reader_.NextLineIs("input")) ParseInput();
    program_.inputs = static_cast<int>(program_.values.size());
    while (!reader_.AtEnd() && !reader_.NextLineIs("output")) ParseValue();
    do ParseOutput();
    while (!reader_.AtEnd());
    return std::move(program_);
  }

 private:
  void ParseHead() {
    reader_.Format("elementwise");
    reader_.NextLineOf("rows");
    program_.row_axes = static_cast<int>(reader_.Integer("row axes", 1, 2));
    reader_.EndLine();
  }

  void ParseInput() {
    reader_.NextLineOf("input");
    ElementwiseValue value{};
    value.kind = ValueKind::kInput;
    value.type = ParseType();
    const std::string_view mask = reader_.Word("row axes");
    if (mask.size() != static_cast<size_t>(program_.row_axes) || mask.find_first_not_of("x-") != mask.npos) {
      reader_.Fail("is \"" + std::string(mask) + "\": an x or a - for each of the " +
                   std::to_string(program_.row_axes) + " row axes was expected");
    }
    for (size_t axis = 0; axis < mask.size(); ++axis) {
      if (mask[axis] == 'x') value.row_axes |= 1u << axis;
    }
    while (!reader_.LineDone()) ParseSize(reader_.Word("sizes"), &value);
    Add(std::move(value));
  }

  void ParseValue() {
    reader_.NextLine("an operator or output");
    const std::string_view name = reader_.Word("name");
    ElementwiseValue value{};
    const auto* reduction = std::find_if(std::begin(kReductions), std::end(kReductions),
                                         [&](const auto& candidate) { return candidate.first == name; });
    if (name == "const") {
      ParseConst(&value);
    } else if (name == "cast") {
      ParseHeadOf(ValueKind::kCast, &value);
      ParseCast(&value);
    } else if (name == "view") {
      ParseHeadOf(ValueKind::kView, &value);
      ParseView(&value);
    } else if (name == "pick") {
      ParseHeadOf(ValueKind::kPick, &value);
      ParsePick(&value);
    } else if (name == "join") {
      ParseHeadOf(ValueKind::kJoin, &value);
      ParseJoin(&value);
    } else if (reduction != std::end(kReductions)) {
      value.reduce = reduction->second;
      ParseHeadOf(ValueKind::kReduce, &value);
      ParseReduce(&value);
    } else if (const OperatorRow* row = FindOperator(name)) {
      ParseHeadOf(ValueKind::kOperator, &value);
      ParseOperator(*row, &value);
    } else {
      reader_.Fail("is \"" + std::string(name) + "\", which is no operator, nor const, cast, view, pick, join, sum, " +
                   "max, min, prod or output");
    }
    reader_.EndLine();
    Add(std::move(value));
  }

  void ParseHeadOf(ValueKind kind, ElementwiseValue* value) {
    value->kind = kind;
    value->type = ParseType();
    while (true) {
      const std::string_view word = reader_.Word("sizes");
      if (word == ":") return;
      ParseSize(word, value);
    }
  }

  ScalarType ParseType() {
    const std::string_view word = reader_.Word("type");
    for (const auto& [name, type] : kTypes) {
      if (name == word) return type;
    }
    reader_.Fail("is \"" + std::string(word) + "\": f32, f16, f64, i32, i64 or bool was expected");
  }

  void ParseSize(std::string_view word, ElementwiseValue* value) {
    const int64_t size = reader_.ToInteger(word, 1, kMaxElements);
    if (value->sizes.size() == kMaxRank) reader_.Fail("is a size too many: there may be 8");
    if (value->elements > kMaxElements / size) reader_.Fail("makes the value larger than 2^20 elements a row");
    value->elements *= size;
    value->sizes.push_back(size);
  }

  void ParseConst(ElementwiseValue* value) {
    value->kind = ValueKind::kConst;
    value->type = ParseType();
    switch (value->type) {
      case ScalarType::kFloat32:
        value->number = static_cast<double>(reader_.Floating<float>("number"));
        break;
      case ScalarType::kFloat16:
        value->number = static_cast<double>(HalfToFloat(FloatToHalf(reader_.Floating<float>("number"))));
        break;
      case ScalarType::kFloat64:
        value->number = reader_.Floating<double>("number");
        break;
      case ScalarType::kInt32:
        value->integer = reader_.Integer("number", INT32_MIN, INT32_MAX);
        break;
      case ScalarType::kInt64:
        value->integer = reader_.Integer("number", INT64_MIN, INT64_MAX);
        break;
      case ScalarType::kBool:
        value->integer = reader_.Integer("number", 0, 1);
        break;
    }
  }

  const ElementwiseValue& ParseOperand(ElementwiseValue* value) {
    const int64_t operand = reader_.ToInteger(reader_.Word("operand"));
    if (operand < 0 || operand >= static_cast<int64_t>(program_.values.size())) {
      reader_.Fail("is " + std::to_string(operand) + ", but " + std::to_string(program_.values.size()) +
                   " values stand before this line");
    }
    value->operands.push_back(static_cast<int>(operand));
    const ElementwiseValue& parsed = program_.values[static_cast<size_t>(operand)];
    value->row_axes |= parsed.row_axes;
    return parsed;
  }

  void CheckType(const ElementwiseValue& operand, ScalarType expected) {
    if (operand.type == expected) return;
    reader_.Fail("is of type " + std::string(TypeName(operand.type)) + " where " + std::string(TypeName(expected)) +
                 " was expected");
  }

  const ElementwiseValue& ParseSameType(ElementwiseValue* value) {
    const ElementwiseValue& operand = ParseOperand(value);
    CheckType(operand, value->type);
    return operand;
  }

  void CheckBroadcasts(const ElementwiseValue& operand, const ElementwiseValue& value) {
    const size_t rank = operand.sizes.size();
    bool fits = rank <= value.sizes.size();
    for (size_t i = 1; fits && i <= rank; ++i) {
      const int64_t size = operand.sizes[rank - i];
      fits = size == 1 || size == value.sizes[value.sizes.size() - i];
    }
    if (!fits) {
      reader_.Fail("has the sizes " + SizesText(operand.sizes) + ", which don't broadcast to " +
                   SizesText(value.sizes));
    }
  }

  void ParseOperator(const OperatorRow& row, ElementwiseValue* value) {
    value->op = row.op;
    ScalarType type = value->type;
    if (row.gives_bool && type != ScalarType::kBool) {
      reader_.Fail("ends a head of type " + std::string(TypeName(type)) + ", but " + std::string(row.name) +
                   " gives bool");
    }
    for (int i = 0; i < row.arity; ++i) {
      const ElementwiseValue& operand = ParseOperand(value);
      if (row.op == ElementwiseOp::kWhere && i == 0) {
        CheckType(operand, ScalarType::kBool);
      } else {
        if (row.gives_bool && i == 0) type = operand.type;
        CheckType(operand, type);
        CheckAllowed(row.types, type, row.name);
      }
      CheckBroadcasts(operand, *value);
    }
  }

  void CheckAllowed(uint32_t types, ScalarType type, std::string_view name) {
    if ((types & Bit(type)) != 0) return;
    reader_.Fail("is of type " + std::string(TypeName(type)) + ", which " + std::string(name) + " does not take");
  }

  void ParseCast(ElementwiseValue* value) {
    const ElementwiseValue& operand = ParseOperand(value);
    if (operand.sizes != value->sizes) {
      reader_.Fail("has the sizes " + SizesText(operand.sizes) + ", the result " + SizesText(value->sizes));
    }
  }

  void ParseView(ElementwiseValue* value) {
    const int64_t elements = ParseSameType(value).elements;
    value->offset = reader_.Integer("offset", 0, elements - 1);
    int64_t low = value->offset;
    int64_t high = value->offset;
    for (const int64_t size : value->sizes) {
      const int64_t stride = reader_.Integer("stride", -kMaxElements, kMaxElements);
      (stride < 0 ? low : high) += (size - 1) * stride;
      if (low < 0 || high >= elements) {
        reader_.Fail("leads outside the operand, which has " + std::to_string(elements) + " elements");
      }
      value->strides.push_back(stride);
    }
  }

  void ParsePick(ElementwiseValue* value) {
    const int64_t elements = ParseSameType(value).elements;
    for (int64_t i = 0; i < value->elements; ++i) {
      value->indices.push_back(reader_.Integer("index", 0, elements - 1));
    }
  }

  void ParseJoin(ElementwiseValue* value) {
    if (value->sizes.empty()) reader_.Fail("stands where a size was expected: a single element has no axis to join");
    value->axis = static_cast<int>(reader_.Integer("axis", 0, static_cast<int64_t>(value->sizes.size()) - 1));
    const size_t axis = static_cast<size_t>(value->axis);
    int64_t joined = 0;
    do {
      const ElementwiseValue& part = ParseSameType(value);
      bool fits = part.sizes.size() == value->sizes.size();
      for (size_t i = 0; fits && i < part.sizes.size(); ++i) fits = i == axis || part.sizes[i] == value->sizes[i];
      if (!fits) {
        reader_.Fail("has the sizes " + SizesText(part.sizes) + ", which are no part of " + SizesText(value->sizes) +
                     " along axis " + std::to_string(axis));
      }
      joined += part.sizes[axis];
    } while (!reader_.LineDone());
    if (joined != value->sizes[axis]) {
      reader_.Fail("ends the join at " + std::to_string(joined) + " of " + std::to_string(value->sizes[axis]) +
                   " along axis " + std::to_string(axis));
    }
  }

  void ParseReduce(ElementwiseValue* value) {
    const ElementwiseValue& operand = ParseSameType(value);
    CheckAllowed(kNumbers, value->type, "a reduction");
    const int64_t rank = static_cast<int64_t>(operand.sizes.size());
    int64_t next = 0;
    do {
      if (next >= rank) {
        reader_.Word("axis");
        reader_.Fail("is an axis too many: the operand has " + std::to_string(rank) + ", and axes ascend");
      }
      value->axes.push_back(static_cast<int>(reader_.Integer("axis", next, rank - 1)));
      next = value->axes.back() + 1;
    } while (!reader_.LineDone());
    std::vector<int64_t> kept;
    std::vector<int64_t> sizes;
    for (int axis = 0; axis < static_cast<int>(rank); ++axis) {
      const int64_t size = operand.sizes[static_cast<size_t>(axis)];
      if (size != 1 && !std::binary_search(value->axes.begin(), value->axes.end(), axis)) kept.push_back(size);
    }
    std::copy_if(value->sizes.begin(), value->sizes.end(), std::back_inserter(sizes), [](int64_t n) { return n != 1; });
    if (kept != sizes) {
      reader_.Fail("leaves the sizes " + SizesText(kept) + ", but the result has " + SizesText(value->sizes));
    }
  }

  void Add(ElementwiseValue value) {
    if (program_.values.size() == kMaxValues) reader_.Fail("is on a line too many: a program has at most 4096 values");
    program_.values.push_back(std::move(value));
  }

  void ParseOutput() {
    reader_.NextLineOf("output");
    const int output = reader_.Index("value", program_.values.size());
    const uint32_t row_axes = program_.values[static_cast<size_t>(output)].row_axes;
    for (int axis = 0; axis < program_.row_axes; ++axis) {
      if ((row_axes >> axis & 1) == 0) reader_.Fail("doesn't depend on row axis " + std::to_string(axis));
    }
    reader_.EndLine();
    program_.outputs.push_back(output);
  }

  ProgramReader reader_;
  ElementwiseProgram program_;
};

}  // namespace

ElementwiseProgram ParseElementwiseProgram(std::string_view text) { return Parser(text).Parse(); }

}  // namespace dpiframe
