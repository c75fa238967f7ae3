// The functions that elementwise_operators.py names, over scalars; exp and its like over floats are in
// float_math.h. What is here over floats is free of branches and calls where it can be, so that the
// compiler makes vector loops of it. Nothing here depends on the instruction set, and so neither do results. Included
// once for each instruction set: internal linkage.
#pragma once

#include <cstdint>
#include <type_traits>

namespace dpiframe {
namespace {

inline int32_t BitsOf(float x) {
  int32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline float FloatOf(int32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

inline int64_t BitsOf(double x) {
  int64_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline double DoubleOf(int64_t bits) {
  double x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

template <typename T>
constexpr bool kIsFloating = std::is_floating_point<T>::value;

template <typename T>
inline T Min(T x, T y) {
  if constexpr (kIsFloating<T>) return x != x ? x : (x < y ? x : y);
  return x < y ? x : y;
}

template <typename T>
inline T Max(T x, T y) {
  if constexpr (kIsFloating<T>) return x != x ? x : (x > y ? x : y);
  return x > y ? x : y;
}

template <typename T>
inline T Abs(T x) {
  if constexpr (std::is_same<T, float>::value) return __builtin_fabsf(x);
  if constexpr (std::is_same<T, double>::value) return __builtin_fabs(x);
  return x < 0 ? -x : x;
}

template <typename T>
inline T Sign(T x) {
  const T sign = static_cast<T>(static_cast<T>(x > T(0)) - static_cast<T>(x < T(0)));
  return x != x ? x : sign;
}

template <typename T>
inline T Div(T x, T y) {
  if constexpr (kIsFloating<T>) return x / y;
  return y == 0 ? T(0) : y == -1 ? -x : x / y;
}

// The remainder has the divisor's sign.
template <typename T>
inline T Mod(T x, T y) {
  if (y == 0 || y == -1) return 0;
  const T rest = x % y;
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

inline float Fmod(float x, float y) { return __builtin_fmodf(x, y); }
inline double Fmod(double x, double y) { return __builtin_fmod(x, y); }
inline float Floor(float x) { return __builtin_floorf(x); }
inline double Floor(double x) { return __builtin_floor(x); }
inline float Ceil(float x) { return __builtin_ceilf(x); }
inline double Ceil(double x) { return __builtin_ceil(x); }
inline float Round(float x) { return __builtin_rintf(x); }
inline double Round(double x) { return __builtin_rint(x); }
inline float Sqrt(float x) { return __builtin_sqrtf(x); }
inline double Sqrt(double x) { return __builtin_sqrt(x); }
inline float Sin(float x) { return __builtin_sinf(x); }
inline double Sin(double x) { return __builtin_sin(x); }
inline float Cos(float x) { return __builtin_cosf(x); }
inline double Cos(double x) { return __builtin_cos(x); }
inline float Atan(float x) { return __builtin_atanf(x); }
inline double Atan(double x) { return __builtin_atan(x); }

inline double Exp(double x) { return __builtin_exp(x); }

// ln(x) = e ln(2) + ln(1 + f) with sqrt(1/2) <= 1 + f < sqrt(2).
inline float Log(float x) {
  const bool subnormal = x < 1.17549435e-38f;
  const float scaled = subnormal ? x * 8388608.0f : x;
  const int32_t from_root = BitsOf(scaled) - 0x3f3504f3;  // sqrt(1/2)
  const float e = static_cast<float>((from_root >> 23) - (subnormal ? 23 : 0));
  const float f = FloatOf((from_root & 0x7fffff) + 0x3f3504f3) - 1.0f;
  float p = 0.0674660951f;
  p = p * f + -0.116796561f;
  p = p * f + 0.118903205f;
  p = p * f + -0.124051347f;
  p = p * f + 0.142192245f;
  p = p * f + -0.166680068f;
  p = p * f + 0.200021341f;
  p = p * f + -0.250000089f;
  p = p * f + 0.333333135f;
  const float square = f * f;
  float result = (f * square * p + e * -2.12194440e-4f) - 0.5f * square;
  result = (result + f) + e * 0.693359375f;
  result = x > 3.40282347e38f ? x : result;
  result = ((x < 0.0f) | (x != x)) ? __builtin_nanf("") : result;
  return x == 0.0f ? -__builtin_inff() : result;
}

inline double Log(double x) { return __builtin_log(x); }

inline double Tanh(double x) { return __builtin_tanh(x); }

inline double Erf(double x) { return __builtin_erf(x); }

// By e^-|x|, which neither overflows nor loses the small results.
inline double Sigmoid(double x) {
  const double e = Exp(-__builtin_fabs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

// 2^(y log2|x|) in double, then the sign and the exceptions of C's pow.
inline float Pow(float x, float y) {
  const double ax = static_cast<double>(__builtin_fabsf(x));
  const double dy = static_cast<double>(y);
  // log2: a float, subnormal or not, is a normal double
  const int64_t from_root = BitsOf(ax) - 0x3fe6a09e667f3bcd;  // sqrt(1/2)
  const double e = static_cast<double>(static_cast<int32_t>(from_root >> 52));
  const double m = DoubleOf((from_root & 0xfffffffffffff) + 0x3fe6a09e667f3bcd);
  const double s = (m - 1.0) / (m + 1.0);
  const double t = s * s;
  double p = 1.0 / 15;
  p = p * t + 1.0 / 13;
  p = p * t + 1.0 / 11;
  p = p * t + 1.0 / 9;
  p = p * t + 1.0 / 7;
  p = p * t + 1.0 / 5;
  p = p * t + 1.0 / 3;
  double log2 = e + (p * t * s + s) * 2.8853900817779268;  // 2 / ln(2)
  log2 = ax == 0.0 ? -__builtin_inf() : ax > 3.5e38 ? __builtin_inf() : log2;
  double power = dy * log2;
  power = power > 200.0 ? 200.0 : power;
  power = power < -200.0 ? -200.0 : power;
  constexpr double kToInteger = 6755399441055744.0;  // 1.5 * 2^52
  const double shifted = power + kToInteger;
  const double r = (power - (shifted - kToInteger)) * 0.69314718055994531;
  double q = 1.0 / 3628800;
  q = q * r + 1.0 / 362880;
  q = q * r + 1.0 / 40320;
  q = q * r + 1.0 / 5040;
  q = q * r + 1.0 / 720;
  q = q * r + 1.0 / 120;
  q = q * r + 1.0 / 24;
  q = q * r + 1.0 / 6;
  q = q * r + 0.5;
  q = (q * r * r + r) + 1.0;
  const int64_t exponent = BitsOf(shifted) - BitsOf(kToInteger);
  float result = static_cast<float>(q * DoubleOf((exponent + 1023) << 52));

  const float ay = __builtin_fabsf(y);
  const float floor = __builtin_floorf(ay);
  const bool whole = floor == ay;  // infinity too
  const float half = ay * 0.5f;
  // & and |, since && and || are jumps
  const bool odd = whole & (__builtin_floorf(half) != half);
  const bool negative = BitsOf(x) < 0;
  result = (negative & odd) ? -result : result;
  result = ((x < 0.0f) & !whole & (ax < 3.5e38)) ? __builtin_nanf("") : result;
  result = ((x != x) | (y != y)) ? __builtin_nanf("") : result;
  result = ((x == -1.0f) & (ay > 3.40282347e38f)) ? 1.0f : result;
  return ((y == 0.0f) | (x == 1.0f)) ? 1.0f : result;
}

inline double Pow(double x, double y) { return __builtin_pow(x, y); }

}  // namespace
}  // namespace dpiframe
