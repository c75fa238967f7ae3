// The textual program of FusedMultiGather (docs/ops/fused-multi-gather.md), parsed and checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/program_error.h"

namespace dpiframe {

// Stands for "*": every column of a source, or a number of columns that only the input's shape tells.
constexpr int64_t kStar = -1;

// Stands for "none": no row of a table is left out.
constexpr int64_t kNoPadding = -1;

enum class BadIdPolicy { kError, kZero, kClamp };

enum class Layout {
  kRow,     // [R, K]
  kColumn,  // [K, R]
  kList,    // any number of elements, whatever R is
  kBounds,  // [K, R + 1]: bag r lies between elements r and r + 1
};

struct ProgramSource {
  int64_t columns;  // K, or kStar
  Layout layout;
};

struct ProgramTable {
  int64_t rows;  // V
  int64_t dim;   // D
};

struct ProgramOutput {
  std::vector<int64_t> trailing_shape;
  int64_t width;  // product of the trailing shape
};

// A column of a source or a constant, then x / div, x % mod, x * mul, x + add. A div or mod of 0 stands for "no such
// step".
struct IdExpression {
  int source = -1;     // -1: the constant
  int64_t column = 0;  // or kStar
  int64_t constant = 0;
  int64_t div = 0;
  int64_t mod = 0;
  int64_t mul = 1;
  int64_t add = 0;

  bool is_star() const { return source >= 0 && column == kStar; }
  bool operator==(const IdExpression& other) const;
};

enum class WeightKind { kOne, kNotEqual, kLess, kColumn };

struct TermWeight {
  WeightKind kind = WeightKind::kOne;
  IdExpression id;        // kNotEqual, kLess
  int64_t number = 0;     // kNotEqual: N; kLess: P
  bool position = false;  // kLess: P is the term's position in S:*
  int source = 0;         // kColumn
  int64_t column = 0;     // kColumn, or kStar
};

// One looked-up row: elements first ... first + W - 1 of row `id` of `table`.
struct ProgramTerm {
  int table;
  IdExpression id;
  int64_t first;
  TermWeight weight;
};

enum class BlockKind { kCopy, kRow, kPool, kBag };
enum class PoolOp { kSum, kMean, kMax };

struct ProgramBlock {
  BlockKind kind;
  int output;
  int64_t column;                  // C
  int64_t width;                   // W
  int source = 0;                  // kCopy
  int64_t first_column = 0;        // kCopy
  PoolOp op = PoolOp::kSum;        // kPool, kBag
  float x = 0;                     // kPool
  float empty = 0;                 // kBag: what a bag without ids gives
  IdExpression offsets;            // kBag: where the row's ids begin in the list
  int64_t padding = kNoPadding;    // kBag: the row of the table that is left out
  std::vector<ProgramTerm> terms;  // one for kRow and kBag
};

struct LookupProgram {
  int row_axes;
  BadIdPolicy bad;
  std::vector<ProgramSource> sources;
  std::vector<ProgramTable> tables;
  std::vector<ProgramOutput> outputs;
  std::vector<ProgramBlock> blocks;
};

// Throws ProgramError.
LookupProgram ParseLookupProgram(std::string_view text);

// The expression as the program writes it, without its steps: "S:C", "S:*" or "=N".
std::string IdText(const IdExpression& id);

}  // namespace dpiframe
