// A program as the interpreter reads it: steps with their operands, in device memory. Host code makes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/elementwise/program.h"

namespace dpiframe::cuda {

constexpr int kMaxStepAxes = 8;

enum class StepKind : uint8_t { kConst, kOperator, kCast, kStrided, kPick, kJoin, kReduce, kOutput };

// Where a step reads a value, and how far it goes from element to element along the step's axes.
struct StepOperand {
  int32_t input;   // -1: in the block's memory
  uint32_t mask;   // row axes that an input has
  uint64_t place;  // bytes: from the start of the block's memory; of an input, those of a row
  int32_t strides[kMaxStepAxes];
};

struct InterpreterStep {
  StepKind kind;
  ScalarType type;
  ScalarType from;  // type of the operands (the last one's, which are of one type but for a condition)
  uint8_t rule;     // ElementwiseOp or ReduceOp
  int32_t rank;
  int32_t sizes[kMaxStepAxes];
  int32_t inner_rank;  // kReduce: of what is reduced; operand 1 says how it is read
  int32_t inner_sizes[kMaxStepAxes];
  uint32_t elements;
  uint32_t inner;
  int32_t offset;  // kStrided
  uint32_t first_operand;
  uint32_t operands;
  uint32_t table;   // kPick: indices; kJoin: the first element of each part along the axis and behind, and the end
  uint32_t behind;  // kJoin: elements behind the axis
  uint64_t result;  // bytes from the start of the block's memory; kOutput: the output
  uint64_t bits;    // kConst: the element in memory
};

struct InterpreterSteps {
  size_t inputs = 0;
  size_t outputs = 0;
  std::vector<InterpreterStep> steps;
  std::vector<StepOperand> operands;
  std::vector<int32_t> tables;
  uint64_t memory_bytes = 0;  // of a block
};

InterpreterSteps MakeSteps(const ElementwiseProgram& program);

struct InterpreterArguments {
  const InterpreterStep* steps;
  const StepOperand* operands;
  const int32_t* tables;
  uint32_t step_count;
  uint32_t input_count;
  int64_t rows;
  int64_t inner_rows;
  uint64_t memory_bytes;
  char* memory;
  const uint64_t* addresses;  // of the inputs, then the outputs, in device memory
};

}  // namespace dpiframe::cuda
