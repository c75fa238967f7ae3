// The loops of FusedElementwise on the CPU. A leaf runs over the innermost axes of one step for one block of rows;
// which loops are outside of it, and where its operands lie, the plan decides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "program.h"

namespace dpiframe {

constexpr int kMaxOperands = 4;  // the result first
constexpr int kLeafAxes = 3;

// Axes are outermost first; a leaf of two axes uses sizes[0] and sizes[1]. Strides are in bytes.
struct LeafArgs {
  char* data[kMaxOperands];
  int64_t sizes[kLeafAxes];
  int64_t strides[kMaxOperands][kLeafAxes];
  const int32_t* indices;
};

using Leaf = void (*)(const LeafArgs& args);

// What lies in memory: as ScalarType, but f16 is computed on, and kept between lines, as a float.
enum class Stored { kFloat, kDouble, kInt32, kInt64, kByte };

constexpr Stored StoredOf(ScalarType type) {
  switch (type) {
    case ScalarType::kFloat64:
      return Stored::kDouble;
    case ScalarType::kInt32:
      return Stored::kInt32;
    case ScalarType::kInt64:
      return Stored::kInt64;
    case ScalarType::kBool:
      return Stored::kByte;
    default:
      return Stored::kFloat;
  }
}

constexpr size_t StoredBytes(Stored stored) {
  constexpr size_t kBytes[] = {4, 8, 4, 8, 1};
  return kBytes[static_cast<int>(stored)];
}

// The leaves of one instruction set. Those that a type lacks are null.
struct LeafTable {
  size_t vector_bytes;
  // Two axes. Bit i of `broadcast`: operand i is a single element along the inner axis; the others, and the result,
  // are contiguous along it. At most one operand of two and any but the condition of `where` may be broadcast.
  Leaf (*operation)(ElementwiseOp op, Stored type, unsigned broadcast);
  // The same for two of add, sub and mul on floats: of operands x, y and z the first takes x and y, the second its
  // result and z, or z and its result if `reversed`.
  Leaf (*pair)(ElementwiseOp first, ElementwiseOp second, bool reversed, unsigned broadcast);
  // Two axes, the inner contiguous.
  Leaf (*cast)(ScalarType from, ScalarType to);
  Leaf round_to_half;  // floats to those that a half holds
  Leaf load_halves;    // halves to floats
  Leaf store_halves;   // floats to halves
  // Two axes, any strides.
  Leaf (*copy)(size_t element_bytes);
  // Two axes: rows, and elements, which `indices` tell.
  Leaf (*pick)(size_t element_bytes);
  // Two axes: rows, and runs of bytes, for each of which `indices` tell where it starts and its length, negative where
  // no more than that may be read and written.
  Leaf pick_runs;
  // result[i] = reduction over j of a[i, j]: axes i, j; a is contiguous along j.
  Leaf (*reduce_inner)(ReduceOp op, Stored type);
  // result[i, k] = reduction over j of a[i, j, k]: axes i, j, k; all contiguous along k.
  Leaf (*reduce_middle)(ReduceOp op, Stored type);
  // The same, for sums of a * b, of float and double. dot_middle's b may be a single element along k.
  Leaf (*dot_inner)(Stored type);
  Leaf (*dot_middle)(Stored type, bool broadcast_b);
  // result[i, k] = sum over j of a[i, j] * b[j, k]: axes i, j, k; result and b are contiguous along k.
  Leaf (*contract)(Stored type);
};

const LeafTable& BaselineLeaves();
#ifdef DPIFRAME_HAS_X86_FILES
const LeafTable& Avx2Leaves();
const LeafTable& Avx512Leaves();
#endif

}  // namespace dpiframe
