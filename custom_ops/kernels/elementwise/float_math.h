// exp, sigmoid, tanh and erf over vectors of floats, to 2.5 units in the last place. The polynomials are minimax fits.
// Included once for each instruction set: internal linkage.
#pragma once

#include <cstdint>

#include "leaf.h"
#include "vectors.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace dpiframe {
namespace {

using Floats = Vector<float>;
using Ints = Vector<int32_t>;

inline Floats All(float x) { return Splat<Floats>(x); }
inline Ints BitsOf(Floats x) { return reinterpret_cast<Ints>(x); }
inline Floats FloatsOf(Ints bits) { return reinterpret_cast<Floats>(bits); }

#if defined(__AVX512F__)

inline Floats MulAdd(Floats x, Floats y, Floats z) { return _mm512_fmadd_ps(x, y, z); }
// NaN stays NaN: both instructions give the second operand if either is one.
inline Floats AtMost(Floats x, float most) { return _mm512_maskz_min_ps(kAllLanes, All(most), x); }
inline Floats AtLeast(Floats x, float least) { return _mm512_maskz_max_ps(kAllLanes, All(least), x); }

#elif defined(__AVX2__)

inline Floats MulAdd(Floats x, Floats y, Floats z) { return _mm256_fmadd_ps(x, y, z); }
inline Floats AtMost(Floats x, float most) { return _mm256_min_ps(All(most), x); }
inline Floats AtLeast(Floats x, float least) { return _mm256_max_ps(All(least), x); }

#else

inline Floats MulAdd(Floats x, Floats y, Floats z) { return x * y + z; }
inline Floats AtMost(Floats x, float most) { return x > All(most) ? All(most) : x; }
inline Floats AtLeast(Floats x, float least) { return x < All(least) ? All(least) : x; }

#endif

// x 2^n, n being a whole number from -152 to 130. In two steps, since 2^n may lie outside of float where the result
// does not.
inline Floats TimesPowerOfTwo(Floats x, Floats n) {
#if defined(__AVX512F__)
  return _mm512_maskz_scalef_ps(kAllLanes, x, n);
#else
  const Ints whole = __builtin_convertvector(n, Ints);
  const Ints half = whole >> 1;
  return x * FloatsOf((half + 127) << 23) * FloatsOf((whole - half + 127) << 23);
#endif
}

// e^x = p 2^n with ln(p) at most ln(2) / 2. For x from -104 to 89, or NaN.
inline Floats ExpWithin(Floats x) {
  constexpr float kToInteger = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the lowest bits
  const Floats n = MulAdd(x, All(1.44269504f), All(kToInteger)) - All(kToInteger);
  Floats r = MulAdd(n, All(-0.693359375f), x);  // ln(2) in two parts, the first of few bits
  r = MulAdd(n, All(2.12194440e-4f), r);
  Floats p = All(0.00138131448f);
  p = MulAdd(p, r, All(0.00836941879f));
  p = MulAdd(p, r, All(0.0416684560f));
  p = MulAdd(p, r, All(0.166665152f));
  p = MulAdd(p, r, All(0.499999940f));
  return TimesPowerOfTwo(MulAdd(p, r * r, r) + All(1.0f), n);
}

struct VectorExp {
  static Floats Of(Floats x) { return ExpWithin(AtLeast(AtMost(x, 89.0f), -104.0f)); }
};

// By e^-|x|, which neither overflows nor loses the small results.
struct VectorSigmoid {
  static Floats Of(Floats x) {
    const Floats e = ExpWithin(AtLeast(FloatsOf(BitsOf(x) | INT32_MIN), -104.0f));
    return (x < All(0.0f) ? e : All(1.0f)) / (All(1.0f) + e);
  }
};

inline Floats WithSignOf(Floats magnitude, Floats x) {
  return FloatsOf((BitsOf(magnitude) & INT32_MAX) | (BitsOf(x) & INT32_MIN));
}

struct VectorTanh {
  static Floats Of(Floats x) {
    const Floats a = FloatsOf(BitsOf(x) & INT32_MAX);
    const Floats t = a * a;
    Floats p = All(0.00214753975f);
    p = MulAdd(p, t, All(-0.00818267744f));
    p = MulAdd(p, t, All(0.0217029694f));
    p = MulAdd(p, t, All(-0.0539472029f));
    p = MulAdd(p, t, All(0.133332103f));
    p = MulAdd(p, t, All(-0.333333313f));
    const Floats small = MulAdd(p * t, a, a);
    const Floats b = AtMost(a, 10.0f);  // 1 to the last place from here on
    const Floats large = All(1.0f) - All(2.0f) / (ExpWithin(b + b) + All(1.0f));
    return WithSignOf(a < All(0.625f) ? small : large, x);
  }
};

// Far from 0 as 1 - e^-q, q being a fit of -ln(1 - erf(a)).
struct VectorErf {
  static Floats Of(Floats x) {
    const Floats a = FloatsOf(BitsOf(x) & INT32_MAX);
    const Floats t = a * a;
    Floats p = All(8.18509216e-05f);
    p = MulAdd(p, t, All(-0.000809770310f));
    p = MulAdd(p, t, All(0.00519695226f));
    p = MulAdd(p, t, All(-0.0268577058f));
    p = MulAdd(p, t, All(0.112836637f));
    p = MulAdd(p, t, All(-0.376126319f));
    p = MulAdd(p, t, All(0.128379166f));  // 2 / sqrt(pi) less 1
    const Floats small = MulAdd(p, a, a);
    const Floats b = AtMost(a, 4.0f);  // 1 to the last place from here on
    Floats q = All(2.08285546e-05f);
    q = MulAdd(q, b, All(-0.000431392866f));
    q = MulAdd(q, b, All(0.00415625190f));
    q = MulAdd(q, b, All(-0.0250806082f));
    q = MulAdd(q, b, All(0.108220376f));
    q = MulAdd(q, b, All(0.633400857f));
    q = MulAdd(q, b, All(1.12948835f));
    q = MulAdd(q, b, All(-0.000169204373f));
    const Floats large = All(1.0f) - ExpWithin(-q);
    return WithSignOf(a < All(0.9375f) ? small : large, x);
  }
};

template <typename F>
void VectorLeaf(const LeafArgs& args) {
  constexpr int64_t kBytes = kVectorBytes;
  const int64_t bytes = args.sizes[1] * static_cast<int64_t>(sizeof(float));
  for (int64_t i = 0; i < args.sizes[0]; ++i) {
    char* const out = args.data[0] + i * args.strides[0][0];
    const char* const x = args.data[1] + i * args.strides[1][0];
    int64_t at = 0;
    for (; at + kBytes <= bytes; at += kBytes) Store(F::Of(Load<Floats>(x + at)), out + at);
    if (at == bytes) continue;
    Floats rest{};
    __builtin_memcpy(&rest, x + at, static_cast<size_t>(bytes - at));
    rest = F::Of(rest);
    __builtin_memcpy(out + at, &rest, static_cast<size_t>(bytes - at));
  }
}

}  // namespace
}  // namespace dpiframe
