// Leaves that move elements. Included once for each instruction set: internal linkage.
#pragma once

#include <cstdint>

#include "elementwise_leaf.h"
#include "elementwise_operations.h"

namespace dpiframe {
namespace {

template <typename T>
void CopyLeaf(const LeafArgs& args) {
  constexpr int64_t kUnit = sizeof(T);
  const int64_t inner = args.sizes[1];
  const int64_t out_step = args.strides[0][1];
  const int64_t in_step = args.strides[1][1];
  for (int64_t i = 0; i < args.sizes[0]; ++i) {
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
    case 2:
      return CopyLeaf<uint16_t>;
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
    case 2:
      return PickLeaf<uint16_t>;
    case 4:
      return PickLeaf<uint32_t>;
    default:
      return PickLeaf<uint64_t>;
  }
}

}  // namespace
}  // namespace dpiframe
