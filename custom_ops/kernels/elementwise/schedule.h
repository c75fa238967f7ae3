// What a program of FusedElementwise becomes on the CPU: steps, in phases, over storages.
#pragma once

#include <cstdint>
#include <vector>

#include "leaf.h"

namespace dpiframe {

// Values are computed once for each row that they depend on. A phase holds those that depend on the same row axes, and
// reads what the phases before it have made.
enum PhaseIndex {
  kConstants,  // of no row, from constants alone: computed when the plan is made
  kCall,       // of no row
  kInnerRows,  // of the second row axis alone
  kOuterRows,  // of the first of two row axes alone
  kRows,       // of all row axes
  kPhases,
};

constexpr bool HasRows(int phase) { return phase >= kInnerRows; }

enum class StorageKind {
  kInput,
  kOutput,
  kBlock,   // of the block of rows that a thread works on
  kShared,  // of all rows of its phase, for the phases after it
};

// Rows of values, one behind the other.
struct Storage {
  StorageKind kind;
  int index;  // of the input or output
  int phase;  // whose rows it has
  int64_t row_bytes;
  int64_t offset = 0;  // kBlock: in the thread's memory; kShared of no row: in its phase's memory
};

struct Loop {
  int64_t size;
  int64_t strides[kMaxOperands];  // in bytes
};

// The rows of a phase with fewer row axes, repeated for those of all.
enum class Repeat { kNone, kOuterRows, kInnerRows };

// A leaf and the loops around it, for all rows of a block.
struct Step {
  Leaf leaf = nullptr;
  int operands = 0;  // the result, which is the first, included
  int storages[kMaxOperands] = {};
  int64_t offsets[kMaxOperands] = {};  // in bytes
  std::vector<Loop> loops;             // outermost first
  LeafArgs args{};                     // all but the addresses
  // The axis with the rows, of `loops` or behind them of the leaf; its size times the number of rows is to be run over.
  int rows_axis = -1;
  std::vector<int32_t> indices;
  Repeat repeat = Repeat::kNone;
  unsigned overwrites = 0;  // bit i: the result may take the place of operand i
  double cost = 0;          // of a row, about in nanoseconds
};

// How the base of a storage follows from the block's first row.
struct Base {
  int storage;
  int64_t bytes_per_row;  // 0: the same for all blocks
};

struct Phase {
  std::vector<Step> steps;
  std::vector<Base> bases;  // of all storages that the steps use
  int64_t block_rows = 1;
  int64_t rows_per_task = 1;  // what is worth another thread
  int64_t block_bytes = 0;    // of a thread's memory
};

struct Schedule {
  std::vector<Storage> storages;
  Phase phases[kPhases];
  int64_t constant_bytes = 0;  // kShared of kConstants
  int64_t call_bytes = 0;      // kShared of kCall
};

}  // namespace dpiframe
