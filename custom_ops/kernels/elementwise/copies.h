// Leaves that move elements. Included once for each instruction set: internal linkage.
#pragma once

#include <cstdint>

#include "leaf.h"
#include "operations.h"
#include "vectors.h"

namespace dpiframe {
namespace {

// Where the result is contiguous along the inner axis and the operand along the outer one, four by four elements at a
// time. Returns how many outer elements were done.
inline int64_t Transpose(const LeafArgs& args) {
  using V = Vector<uint32_t, 16>;
  const int64_t inner = args.sizes[1];
  const int64_t out_step = args.strides[0][0];
  const int64_t in_step = args.strides[1][1];
  int64_t i = 0;
  for (; i + 4 <= args.sizes[0]; i += 4) {
    char* const out = args.data[0] + i * out_step;
    const char* const in = args.data[1] + i * 4;
    int64_t j = 0;
    for (; j + 4 <= inner; j += 4) {
      const V a = Load<V>(in + j * in_step);
      const V b = Load<V>(in + (j + 1) * in_step);
      const V c = Load<V>(in + (j + 2) * in_step);
      const V d = Load<V>(in + (j + 3) * in_step);
      const V ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      const V ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const V cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
      const V cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      Store(__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5), out + j * 4);
      Store(__builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7), out + out_step + j * 4);
      Store(__builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), out + 2 * out_step + j * 4);
      Store(__builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7), out + 3 * out_step + j * 4);
    }
    for (; j < inner; ++j) {
      for (int64_t k = 0; k < 4; ++k) Store(Load<uint32_t>(in + j * in_step + k * 4), out + k * out_step + j * 4);
    }
  }
  return i;
}

template <typename T>
void CopyLeaf(const LeafArgs& args) {
  constexpr int64_t kUnit = sizeof(T);
  const int64_t inner = args.sizes[1];
  const int64_t out_step = args.strides[0][1];
  const int64_t in_step = args.strides[1][1];
  int64_t i = 0;
  if constexpr (sizeof(T) == 4) {
    if (out_step == kUnit && in_step != kUnit && args.strides[1][0] == kUnit) i = Transpose(args);
  }
  for (; i < args.sizes[0]; ++i) {
    char* const out = args.data[0] + i * args.strides[0][0];
    const char* const in = args.data[1] + i * args.strides[1][0];
    Loose<T>* const to = reinterpret_cast<Loose<T>*>(out);
    const Loose<T>* const from = reinterpret_cast<const Loose<T>*>(in);
    if (out_step == kUnit && in_step == kUnit) {
#pragma GCC ivdep
      for (int64_t j = 0; j < inner; ++j) to[j] = from[j];
    } else if (out_step == kUnit && in_step == 0) {
      const T value = from[0];
      for (int64_t j = 0; j < inner; ++j) to[j] = value;
    } else {
      for (int64_t j = 0; j < inner; ++j) {
        *reinterpret_cast<Loose<T>*>(out + j * out_step) = *reinterpret_cast<const Loose<T>*>(in + j * in_step);
      }
    }
  }
}

inline Leaf FindCopy(size_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return CopyLeaf<uint8_t>;
    case 4:
      return CopyLeaf<uint32_t>;
    default:
      return CopyLeaf<uint64_t>;
  }
}

template <typename T>
void PickLeaf(const LeafArgs& args) {
  for (int64_t i = 0; i < args.sizes[0]; ++i) {
    Loose<T>* const out = reinterpret_cast<Loose<T>*>(args.data[0] + i * args.strides[0][0]);
    const Loose<T>* const in = reinterpret_cast<const Loose<T>*>(args.data[1] + i * args.strides[1][0]);
#pragma GCC ivdep
    for (int64_t j = 0; j < args.sizes[1]; ++j) out[j] = in[args.indices[j]];
  }
}

inline Leaf FindPick(size_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return PickLeaf<uint8_t>;
    case 4:
      return PickLeaf<uint32_t>;
    default:
      return PickLeaf<uint64_t>;
  }
}

// Runs one behind the other, each with whole vectors: what is written too much, the next run writes over. Those without
// room for this, at the end, are marked.
inline void PickRunsLeaf(const LeafArgs& args) {
  using V = Vector<uint8_t>;
  constexpr int64_t kBytes = kVectorBytes;
  for (int64_t i = 0; i < args.sizes[0]; ++i) {
    char* out = args.data[0] + i * args.strides[0][0];
    const char* const in = args.data[1] + i * args.strides[1][0];
    for (int64_t run = 0; run < args.sizes[1]; ++run) {
      const char* const from = in + args.indices[2 * run];
      const int64_t bytes = args.indices[2 * run + 1];
      if (bytes > 0) {
        for (int64_t at = 0; at < bytes; at += kBytes) Store(Load<V>(from + at), out + at);
        out += bytes;
      } else {
        __builtin_memcpy(out, from, static_cast<size_t>(-bytes));
        out -= bytes;
      }
    }
  }
}

}  // namespace
}  // namespace dpiframe
