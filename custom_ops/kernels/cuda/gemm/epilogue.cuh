// The steps after the product: a chain of operations on each element, in float32.
#pragma once

#include <cuda_runtime.h>

#include "records.h"

namespace dpiframe::cuda {

__device__ __forceinline__ float Sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

__device__ __forceinline__ float ApplyStep(StepCode code, float number, float y, float operand) {
  switch (code) {
    case StepCode::kAdd:
      return y + operand;
    case StepCode::kSub:
      return y - operand;
    case StepCode::kMul:
      return y * operand;
    case StepCode::kRelu:
      return y < 0.0f ? 0.0f : y;  // a NaN stays
    case StepCode::kSigmoid:
      return Sigmoid(y);
    case StepCode::kTanh:
      return tanhf(y);
    case StepCode::kLeakyRelu:
      return y < 0.0f ? number * y : y;
    case StepCode::kPrelu:
      return y < 0.0f ? operand * y : y;
    case StepCode::kGelu:
      return 0.5f * y * (1.0f + erff(y * 0.70710678118654752f));
    case StepCode::kSilu:
      return y * Sigmoid(y);
  }
  return y;
}

__device__ __forceinline__ int64_t OperandIndex(StepOperand kind, int64_t row, int column, int n) {
  switch (kind) {
    case StepOperand::kVector:
      return column;
    case StepOperand::kColumn:
      return row;
    case StepOperand::kMatrix:
      return row * n + column;
    default:
      return 0;
  }
}

// One element.
__device__ __forceinline__ float ApplySteps(const GemmArguments& arguments, int64_t row, int column, float y) {
  for (int i = 0; i < arguments.step_count; ++i) {
    const GemmStep& step = arguments.steps[i];
    float operand = 0.0f;
    if (step.kind != StepOperand::kNone) operand = step.operand[OperandIndex(step.kind, row, column, arguments.n)];
    y = ApplyStep(step.code, step.number, y, operand);
  }
  return y;
}

// Four values of a row of N values from a column on; those beyond N are 0.
__device__ __forceinline__ float4 Load4(const float* values, int column, int n, bool by_4) {
  if (by_4) return *reinterpret_cast<const float4*>(values + column);
  float4 result;
  result.x = values[column];
  result.y = column + 1 < n ? values[column + 1] : 0.0f;
  result.z = column + 2 < n ? values[column + 2] : 0.0f;
  result.w = column + 3 < n ? values[column + 3] : 0.0f;
  return result;
}

__device__ __forceinline__ void Store4(float* values, int column, int n, bool by_4, const float4& v) {
  if (by_4) {
    *reinterpret_cast<float4*>(values + column) = v;
    return;
  }
  values[column] = v.x;
  if (column + 1 < n) values[column + 1] = v.y;
  if (column + 2 < n) values[column + 2] = v.z;
  if (column + 3 < n) values[column + 3] = v.w;
}

// What a block keeps in shared memory of its tile's columns, because it takes long to come: [1 + vectors][pitch], the
// weight's powers of two and the first operands that are vectors. Behind the last column are any values.
struct KeptColumns {
  const float* memory = nullptr;
  int pitch = 0;
  int first = 0;  // column
  int vectors = 0;

  __device__ __forceinline__ float4 At(int vector, int column) const {
    return *reinterpret_cast<const float4*>(memory + vector * pitch + column - first);
  }
};

constexpr int kMostKeptVectors = 2;

// kCount groups of four elements, each in a row of its own: all loads of a step are under way together. Groups whose
// row is negative are left out.
template <int kCount>
__device__ __forceinline__ void ApplySteps4(const GemmArguments& arguments, const int64_t (&rows)[kCount],
                                            const int (&columns)[kCount], float4 (&y)[kCount],
                                            const KeptColumns& kept = {}) {
  const int n = arguments.n;
  int vectors = 0;
  for (int i = 0; i < arguments.step_count; ++i) {
    const GemmStep& step = arguments.steps[i];
    float4 operand[kCount];
    // What is asked for a step isn't asked for each of its elements: that takes longer than the step.
    const auto read = [&](auto&& value) {
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        operand[j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (rows[j] >= 0) operand[j] = value(j);
      }
    };
    const auto repeat = [](float value) { return make_float4(value, value, value, value); };
    if (step.kind == StepOperand::kVector && ++vectors <= kept.vectors) {
#pragma unroll
      for (int j = 0; j < kCount; ++j) operand[j] = kept.At(vectors, columns[j]);
    } else if (step.kind == StepOperand::kMatrix && arguments.y_by_4) {
      read([&](int j) { return *reinterpret_cast<const float4*>(step.operand + rows[j] * n + columns[j]); });
    } else if (step.kind == StepOperand::kMatrix) {
      read([&](int j) { return Load4(step.operand + rows[j] * n, columns[j], n, false); });
    } else if (step.kind == StepOperand::kVector) {
      read([&](int j) { return Load4(step.operand, columns[j], n, arguments.y_by_4); });
    } else if (step.kind != StepOperand::kNone) {
      read([&](int j) { return repeat(step.operand[step.kind == StepOperand::kColumn ? rows[j] : 0]); });
    } else {
#pragma unroll
      for (int j = 0; j < kCount; ++j) operand[j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    // The common steps first and without a switch for every element.
    const auto apply = [&](auto&& operation) {
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        y[j].x = operation(y[j].x, operand[j].x);
        y[j].y = operation(y[j].y, operand[j].y);
        y[j].z = operation(y[j].z, operand[j].z);
        y[j].w = operation(y[j].w, operand[j].w);
      }
    };
    if (step.code == StepCode::kAdd) {
      apply([](float a, float b) { return a + b; });
    } else if (step.code == StepCode::kRelu) {
      apply([](float a, float) { return a < 0.0f ? 0.0f : a; });
    } else if (step.code == StepCode::kMul) {
      apply([](float a, float b) { return a * b; });
    } else {
      // Long functions: not unrolled, to keep the code small.
#pragma unroll 1
      for (int part = 0; part < 4; ++part) {
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
          const float value = ApplyStep(step.code, step.number, y[j].x, operand[j].x);
          y[j] = make_float4(y[j].y, y[j].z, y[j].w, value);
          operand[j] = make_float4(operand[j].y, operand[j].z, operand[j].w, operand[j].x);
        }
      }
    }
  }
}

}  // namespace dpiframe::cuda
