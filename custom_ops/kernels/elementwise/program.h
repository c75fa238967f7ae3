// The textual program of FusedElementwise (docs/ops/fused-elementwise.md), parsed and checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/program_error.h"
#include "types.h"

namespace dpiframe {

enum class ValueKind { kInput, kConst, kOperator, kCast, kView, kPick, kJoin, kReduce };
enum class ReduceOp { kSum, kMax, kMin, kProd };

// One value of a program: an input, or what a line makes of values before it.
struct ElementwiseValue {
  ValueKind kind;
  ScalarType type;
  std::vector<int64_t> sizes;  // behind the row axes
  int64_t elements = 1;        // their product
  uint32_t row_axes = 0;       // bit i: it depends on row axis i
  std::vector<int> operands;
  ElementwiseOp op{};            // kOperator
  ReduceOp reduce{};             // kReduce
  double number = 0;             // kConst of a float type, exactly
  int64_t integer = 0;           // kConst of an integer type or bool
  int64_t offset = 0;            // kView
  std::vector<int64_t> strides;  // kView: one a size
  std::vector<int64_t> indices;  // kPick: one an element
  int axis = 0;                  // kJoin
  std::vector<int> axes;         // kReduce: of the operand, ascending
};

struct ElementwiseProgram {
  int row_axes = 1;
  int inputs = 0;                        // values 0 ... inputs - 1
  std::vector<ElementwiseValue> values;  // inputs first, each line's operands before it
  std::vector<int> outputs;              // values
};

// Throws ProgramError.
ElementwiseProgram ParseElementwiseProgram(std::string_view text);

}  // namespace dpiframe
