// Leaves of casts and of halves. Included once for each instruction set: internal linkage.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/half.h"
#include "leaf.h"
#include "operations.h"

namespace dpiframe {
namespace {

// Rounds once: to the float next to x towards 0 with its last bit set if anything is missing, which decides as x would.
inline float RoundToHalf(double x) {
  float nearest = static_cast<float>(x);
  const double back = static_cast<double>(nearest);
  if (back != x && x == x) {
    int32_t bits = BitsOf(nearest);
    if (Abs(back) > Abs(x)) --bits;
    nearest = FloatOf(bits | 1);
  }
  return HalfToFloat(FloatToHalf(nearest));
}

inline float RoundToHalf(float x) { return HalfToFloat(FloatToHalf(x)); }

template <typename To, typename From>
inline To CastElement(From x) {
  if constexpr (std::is_same<To, uint8_t>::value) {
    return x != From(0);
  } else if constexpr (kIsFloating<From> && !kIsFloating<To>) {
    constexpr To kSmallest = sizeof(To) == 4 ? static_cast<To>(INT32_MIN) : static_cast<To>(INT64_MIN);
    constexpr From kLow = static_cast<From>(kSmallest);
    const bool inside = (x >= kLow) & (x < -kLow);
    const To truncated = static_cast<To>(inside ? x : From(0));
    return inside ? truncated : kSmallest;
  } else {
    return static_cast<To>(x);
  }
}

template <typename From, typename To, bool kHalf>
void CastLeaf(const LeafArgs& args) {
  for (int64_t i = 0; i < args.sizes[0]; ++i) {
    Loose<To>* const out = reinterpret_cast<Loose<To>*>(args.data[0] + i * args.strides[0][0]);
    const Loose<From>* const x = reinterpret_cast<const Loose<From>*>(args.data[1] + i * args.strides[1][0]);
    for (int64_t j = 0; j < args.sizes[1]; ++j) {
      if constexpr (!kHalf) {
        out[j] = CastElement<To>(static_cast<From>(x[j]));
      } else if constexpr (std::is_same<From, double>::value) {
        out[j] = RoundToHalf(static_cast<double>(x[j]));
      } else {
        out[j] = RoundToHalf(static_cast<float>(x[j]));
      }
    }
  }
}

template <typename From>
Leaf CastFrom(ScalarType to) {
  switch (to) {
    case ScalarType::kFloat32:
      return CastLeaf<From, float, false>;
    case ScalarType::kFloat16:
      return CastLeaf<From, float, true>;
    case ScalarType::kFloat64:
      return CastLeaf<From, double, false>;
    case ScalarType::kInt32:
      return CastLeaf<From, int32_t, false>;
    case ScalarType::kInt64:
      return CastLeaf<From, int64_t, false>;
    case ScalarType::kBool:
      return CastLeaf<From, uint8_t, false>;
  }
  return nullptr;
}

// Halves and floats of a row, eight at a time where the machine converts them.
enum class HalfStep { kLoad, kStore, kRound };

template <HalfStep kStep>
void HalvesLeaf(const LeafArgs& args) {
  for (int64_t i = 0; i < args.sizes[0]; ++i) {
    char* const out = args.data[0] + i * args.strides[0][0];
    const char* const in = args.data[1] + i * args.strides[1][0];
    int64_t j = 0;
#ifdef __F16C__
    for (; j + 8 <= args.sizes[1]; j += 8) {
      __m128i halves;
      if constexpr (kStep == HalfStep::kLoad) {
        halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + j * 2));
      } else {
        halves =
            _mm256_cvtps_ph(_mm256_loadu_ps(reinterpret_cast<const float*>(in + j * 4)), _MM_FROUND_TO_NEAREST_INT);
      }
      if constexpr (kStep == HalfStep::kStore) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + j * 2), halves);
      } else {
        _mm256_storeu_ps(reinterpret_cast<float*>(out + j * 4), _mm256_cvtph_ps(halves));
      }
    }
#endif
    for (; j < args.sizes[1]; ++j) {
      uint16_t half;
      if constexpr (kStep == HalfStep::kLoad) {
        half = reinterpret_cast<const Loose<uint16_t>*>(in)[j];
      } else {
        half = FloatToHalf(reinterpret_cast<const Loose<float>*>(in)[j]);
      }
      if constexpr (kStep == HalfStep::kStore) {
        reinterpret_cast<Loose<uint16_t>*>(out)[j] = half;
      } else {
        reinterpret_cast<Loose<float>*>(out)[j] = HalfToFloat(half);
      }
    }
  }
}

inline Leaf FindCast(ScalarType from, ScalarType to) {
  switch (from) {
    case ScalarType::kFloat32:
      return to == ScalarType::kFloat16 ? HalvesLeaf<HalfStep::kRound> : CastFrom<float>(to);
    case ScalarType::kFloat16:  // has been rounded already
      return to == ScalarType::kFloat16 ? CastFrom<float>(ScalarType::kFloat32) : CastFrom<float>(to);
    case ScalarType::kFloat64:
      return CastFrom<double>(to);
    case ScalarType::kInt32:
      return CastFrom<int32_t>(to);
    case ScalarType::kInt64:
      return CastFrom<int64_t>(to);
    case ScalarType::kBool:
      return CastFrom<uint8_t>(to);
  }
  return nullptr;
}

}  // namespace
}  // namespace dpiframe
