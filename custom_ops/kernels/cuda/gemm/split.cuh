// Float32 values as pairs of float16 values: the rounded value, and its rest times 2^11. Together they carry 22 bits.
//
// float16 has few exponents. So the values of a row in a chunk of K are first multiplied by the power of two that takes
// the largest to [2^14, 2^15); then both halves keep all their bits down to 2^-28 times the largest. Smaller values
// lose bits, down to 2^-51 times the largest, where they vanish: rows with such values are noted, and so are rows with
// infinity, NaN or a largest value near the ends of float32's range. A note means that the row's results may have to be
// computed again (exact.cuh).
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "records.h"

namespace dpiframe::cuda {

constexpr int kFullBitsExponents = 28;
constexpr uint32_t kLowestExponent = 30;    // of a row's largest value, with float32's bias
constexpr uint32_t kHighestExponent = 217;  // products and sums stay clear of both ends of float32's range

// The largest absolute value, or NaN where there is one.
__device__ __forceinline__ float Largest(float x, float y) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(fabsf(x)), "f"(fabsf(y)));
  return result;
}

// The smallest absolute value but 0, as bits, less 1: those of 0 become the highest number.
__device__ __forceinline__ uint32_t SmallestBits(uint32_t smallest, float x) {
  return min(smallest, (__float_as_uint(x) & 0x7fffffffu) - 1);
}

__device__ __forceinline__ uint32_t ExponentOf(float largest) { return __float_as_uint(largest) >> 23 & 0xffu; }

__device__ __forceinline__ bool InRange(float largest) {
  return largest == 0.0f || ExponentOf(largest) - kLowestExponent <= kHighestExponent - kLowestExponent;
}

// Whether all values but 0 are within so many exponents of the largest.
__device__ __forceinline__ bool IsEven(float largest, uint32_t smallest_bits, uint32_t exponents) {
  return (smallest_bits >> 23) + exponents >= ExponentOf(largest);
}

struct PowerOfTwo {
  float scale;
  float unscale;
};

// The power of two that takes a largest value to [2^14, 2^15), and its inverse.
__device__ __forceinline__ PowerOfTwo ScaleOf(float largest) {
  const uint32_t exponent = max(ExponentOf(largest), 15u);
  return {__uint_as_float((268u - exponent) << 23), __uint_as_float((exponent - 14u) << 23)};
}

struct Halves {
  uint32_t high;
  uint32_t low;
};

__device__ __forceinline__ uint32_t Bits(__half2 value) { return *reinterpret_cast<uint32_t*>(&value); }

__device__ __forceinline__ uint32_t Round2(float x, float y, float scale) {
  return Bits(__floats2half2_rn(x * scale, y * scale));
}

__device__ __forceinline__ Halves Split2(float x, float y, float scale) {
  x *= scale;
  y *= scale;
  const __half2 high = __floats2half2_rn(x, y);
  const float2 rounded = __half22float2(high);
  return {Bits(high), Bits(__floats2half2_rn((x - rounded.x) * kRestScale, (y - rounded.y) * kRestScale))};
}

// What has to be noted of a row of A in a chunk.
__device__ __forceinline__ uint32_t RowNotes(float largest, uint32_t smallest_bits) {
  return (InRange(largest) ? 0u : kRowOutOfRange) |
         (IsEven(largest, smallest_bits, kFullBitsExponents) ? 0u : kRowUneven);
}

// A warp's 16 rows as operands of tensor core instructions, in `kSteps` steps of 16 values of K. Of each step a thread
// has values 4t ... 4t + 3 (t: lane % 4) of rows g and g + 8 (g: lane / 4). The tensor core numbers a step's values
// otherwise; the weight is stored in its order (prepare.cu), so that a thread's values lie together here.
template <int kSteps, int kProducts>
struct SplitRows {
  uint32_t high[kSteps][4];
  uint32_t low[kProducts == 3 ? kSteps : 1][4];
  float unscale[2];

  // Splits one of the rows: `half` 0 for g, 1 for g + 8. Adds what has to be noted to `notes`; whether the row is even
  // is found out only where it matters.
  __device__ __forceinline__ void Split(int half, const float4 (&values)[kSteps], bool note_uneven, uint32_t* notes) {
    float first = 0.0f, second = 0.0f;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      first = Largest(Largest(first, values[step].x), values[step].y);
      second = Largest(Largest(second, values[step].z), values[step].w);
    }
    float largest = Largest(first, second);
    largest = Largest(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    largest = Largest(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
    uint32_t smallest = 0xffffffffu;
    if (note_uneven) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        smallest = SmallestBits(SmallestBits(smallest, values[step].x), values[step].y);
        smallest = SmallestBits(SmallestBits(smallest, values[step].z), values[step].w);
      }
    }
    *notes |= RowNotes(largest, smallest);
    const PowerOfTwo power = ScaleOf(largest);
    unscale[half] = power.unscale;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const float4& v = values[step];
      if constexpr (kProducts == 3) {
        const Halves first_pair = Split2(v.x, v.y, power.scale);
        const Halves second_pair = Split2(v.z, v.w, power.scale);
        high[step][half] = first_pair.high;
        high[step][half + 2] = second_pair.high;
        low[step][half] = first_pair.low;
        low[step][half + 2] = second_pair.low;
      } else {
        high[step][half] = Round2(v.x, v.y, power.scale);
        high[step][half + 2] = Round2(v.z, v.w, power.scale);
      }
    }
  }

  // Holds the registers until here: instructions that run beside the threads still read them, which the compiler
  // doesn't know.
  __device__ __forceinline__ void Keep() {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        asm volatile("" : "+r"(high[step][i]));
        if constexpr (kProducts == 3) asm volatile("" : "+r"(low[step][i]));
      }
    }
  }
};

}  // namespace dpiframe::cuda
