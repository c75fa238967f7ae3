#include "gemm_cpu.h"

#include <algorithm>
#include <cmath>

namespace dpiframe {
namespace {

constexpr int64_t kTaskRows = 32;
constexpr int64_t kTaskColumns = 64;
constexpr int64_t kBlock = 256;  // of K: its part of the weight stays in the cache

float Apply(const GemmProgramStep& step, float y, float operand) {
  switch (step.operation) {
    case GemmOperation::kAdd:
      return y + operand;
    case GemmOperation::kSub:
      return y - operand;
    case GemmOperation::kMul:
      return y * operand;
    case GemmOperation::kRelu:
      return y < 0.0f ? 0.0f : y;  // a NaN stays
    case GemmOperation::kSigmoid:
      return 1.0f / (1.0f + std::exp(-y));
    case GemmOperation::kTanh:
      return std::tanh(y);
    case GemmOperation::kLeakyRelu:
      return y < 0.0f ? step.number * y : y;
    case GemmOperation::kPrelu:
      return y < 0.0f ? operand * y : y;
    case GemmOperation::kGelu:
      return 0.5f * y * (1.0f + std::erf(y * 0.70710678118654752f));
    case GemmOperation::kSilu:
      return y * (1.0f / (1.0f + std::exp(-y)));
  }
  return y;
}

int64_t OperandIndex(GemmOperand operand, int64_t row, int64_t column, int64_t n) {
  switch (operand) {
    case GemmOperand::kVector:
      return column;
    case GemmOperand::kColumn:
      return row;
    case GemmOperand::kMatrix:
      return row * n + column;
    default:
      return 0;
  }
}

// One row's sums with some columns, added up over K in blocks.
void AddProducts(const GemmProgram& program, const float* a, const float* weight, int64_t column, int64_t columns,
                 int64_t begin, int64_t end, float* sums) {
  if (program.transposed) {
    for (int64_t k = begin; k < end; ++k) {
      const float* row = weight + k * program.n + column;
      for (int64_t j = 0; j < columns; ++j) sums[j] += a[k] * row[j];
    }
    return;
  }
  for (int64_t j = 0; j < columns; ++j) {
    const float* row = weight + (column + j) * program.k;
    float lanes[8] = {};
    int64_t k = begin;
    for (; k + 8 <= end; k += 8) {
      for (int64_t i = 0; i < 8; ++i) lanes[i] += a[k + i] * row[k + i];
    }
    float sum = ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
    for (; k < end; ++k) sum += a[k] * row[k];
    sums[j] += sum;
  }
}

// Of a run of columns.
int64_t TasksAcross(const GemmProgram& program) { return (program.run_columns() + kTaskColumns - 1) / kTaskColumns; }

}  // namespace

int64_t GemmTaskCount(const GemmProgram& program, int64_t m) {
  return (m + kTaskRows - 1) / kTaskRows * TasksAcross(program) * program.runs();
}

void RunGemmTask(const GemmProgram& program, const GemmCall& call, int64_t task) {
  const int64_t across = TasksAcross(program);
  const int64_t first_row = task / (across * program.runs()) * kTaskRows, run = task / across % program.runs();
  const int64_t in_run = task % across * kTaskColumns, column = run * program.run_columns() + in_run;
  const int64_t end_row = std::min(first_row + kTaskRows, call.m);
  const int64_t columns = std::min(kTaskColumns, program.run_columns() - in_run);
  const float* const a = call.a + program.begins[static_cast<size_t>(run)];
  float sums[kTaskRows][kTaskColumns] = {};
  for (int64_t begin = 0; begin < program.k; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, program.k);
    for (int64_t row = first_row; row < end_row; ++row) {
      AddProducts(program, a + row * program.row, call.weight, column, columns, begin, end, sums[row - first_row]);
    }
  }
  for (int64_t row = first_row; row < end_row; ++row) {
    float* const values = sums[row - first_row];
    for (const GemmProgramStep& step : program.steps) {
      for (int64_t j = 0; j < columns; ++j) {
        float operand = 0.0f;
        if (step.operand != GemmOperand::kNone) {
          operand = call.operands[step.input - GemmProgram::kFirstOperand]
                                 [OperandIndex(step.operand, row, column + j, program.n)];
        }
        values[j] = Apply(step, values[j], operand);
      }
    }
    std::copy(values, values + columns, call.y + row * program.n + column);
  }
}

}  // namespace dpiframe
