// Operands that are the same along short inner axes, spread out so that one long loop runs over many of them. Included
// once for each instruction set: internal linkage.
#pragma once

#include <cstdint>

#include "leaf.h"
#include "vectors.h"

namespace dpiframe {
namespace {

constexpr int64_t kTileElements = 512;
constexpr int64_t kLongestTiled = 48;  // inner loops longer than this run well by themselves

// Each of `rows` elements, `count` times. Writes up to a vector more than that.
template <typename T>
inline void FillRepeated(char* out, const char* in, int64_t step, int64_t rows, int64_t count) {
  constexpr int64_t kBytes = kVectorBytes;
  const int64_t row_bytes = count * static_cast<int64_t>(sizeof(T));
  for (int64_t row = 0; row < rows; ++row) {
    const auto value = Splat<Vector<T>>(Load<T>(in + row * step));
    for (int64_t at = 0; at < row_bytes; at += kBytes) Store(value, out + row * row_bytes + at);
  }
}

inline void FillRepeated(char* out, const char* in, int64_t step, int64_t rows, int64_t count, int64_t bytes) {
  switch (bytes) {
    case 1:
      return FillRepeated<uint8_t>(out, in, step, rows, count);
    case 4:
      return FillRepeated<uint32_t>(out, in, step, rows, count);
    default:
      return FillRepeated<uint64_t>(out, in, step, rows, count);
  }
}

// Runs `contiguous`, the leaf without broadcast operands, over tiles; false where this is not worth it or not possible.
// bytes: of an element of the result and each operand.
inline bool RunTiled(const LeafArgs& args, int operands, unsigned broadcast, const int64_t* bytes, Leaf contiguous) {
  const int64_t inner = args.sizes[1];
  if (args.sizes[0] < 4 || inner > kLongestTiled) return false;
  bool spread[kMaxOperands] = {};
  bool any = false;
  for (int k = 0; k < operands; ++k) {
    const bool repeated = k > 0 && (broadcast >> (k - 1) & 1) != 0;
    const bool dense = !repeated && args.strides[k][0] == inner * bytes[k];
    if (!dense && (k == 0 || (!repeated && args.strides[k][0] != 0))) return false;
    spread[k] = !dense;
    any |= spread[k];
  }
  if (!any) return false;
  const int64_t tile = inner > 0 ? kTileElements / inner : 1;
  alignas(64) char memory[kMaxOperands - 1][kTileElements * 8 + kVectorBytes];
  LeafArgs run = args;
  for (int64_t row = 0; row < args.sizes[0]; row += tile) {
    const int64_t rows = args.sizes[0] - row < tile ? args.sizes[0] - row : tile;
    run.sizes[0] = 1;
    run.sizes[1] = rows * inner;
    for (int k = 0; k < operands; ++k) {
      const char* const in = args.data[k] + row * args.strides[k][0];
      run.data[k] = spread[k] ? memory[k - 1] : args.data[k] + row * args.strides[k][0];
      if (!spread[k]) continue;
      if ((broadcast >> (k - 1) & 1) != 0) {
        FillRepeated(memory[k - 1], in, args.strides[k][0], rows, inner, bytes[k]);
      } else if (row == 0) {  // the same row over and over: every tile is the same
        for (int64_t i = 0; i < rows; ++i) __builtin_memcpy(memory[k - 1] + i * inner * bytes[k], in, inner * bytes[k]);
      }
    }
    contiguous(run);
  }
  return true;
}

}  // namespace
}  // namespace dpiframe
