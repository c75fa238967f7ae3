// What the kernels of FusedGemm read: the same for the host and the device.
#pragma once

#include <cstdint>

namespace dpiframe::cuda {

constexpr int kMaxGemmSteps = 16;
constexpr int kMaxGemmRuns = 128;

// Values of K that are scaled and multiplied together, before the sums go on in float32.
constexpr int kChunk = 64;

// Bytes of a row of a chunk's part: 64 of float16.
constexpr int kPartRowBytes = 2 * kChunk;

// What lies between a value and its rest after rounding to float16: the rest is stored this many times larger.
constexpr float kRestScale = 2048.0f;

enum class StepCode : uint8_t { kAdd, kSub, kMul, kRelu, kSigmoid, kTanh, kLeakyRelu, kPrelu, kGelu, kSilu };

// How an operand is read for element [m, n]: [0], [n], [m] or [m, n].
enum class StepOperand : uint8_t { kNone, kScalar, kVector, kColumn, kMatrix };

struct GemmStep {
  const float* operand;
  float number;
  StepCode code;
  StepOperand kind;
};

// A column of the weight (a row of [N, K]) that float16 parts can't stand for: it holds infinity, NaN or values too far
// from its largest. And one in which some values are so much smaller than its largest that they could make up for the
// opposite in A.
constexpr uint8_t kWeightOutOfRange = 1;
constexpr uint8_t kWeightUneven = 2;

// The weight as the kernels take it.
struct PreparedWeight {
  const float* plain;    // [N, K]
  const uint8_t* parts;  // [chunks][parts][rows][kPartRowBytes], see prepare.cu
  const float* unscale;  // [rows]: what a column's sum is multiplied with at the end
  const uint8_t* flags;  // [rows]
  int rows;              // N rounded up to 8
};

// What is wrong with a row of A in a chunk, in the two lowest bits of its power of two.
constexpr uint32_t kRowOutOfRange = 1;
constexpr uint32_t kRowUneven = 2;
constexpr uint32_t kRowNotes = 3;

// A in parts, where a kernel has split it before.
struct SplitActivation {
  uint8_t* parts;     // [chunks][parts][rows][kPartRowBytes], as the weight's
  uint32_t* unscale;  // [chunks][rows]: what a chunk's products are multiplied with, as bits, and notes
  int rows;           // M rounded up to 8
};

struct GemmArguments {
  const float* a;
  float* y;
  PreparedWeight weight;
  SplitActivation split;
  int64_t m;
  int n;
  int k;
  int a_pitch;              // values from one row of A to the next
  int run_columns;          // N, or what a run of columns has of it
  bool a_by_4;              // A's rows can be read by 16 bytes
  bool y_by_4;              // all that has N columns can be
  bool weight_is_constant;  // no kernel before this one writes it
  int step_count;
  GemmStep steps[kMaxGemmSteps];
  int begins[kMaxGemmRuns];  // where the values that a run multiplies lie in a row of A, if there are several runs
};

}  // namespace dpiframe::cuda
