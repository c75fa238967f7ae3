// Sums, means and maxima of rows' elements, in float32 and without fused multiply-add.
#pragma once

#include <cuda_fp16.h>

#include "device_loads.cuh"
#include "records.h"

namespace dpiframe::cuda {

template <typename Element>
struct Elements;

template <>
struct Elements<float> {
  template <int kBytes>
  static __device__ __forceinline__ void Unpack(const Vector<kBytes>& vector, float* values) {
    const uint32_t* words = reinterpret_cast<const uint32_t*>(&vector);
#pragma unroll
    for (int k = 0; k < kBytes / 4; ++k) values[k] = __uint_as_float(words[k]);
  }
  template <int kBytes>
  static __device__ __forceinline__ Vector<kBytes> Pack(const float* values) {
    Vector<kBytes> vector;
    uint32_t* words = reinterpret_cast<uint32_t*>(&vector);
#pragma unroll
    for (int k = 0; k < kBytes / 4; ++k) words[k] = __float_as_uint(values[k]);
    return vector;
  }
};

template <>
struct Elements<__half> {
  template <int kBytes>
  static __device__ __forceinline__ void Unpack(const Vector<kBytes>& vector, float* values) {
    const uint16_t* halves = reinterpret_cast<const uint16_t*>(&vector);
#pragma unroll
    for (int k = 0; k < kBytes / 2; ++k) values[k] = __half2float(__ushort_as_half(halves[k]));
  }
  template <int kBytes>
  static __device__ __forceinline__ Vector<kBytes> Pack(const float* values) {
    Vector<kBytes> vector;
    uint16_t* halves = reinterpret_cast<uint16_t*>(&vector);
#pragma unroll
    for (int k = 0; k < kBytes / 2; ++k) halves[k] = __half_as_ushort(__float2half_rn(values[k]));
    return vector;
  }
};

// What a pool has joined so far of one chunk.
template <typename Element, int kBytes>
class Totals {
 public:
  static constexpr int kCount = kBytes / static_cast<int>(sizeof(Element));

  __device__ __forceinline__ void Start(const Pooling& pooling) {
    weight_ = 0.0f;
#pragma unroll
    for (int k = 0; k < kCount; ++k) values_[k] = pooling.rule == PoolRule::kMax ? -INFINITY : 0.0f;
  }

  __device__ __forceinline__ void Join(const Pooling& pooling, const Vector<kBytes>& row, float weight) {
    float values[kCount];
    Elements<Element>::template Unpack<kBytes>(row, values);
    if (pooling.rule == PoolRule::kMax) {
      const float penalty = __fmul_rn(__fsub_rn(1.0f, weight), pooling.x);
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        const float value = pooling.weighted ? __fsub_rn(values[k], penalty) : values[k];
        values_[k] = value > values_[k] || value != value ? value : values_[k];  // a NaN stays
      }
    } else {
#pragma unroll
      for (int k = 0; k < kCount; ++k) values_[k] = __fadd_rn(values_[k], __fmul_rn(weight, values[k]));
      weight_ = __fadd_rn(weight_, weight);
    }
  }

  // A row of weight 1 joins a sum or mean; SetWeights gives all their weights later.
  __device__ __forceinline__ void Add(const Vector<kBytes>& row) {
    float values[kCount];
    Elements<Element>::template Unpack<kBytes>(row, values);
#pragma unroll
    for (int k = 0; k < kCount; ++k) values_[k] = __fadd_rn(values_[k], values[k]);
  }

  // So many ones; a sum of them stays at 2^24 in float32.
  __device__ __forceinline__ void SetWeights(uint32_t ones) {
    weight_ = static_cast<float>(ones < (1u << 24) ? ones : 1u << 24);
  }

  // What a bag gives: its sum divided by a number, or one value for all elements.
  __device__ __forceinline__ void DivideBy(float divisor) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) values_[k] = __fdiv_rn(values_[k], divisor);
  }

  __device__ __forceinline__ void Set(float value) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) values_[k] = value;
  }

  __device__ __forceinline__ Vector<kBytes> Result(const Pooling& pooling) {
    if (pooling.rule == PoolRule::kMean) {
      const float divisor = __fadd_rn(weight_, pooling.x);
#pragma unroll
      for (int k = 0; k < kCount; ++k) values_[k] = __fdiv_rn(values_[k], divisor);
    }
    return Elements<Element>::template Pack<kBytes>(values_);
  }

 private:
  float values_[kCount];
  float weight_;
};

}  // namespace dpiframe::cuda
