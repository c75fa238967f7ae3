#include "text.h"

#include <cmath>
#include <cstdio>
#include <cstring>

namespace dpiframe::cuda {
namespace {

struct Spelling {
  const char* name;
  int arity;
  bool gives_bool;
  const char* code;
};

constexpr Spelling kSpellings[] = {
#define DPIFRAME_OPERATOR(enumerator, name, arity, types, gives_bool, code) {#enumerator, arity, gives_bool, #code},
#include "elementwise_operators.inc"
#undef DPIFRAME_OPERATOR
};

const Spelling& SpellingOf(ElementwiseOp op) { return kSpellings[static_cast<size_t>(op)]; }

std::string FloatLiteral(double number, bool is_double) {
  char text[64];
  if (!std::isfinite(number)) {
    uint64_t bits = 0;
    if (is_double) {
      std::memcpy(&bits, &number, sizeof number);
      std::snprintf(text, sizeof text, "__longlong_as_double(0x%llxLL)", static_cast<unsigned long long>(bits));
    } else {
      const float single = static_cast<float>(number);
      std::memcpy(&bits, &single, sizeof single);
      std::snprintf(text, sizeof text, "__int_as_float(0x%llx)", static_cast<unsigned long long>(bits));
    }
    return text;
  }
  std::snprintf(text, sizeof text, "%.*g", is_double ? 17 : 9, number);
  std::string literal = text;
  if (literal.find_first_of(".e") == std::string::npos) literal += ".0";
  return is_double ? literal : literal + "f";
}

}  // namespace

std::string StoredType(ScalarType type) {
  switch (type) {
    case ScalarType::kFloat32:
      return "float";
    case ScalarType::kFloat16:
      return "Half";
    case ScalarType::kFloat64:
      return "double";
    case ScalarType::kInt32:
      return "Int32";
    case ScalarType::kInt64:
      return "Int64";
    case ScalarType::kBool:
      return "Bool";
  }
  return "";
}

std::string ComputedType(ScalarType type) { return type == ScalarType::kFloat16 ? "float" : StoredType(type); }

std::string Literal(const ElementwiseValue& value) {
  switch (value.type) {
    case ScalarType::kFloat32:
    case ScalarType::kFloat16:
      return FloatLiteral(value.number, false);
    case ScalarType::kFloat64:
      return FloatLiteral(value.number, true);
    case ScalarType::kInt32:
      return "Int32(" + std::to_string(value.integer) + "LL)";
    case ScalarType::kInt64:
      // The smallest integer has no literal of its own.
      return value.integer == INT64_MIN ? "Int64(-9223372036854775807LL - 1)"
                                        : "Int64(" + std::to_string(value.integer) + "LL)";
    case ScalarType::kBool:
      return "Bool(" + std::to_string(value.integer) + ")";
  }
  return "";
}

std::string RuleName(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "Sum";
    case ReduceOp::kMax:
      return "Largest";
    case ReduceOp::kMin:
      return "Smallest";
    case ReduceOp::kProd:
      return "Product";
  }
  return "";
}

// Without the k of the enumerator.
std::string OperatorName(ElementwiseOp op) { return std::string("Op") + (SpellingOf(op).name + 1); }

std::string OperatorDefinition(ElementwiseOp op) {
  const Spelling& spelling = SpellingOf(op);
  std::string parameters = op == ElementwiseOp::kWhere ? "Bool x" : "T x";
  if (spelling.arity > 1) parameters += ", T y";
  if (spelling.arity > 2) parameters += ", T z";
  return "template <typename T>\n__device__ __forceinline__ " + std::string(spelling.gives_bool ? "Bool" : "T") + " " +
         OperatorName(op) + "(" + parameters + ") {\n  return " + spelling.code + ";\n}\n";
}

}  // namespace dpiframe::cuda
