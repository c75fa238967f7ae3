// Types and functions that printed kernels and the interpreter share. NVRTC compiles this text too, so it includes
// nothing. A value is computed in the type Compute<S> of its stored type S: float for halves, else S itself.
#pragma once

namespace dpiframe::cuda {

using Bool = unsigned char;

struct Half {
  unsigned short bits;
};

// Integers that wrap.
template <typename S, typename U>
struct Wrapping {
  S value;

  Wrapping() = default;
  __device__ constexpr explicit Wrapping(S number) : value(number) {}
  template <typename N>
  __device__ constexpr explicit Wrapping(N number) : value(static_cast<S>(number)) {}

  friend __device__ Wrapping operator+(Wrapping x, Wrapping y) { return Wrap(Bits(x) + Bits(y)); }
  friend __device__ Wrapping operator-(Wrapping x, Wrapping y) { return Wrap(Bits(x) - Bits(y)); }
  friend __device__ Wrapping operator*(Wrapping x, Wrapping y) { return Wrap(Bits(x) * Bits(y)); }
  friend __device__ Wrapping operator-(Wrapping x) { return Wrap(U(0) - Bits(x)); }
  friend __device__ bool operator==(Wrapping x, Wrapping y) { return x.value == y.value; }
  friend __device__ bool operator!=(Wrapping x, Wrapping y) { return x.value != y.value; }
  friend __device__ bool operator<(Wrapping x, Wrapping y) { return x.value < y.value; }
  friend __device__ bool operator<=(Wrapping x, Wrapping y) { return x.value <= y.value; }
  friend __device__ bool operator>(Wrapping x, Wrapping y) { return x.value > y.value; }
  friend __device__ bool operator>=(Wrapping x, Wrapping y) { return x.value >= y.value; }

  __device__ static U Bits(Wrapping x) { return static_cast<U>(x.value); }
  __device__ static Wrapping Wrap(U bits) { return Wrapping(static_cast<S>(bits)); }
};
using Int32 = Wrapping<int, unsigned>;
using Int64 = Wrapping<long long, unsigned long long>;

template <typename S>
struct ComputeOf {
  using Type = S;
};
template <>
struct ComputeOf<Half> {
  using Type = float;
};
template <typename S>
using Compute = typename ComputeOf<S>::Type;

__device__ __forceinline__ float HalfToFloat(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
__device__ __forceinline__ unsigned short FloatToHalf(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
__device__ __forceinline__ unsigned short DoubleToHalf(double value) {
  unsigned short bits;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(value));
  return bits;
}

// From and to the stored type.
template <typename S>
__device__ __forceinline__ S Widen(S stored) {
  return stored;
}
__device__ __forceinline__ float Widen(Half stored) { return HalfToFloat(stored.bits); }
template <typename S>
__device__ __forceinline__ S Narrow(Compute<S> value) {
  return value;
}
template <>
__device__ __forceinline__ Half Narrow<Half>(float value) {
  return Half{FloatToHalf(value)};
}

// The value as its stored type holds it.
template <typename S>
__device__ __forceinline__ Compute<S> Rounded(Compute<S> value) {
  return Widen(Narrow<S>(value));
}

// Casts from one stored type to another, on computed values.
template <typename I, typename F>
__device__ __forceinline__ I Truncated(F value) {
  constexpr F kEnd = sizeof(I) == 4 ? F(0x1p31) : F(0x1p63);
  constexpr I kSmallest = I(1) << (sizeof(I) * 8 - 1);
  return value > -kEnd - F(1) && value < kEnd ? static_cast<I>(value) : kSmallest;
}
template <typename To, typename From>
struct Caster {
  __device__ static Compute<To> Cast(Compute<From> value) { return static_cast<Compute<To>>(value); }
};
template <typename From>
struct Caster<Bool, From> {
  __device__ static Bool Cast(Compute<From> value) { return value != Compute<From>(0); }
};
template <>
struct Caster<Half, double> {
  __device__ static float Cast(double value) { return HalfToFloat(DoubleToHalf(value)); }
};
template <typename To, typename S, typename U>
struct Caster<To, Wrapping<S, U>> {
  __device__ static Compute<To> Cast(Wrapping<S, U> value) { return static_cast<Compute<To>>(value.value); }
};
template <typename S, typename U>
struct Caster<Bool, Wrapping<S, U>> {
  __device__ static Bool Cast(Wrapping<S, U> value) { return value.value != 0; }
};
template <typename S, typename U, typename S2, typename U2>
struct Caster<Wrapping<S, U>, Wrapping<S2, U2>> {
  __device__ static Wrapping<S, U> Cast(Wrapping<S2, U2> value) { return Wrapping<S, U>(static_cast<S>(value.value)); }
};
template <typename S, typename U>
struct Caster<Wrapping<S, U>, Bool> {
  __device__ static Wrapping<S, U> Cast(Bool value) { return Wrapping<S, U>(static_cast<S>(value)); }
};
template <typename S, typename U>
struct Caster<Wrapping<S, U>, float> {
  __device__ static Wrapping<S, U> Cast(float value) { return Wrapping<S, U>(Truncated<S>(value)); }
};
template <typename S, typename U>
struct Caster<Wrapping<S, U>, Half> {
  __device__ static Wrapping<S, U> Cast(float value) { return Wrapping<S, U>(Truncated<S>(value)); }
};
template <typename S, typename U>
struct Caster<Wrapping<S, U>, double> {
  __device__ static Wrapping<S, U> Cast(double value) { return Wrapping<S, U>(Truncated<S>(value)); }
};

// What the table of operators calls by name. Integers divided by 0 give 0, by -1 their negative.
__device__ __forceinline__ float Div(float x, float y) { return x / y; }
__device__ __forceinline__ double Div(double x, double y) { return x / y; }
template <typename S, typename U>
__device__ __forceinline__ Wrapping<S, U> Div(Wrapping<S, U> x, Wrapping<S, U> y) {
  if (y.value == 0) return Wrapping<S, U>(S(0));
  return y.value == -1 ? -x : Wrapping<S, U>(x.value / y.value);
}
template <typename S, typename U>
__device__ __forceinline__ Wrapping<S, U> Mod(Wrapping<S, U> x, Wrapping<S, U> y) {
  if (y.value == 0 || y.value == -1) return Wrapping<S, U>(S(0));
  const S rest = x.value % y.value;
  return Wrapping<S, U>(rest != 0 && (rest ^ y.value) < 0 ? rest + y.value : rest);
}

template <typename T>
__device__ __forceinline__ T Min(T x, T y) {
  return x < y || x != x ? x : y;
}
template <typename T>
__device__ __forceinline__ T Max(T x, T y) {
  return x > y || x != x ? x : y;
}
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ float Min(float x, float y) {
  float smaller;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(smaller) : "f"(x), "f"(y));
  return smaller;
}
__device__ __forceinline__ float Max(float x, float y) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(x), "f"(y));
  return larger;
}
#endif
template <typename T>
__device__ __forceinline__ T Sign(T x) {
  return x > T(0) ? T(1) : x < T(0) ? T(-1) : x != x ? x : T(0);
}
template <typename S, typename U>
__device__ __forceinline__ Wrapping<S, U> Abs(Wrapping<S, U> x) {
  return x.value < 0 ? -x : x;
}
__device__ __forceinline__ float Abs(float x) { return fabsf(x); }
__device__ __forceinline__ double Abs(double x) { return fabs(x); }

#define DPIFRAME_MATH(Name, single, twice)                             \
  __device__ __forceinline__ float Name(float x) { return single(x); } \
  __device__ __forceinline__ double Name(double x) { return twice(x); }
DPIFRAME_MATH(Floor, floorf, floor)
DPIFRAME_MATH(Ceil, ceilf, ceil)
DPIFRAME_MATH(Round, rintf, rint)
DPIFRAME_MATH(Sqrt, sqrtf, sqrt)
DPIFRAME_MATH(Exp, expf, exp)
DPIFRAME_MATH(Log, logf, log)
DPIFRAME_MATH(Sin, sinf, sin)
DPIFRAME_MATH(Cos, cosf, cos)
DPIFRAME_MATH(Atan, atanf, atan)
DPIFRAME_MATH(Tanh, tanhf, tanh)
DPIFRAME_MATH(Erf, erff, erf)
#undef DPIFRAME_MATH

__device__ __forceinline__ float Fmod(float x, float y) { return fmodf(x, y); }
__device__ __forceinline__ double Fmod(double x, double y) { return fmod(x, y); }
__device__ __forceinline__ float Pow(float x, float y) { return powf(x, y); }
__device__ __forceinline__ double Pow(double x, double y) { return pow(x, y); }
// Of a number from 2^-64 to 2^64, to the last place or nearly so. Without a branch for other numbers, several of these
// overlap.
__device__ __forceinline__ float PlainReciprocal(float x) {
  float guess;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(guess) : "f"(x));
  return fmaf(guess, fmaf(-x, guess, 1.0f), guess);
}
// The quotient of such numbers, correctly rounded, given the divisor's reciprocal.
__device__ __forceinline__ float PlainQuotient(float x, float y, float reciprocal) {
  const float guess = x * reciprocal;
  return fmaf(reciprocal, fmaf(-y, guess, x), guess);
}

// Results below the smallest normal number become zero: exponents that are too large for an exponential are replaced by
// one that is large enough for that.
__device__ __forceinline__ float Sigmoid(float x) {
  const float exponent = Max(Min(-x, 88.7f), -88.7f);
  const float power = exponent * 1.44269504f;  // of two
  // What rounding the power left out is so small that its exponential is 1 more.
  const float left = fmaf(power, 1.90465421e-9f, fmaf(power, -0.693147182f, exponent));
  float e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(power));
  return PlainReciprocal(e + fmaf(e, left, 1.0f));
}
// exp(-|x|) never overflows, so that small results keep their digits.
__device__ __forceinline__ double Sigmoid(double x) {
  const double e = exp(-fabs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

// x * y + z in one rounding, for sums of products only.
__device__ __forceinline__ float MultiplyAdd(float x, float y, float z) { return fmaf(x, y, z); }
__device__ __forceinline__ double MultiplyAdd(double x, double y, double z) { return fma(x, y, z); }

// Reductions: where they start, and how two results become one.
template <typename T>
struct Limits;
template <>
struct Limits<float> {
  __device__ static float Low() { return -__int_as_float(0x7f800000); }
  __device__ static float High() { return __int_as_float(0x7f800000); }
};
template <>
struct Limits<double> {
  __device__ static double Low() { return -__longlong_as_double(0x7ff0000000000000LL); }
  __device__ static double High() { return __longlong_as_double(0x7ff0000000000000LL); }
};
template <typename S, typename U>
struct Limits<Wrapping<S, U>> {
  __device__ static Wrapping<S, U> Low() { return Wrapping<S, U>(static_cast<S>(U(1) << (sizeof(U) * 8 - 1))); }
  __device__ static Wrapping<S, U> High() { return Wrapping<S, U>(static_cast<S>(~U(0) >> 1)); }
};
struct Sum {
  template <typename T>
  __device__ static T Start() {
    return T(0);
  }
  template <typename T>
  __device__ static T Join(T x, T y) {
    return x + y;
  }
};
struct Product {
  template <typename T>
  __device__ static T Start() {
    return T(1);
  }
  template <typename T>
  __device__ static T Join(T x, T y) {
    return x * y;
  }
};
struct Largest {
  template <typename T>
  __device__ static T Start() {
    return Limits<T>::Low();
  }
  template <typename T>
  __device__ static T Join(T x, T y) {
    return Max(x, y);
  }
};
struct Smallest {
  template <typename T>
  __device__ static T Start() {
    return Limits<T>::High();
  }
  template <typename T>
  __device__ static T Join(T x, T y) {
    return Min(x, y);
  }
};

// The value of the lane of the warp whose number differs by `distance`, a power of two.
template <typename T>
__device__ __forceinline__ T FromLane(T value, int distance) {
  return __shfl_xor_sync(0xffffffffu, value, distance);
}
template <typename S, typename U>
__device__ __forceinline__ Wrapping<S, U> FromLane(Wrapping<S, U> value, int distance) {
  return Wrapping<S, U>(__shfl_xor_sync(0xffffffffu, value.value, distance));
}

}  // namespace dpiframe::cuda
