// A lookup program made ready for the row loops: plain data only, because the loops are compiled once for each
// instruction set and must not emit library code that other files share.
//
// For every row the loops first fill an array of *cells*: the address of each looked-up row, or the value of an id that
// a weight compares. Then they copy and pool from these addresses.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dpiframe {

enum class ElementType { kInt32, kInt64, kFloat32, kFloat64, kFloat16 };

union Cell {
  const char* row;
  int64_t value;
};

// Ids of one column after its arithmetic.
struct IdColumn {
  int source;  // -1: the constant
  int64_t column;
  int64_t constant;
  int64_t div;  // 0: no such step
  int64_t mod;  // 0: no such step
  int64_t mul;
  int64_t add;
};

// Where the rows of a table that an id names are read from.
struct RowAddress {
  int table;
  int64_t offset;  // bytes from the start of a table row
  int64_t stride;  // bytes of a table row
  int line;        // the program's row or term line, for counting ids outside the table
};

struct CellRow {
  RowAddress address;
  int cell;
};

// A column of ids and all that is made of it: addresses in tables of V rows, or the bare value.
struct Slot {
  IdColumn id;
  int64_t table_rows;  // V; 0: bare value
  bool plain;          // a column with an offset at most, for one row
  int first;           // index into PlanView::cell_rows; for a bare value: the cell
  int count;
};

// Equally wide rows whose cells and places in the output follow each other.
struct RowRun {
  int output;
  int64_t offset;  // bytes from the start of an output row
  int64_t bytes;   // of one looked-up row
  int first_cell;
  int count;
};

struct CopyColumns {
  int output;
  int64_t offset;  // bytes from the start of an output row
  int source;
  int64_t column;
  int64_t width;
};

enum class PoolWeight { kOne, kNotEqual, kLess, kLessPosition, kColumn };

struct PoolTerm {
  bool star;           // one term for each column of the source of `id`
  int cell;            // without star
  IdColumn id;         // with star
  int64_t table_rows;  // with star
  RowAddress address;  // with star

  PoolWeight weight;
  bool weight_star;    // the weight's id or column is that of the term's position
  int weight_cell;     // kNotEqual, kLess..., without weight_star
  IdColumn weight_id;  // kNotEqual, kLess..., with weight_star
  int64_t number;      // kNotEqual, kLess
  int weight_source;   // kColumn
  int64_t weight_column;
};

enum class PoolKind { kSum, kMean, kMax };

struct Pool {
  PoolKind kind;
  bool weighted;  // some weight is not kOne
  int output;
  int64_t offset;  // bytes from the start of an output row
  int64_t width;   // elements
  float x;
  int first_term;
  int term_count;
};

// A pool of as many ids as each row has in a list.
struct Bag {
  PoolKind kind;
  float empty;  // what a bag without ids gives
  int output;
  int64_t offset;  // bytes from the start of an output row
  int64_t width;   // elements
  IdColumn id;     // its source is the list
  int64_t table_rows;
  RowAddress address;
  int64_t padding;    // the row of the table that is left out, or -1
  int weight_source;  // a list, or -1
  IdColumn offsets;
  bool bounds;       // there is one offset more than rows; else the last bag ends where the list does
  int rows_ahead;    // how many looked-up rows are fetched ahead of their use, at most kListBlock
  int rows_at_once;  // how many are pooled before others are asked for
};

// A cell of a pooled row, to be fetched ahead of time.
struct Prefetch {
  int cell;
  int64_t bytes;
};

struct SourceLayout {
  ElementType type;
  int64_t columns;  // unused where dynamic: see LookupCall::columns
  bool column_layout;
};

template <typename T>
struct Span {
  const T* data;
  int size;
  const T* begin() const { return data; }
  const T* end() const { return data + size; }
};

enum class OutsideTable { kZeroRow, kClamp };

struct PlanView {
  ElementType type;  // of tables and outputs
  OutsideTable outside;
  int cell_count;
  int rows_ahead;      // how many rows ahead of their use looked-up rows are fetched
  int64_t pool_width;  // of the widest pool
  Span<SourceLayout> sources;
  Span<int64_t> output_row_bytes;
  Span<Slot> slots;
  Span<CellRow> cell_rows;
  Span<RowRun> runs;
  Span<CopyColumns> copies;
  Span<Pool> pools;
  Span<PoolTerm> terms;
  Span<Prefetch> prefetches;
  Span<Bag> bags;
};

// What one call brings.
struct LookupCall {
  int64_t rows;  // R
  const void* const* sources;
  const int64_t* columns;  // K of each source; of a list: its elements
  const void* const* tables;
  void* const* outputs;
  const char* zeros;  // as long as the widest looked-up row
};

class BadIds;

// Handles ids outside a table, out of line. ids[i] belongs to row `row + i * row_step`; a value in [0, V) is fine.
// Others are counted for each line, recorded, and set to what the plan's policy says, -1 standing for a row of zeros.
void HandleBadIds(const PlanView& plan, int64_t table_rows, const CellRow* lines, int line_count, int64_t row,
                  int64_t row_step, int64_t* ids, int64_t count, BadIds* bad_ids);

// Counts and records one id outside its table, out of line.
void AddBadId(int line, int64_t row, int64_t value, BadIds* bad_ids);

// Rows [begin, end) of a call. `scratch` holds RowLoopScratchBytes(plan).
using LookupRowsFunction = void (*)(const PlanView& plan, const LookupCall& call, int64_t begin, int64_t end,
                                    void* scratch, BadIds* bad_ids);

constexpr int kBlockRows = 16;             // ids are evaluated for so many rows at a time
constexpr int kCellRows = 2 * kBlockRows;  // the block in work and the next one
constexpr int kListBlock = 32;             // ids of a list that are looked up together
constexpr int kPoolBatch = 64;             // pooled rows whose addresses are gathered before they are summed

inline int64_t RowLoopScratchBytes(const PlanView& plan) {
  const int64_t cells = int64_t{kCellRows} * plan.cell_count * static_cast<int64_t>(sizeof(Cell));
  return cells + plan.pool_width * static_cast<int64_t>(sizeof(float));
}

void LookupRowsBaseline(const PlanView& plan, const LookupCall& call, int64_t begin, int64_t end, void* scratch,
                        BadIds* bad_ids);
void LookupRowsAvx2(const PlanView& plan, const LookupCall& call, int64_t begin, int64_t end, void* scratch,
                    BadIds* bad_ids);

}  // namespace dpiframe
