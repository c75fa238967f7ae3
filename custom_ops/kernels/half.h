// IEEE half precision on plain integers: with F16C where the file is compiled for it, else in software with the same
// results.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace dpiframe {
namespace {

#ifdef __F16C__

inline float HalfToFloat(uint16_t half) { return _cvtsh_ss(half); }
inline uint16_t FloatToHalf(float value) { return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT); }

#else

inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  uint32_t bits;
  if (magnitude >= 0x7c00u) {  // infinity, NaN (made quiet, as the hardware does)
    bits = 0x7f800000u | ((magnitude & 0x3ffu) << 13) | (magnitude > 0x7c00u ? 0x400000u : 0u);
  } else if (magnitude >= 0x400u) {
    bits = (magnitude << 13) + 0x38000000u;
  } else {  // zero and subnormal: magnitude * 2^-24 is exact in float32
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    std::memcpy(&bits, &value, sizeof bits);
  }
  bits |= sign;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Rounds to nearest, ties to even.
inline uint16_t FloatToHalf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((bits >> 13) & 0x3ffu));
  if (bits >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above round to infinity
  if (bits <
      0x38800000u) {  // below 2^-14: subnormal; adding 0.5 aligns the last bit of the half with that of the float
    float shifted;
    std::memcpy(&shifted, &bits, sizeof shifted);
    shifted += 0.5f;
    std::memcpy(&bits, &shifted, sizeof bits);
    return static_cast<uint16_t>(sign | (bits - 0x3f000000u));
  }
  bits += 0xc8000000u + 0xfffu + ((bits >> 13) & 1u);  // the exponent's bias from 127 to 15, and the rounding
  return static_cast<uint16_t>(sign | (bits >> 13));
}

#endif

template <int kCount>
inline void HalvesToFloats(const uint16_t* halves, float* floats) {
  int i = 0;
#ifdef __F16C__
  for (; i + 8 <= kCount; i += 8) {
    _mm256_storeu_ps(floats + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves + i))));
  }
#endif
  for (; i < kCount; ++i) floats[i] = HalfToFloat(halves[i]);
}

}  // namespace
}  // namespace dpiframe
