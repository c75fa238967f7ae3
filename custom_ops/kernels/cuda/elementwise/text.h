// The lines of a printed kernel, and how types, constants and operators are spelled in it.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/elementwise/program.h"

namespace dpiframe::cuda {

class SourceText {
 public:
  void Line(const std::string& text) { text_ += std::string(static_cast<size_t>(depth_) * 2, ' ') + text + "\n"; }
  void Open(const std::string& text) {
    Line(text.empty() ? "{" : text + " {");
    ++depth_;
  }
  void Close(const std::string& text = "}") {
    --depth_;
    Line(text);
  }
  // Closes a branch and opens the other one.
  void Else() {
    Close("} else {");
    ++depth_;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int depth_ = 0;
};

// A size or an index in a kernel's text, unsigned as its arithmetic is.
inline std::string Number(int64_t number) { return std::to_string(number) + "u"; }

// In memory, and in registers.
std::string StoredType(ScalarType type);
std::string ComputedType(ScalarType type);

// The number of a kConst value.
std::string Literal(const ElementwiseValue& value);

std::string RuleName(ReduceOp op);

// The function of an operator: its name, and its definition.
std::string OperatorName(ElementwiseOp op);
std::string OperatorDefinition(ElementwiseOp op);

}  // namespace dpiframe::cuda
