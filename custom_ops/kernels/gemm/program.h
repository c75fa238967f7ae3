// The textual program of FusedGemm (docs/ops/fused-gemm.md), parsed and checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/lookup/program.h"

namespace dpiframe {

enum class GemmPrecision { kFp32, kTf32, kFp16 };

enum class GemmOperation { kAdd, kSub, kMul, kRelu, kSigmoid, kTanh, kLeakyRelu, kPrelu, kGelu, kSilu };

// What an operand has a value for: all elements, a column, a row, an element.
enum class GemmOperand { kNone, kScalar, kVector, kColumn, kMatrix };

struct GemmProgramStep {
  GemmOperation operation;
  GemmOperand operand = GemmOperand::kNone;
  int input = -1;    // of the node, 2 or more
  float number = 0;  // kLeakyRelu
};

struct GemmProgram {
  static constexpr int kFirstOperand = 2;  // after A and the weight

  GemmPrecision precision;
  bool transposed;  // the weight is [K, N] instead of [N, K]
  int64_t k;
  int64_t n;
  int left_axes = 1;  // of A, the last ones, that make up a row
  int64_t row;        // values of a row of A: K, or more where a product takes a part of it
  // N is divided into as many equal runs of columns, each of which multiplies the K values of a row from here on.
  std::vector<int64_t> begins;
  std::vector<GemmProgramStep> steps;
  std::vector<GemmOperand> operands;  // of inputs 2, 3, ...

  int64_t runs() const { return static_cast<int64_t>(begins.size()); }
  int64_t run_columns() const { return n / runs(); }
  size_t input_count() const { return kFirstOperand + operands.size(); }
};

// Throws ProgramError.
GemmProgram ParseGemmProgram(std::string_view text);

// Elements that an operand must have for M rows.
int64_t GemmOperandElements(GemmOperand operand, int64_t m, int64_t n);

// "a vector of 256 values" and the like, for messages.
const char* GemmOperandName(GemmOperand operand);

}  // namespace dpiframe
