// A lookup program as records in device memory: plain data that the host writes once and threads read.
//
// The work is cut into *chunks*: up to 16 bytes of an output row, which one thread fills for a few rows. What changes
// from call to call (addresses of sources, lengths) comes as an array of 64-bit *words*.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define DPIFRAME_BOTH __host__ __device__ __forceinline__
#else
#define DPIFRAME_BOTH inline
#endif

namespace dpiframe::cuda {

constexpr int kInlineWords = 384;  // so many words travel as kernel parameters, the limit for all of which is 4 KB
constexpr int kMaxSegments = 12;   // of one launch, for the same reason
constexpr int kBlockThreadsLog2 = 8;
constexpr int kBlockThreads = 1 << kBlockThreadsLog2;
constexpr int kShortPool = 2;            // terms of a pool that has a kernel of its own
constexpr int kShortPoolRows = 2;        // for which a thread of that kernel fills a chunk at a time
constexpr int kPoolBatch = 5;            // terms of a longer pool that a thread looks up at a time
constexpr uint32_t kGroupChunks = 16;    // of plain pools and bags, at most: filled for all rows before the next ones
constexpr int kBagBatch = 5;             // ids of a bag that a thread looks up at a time
constexpr int kPlainBagBatch = 8;        // the same of a plain bag,
constexpr int kShortBagBatch = 4;        // where bags have so few in the mean
constexpr uint8_t kMinBagLanesLog2 = 2;  // of its threads side by side that fill chunks of one,
constexpr uint8_t kMaxBagLanesLog2 = 5;
constexpr uint8_t kMinSharedLanesLog2 = 1;  // where all of a block's threads share one

// How a value of a source is read. A constant id is not read at all.
enum class Read : uint8_t { kInt32, kInt64, kFloat32, kFloat64, kFloat16, kConstant };

// Stands for a number of columns that the call brings, in the word after the source's address.
constexpr uint32_t kDynamicColumns = 0xffffffffu;

// Where a value comes from, in 64 bits: rows of its table (0: it is copied, not looked up), the source's word, and how
// it is read.
struct Facts {
  static constexpr int kRowBits = 41;
  static constexpr int kWordBits = 16;
  static constexpr int kReadShift = kRowBits + kWordBits;
  static constexpr int kStepsBit = 60;
  static constexpr int kDynamicTableBit = 61;
  static constexpr int kCountingBit = 62;
  static constexpr int kHalfBit = 63;

  uint64_t bits;

  DPIFRAME_BOTH int64_t table_rows() const { return static_cast<int64_t>(bits & ((uint64_t{1} << kRowBits) - 1)); }
  DPIFRAME_BOTH uint32_t word() const { return static_cast<uint32_t>(bits >> kRowBits) & 0xffffu; }
  DPIFRAME_BOTH Read read() const { return static_cast<Read>(static_cast<uint32_t>(bits >> kReadShift) & 7u); }
  DPIFRAME_BOTH bool is_copy() const { return table_rows() == 0; }
  DPIFRAME_BOTH bool has(int bit) const { return (bits >> bit & 1) != 0; }
  DPIFRAME_BOTH bool has_steps() const { return has(kStepsBit); }
  DPIFRAME_BOTH bool dynamic_table() const { return has(kDynamicTableBit); }
  DPIFRAME_BOTH bool counts_bad_ids() const { return has(kCountingBit); }  // one chunk of each looked-up row does
  DPIFRAME_BOTH bool to_half() const { return has(kHalfBit); }             // float32 copied to float16

  static Facts Of(int64_t table_rows, uint32_t word, Read read) {
    return {static_cast<uint64_t>(table_rows) | uint64_t{word} << kRowBits | static_cast<uint64_t>(read) << kReadShift};
  }
  DPIFRAME_BOTH Facts With(int bit, bool set) const {
    const uint64_t mask = uint64_t{1} << bit;
    return {set ? bits | mask : bits & ~mask};
  }
};

// Address of a table's row 0, from the first element that is looked up on. For a table that a call may change: its word
// in the top 16 bits and the offset below.
struct TableBase {
  static constexpr int kOffsetBits = 48;
  uint64_t bits;

  DPIFRAME_BOTH uint32_t word() const { return static_cast<uint32_t>(bits >> kOffsetBits); }
  DPIFRAME_BOTH uint64_t offset() const { return bits & ((uint64_t{1} << kOffsetBits) - 1); }
};

// A looked-up row, or a source's columns where they are copied.
struct alignas(16) Lookup {
  TableBase base;
  Facts facts;
  uint32_t stride;   // bytes of a table row
  uint32_t column;   // of the source; a constant id: its low half
  uint32_t columns;  // of the source, 0 where it has the layout [columns, rows]; a constant id: its high half
  uint32_t extra;    // a chunk: its place in the output row, in chunks; a term: its line
};

// Arithmetic on an id. A div or mod of 0 stands for no such step.
struct Steps {
  int64_t div;
  int64_t mod;
  int64_t mul;
  int64_t add;
};

enum class WeightRule : uint8_t { kOne, kNotEqual, kLess, kColumn };

// The weight of a pooled term. In a run of terms, position i adds i times the steps.
struct alignas(16) Weight {
  int64_t number;
  uint32_t column;
  uint32_t columns;  // as in Lookup
  int32_t steps;     // index into the list of steps
  uint16_t word;
  WeightRule rule;
  Read read;
  bool same_as_id;  // it compares the value of the term's own id
  bool has_steps;
  uint8_t number_step;
  uint8_t column_step;
};

// Terms of a pool that are joined by one loop. A run is one record for `count` terms with consecutive columns.
struct alignas(16) Group {
  uint32_t first_term;
  uint32_t count;  // or kDynamicColumns
  uint32_t is_run;
  uint32_t line_step;
};

enum class PoolRule : uint16_t { kSum, kMean, kMax };

struct Pooling {
  PoolRule rule;
  bool weighted;
  float x;
};

struct alignas(16) Pool {
  uint32_t first_group;
  uint32_t group_count;
  Pooling pooling;
};

struct alignas(16) PoolChunk {
  uint32_t pool;
  uint32_t offset;  // bytes from the start of the pooled rows
  uint32_t place;   // in the output row, in chunks
  uint32_t counts_bad_ids;
};

// What a plain pool does with ids that equal a number, its padding: their weight is 0, and their row is not even read
// where nothing but finite numbers stands in it.
enum class Mask : uint32_t { kNone, kZeroWeight, kSkip };

// A chunk of a pool that is one run of int32 or int64 ids, as they stand in a source of the layout [rows, columns],
// from a table with a fixed address and at most 2^32 rows, and has no weights but those of a mask: what multi-hot
// fields give.
struct alignas(16) PlainPool {
  Lookup lookup;
  int64_t number;
  uint32_t count;  // or kDynamicColumns
  uint32_t line;
  Pooling pooling;
  Mask mask;
  uint32_t line_step;
};

// A chunk of a bag, which pools as many ids of a list as the row has. The list's length stands in the word behind its
// address.
struct alignas(16) BagChunk {
  Lookup lookup;
  int64_t padding;  // the row of the table that is left out, or -1
  uint32_t offsets_column;
  uint32_t offsets_columns;  // as in Lookup
  uint32_t line;
  int32_t offsets_steps;  // index into the list of steps, or -1
  uint16_t offsets_word;
  uint16_t weights_word;
  Read offsets_read;
  Read weights_read;  // kConstant: there are none
  uint8_t bounds;     // one offset more than rows
  uint8_t lowest;     // a bag without ids gives -inf
  PoolRule rule;
  uint16_t unused[3];
  uint64_t unused_too;
};

// Up to 2^kMaxBagLanesLog2 chunks side by side of a bag whose ids and offsets are int32 or int64, as they stand in
// their sources, and whose weights, if it has any, are float32: what an EmbeddingBag over a list gives.
struct alignas(16) PlainBag {
  Lookup lookup;    // of the first chunk; column and columns: those of the offsets
  int64_t padding;  // the row of the table that is left out, or -1
  uint32_t line;
  uint16_t offsets_word;
  uint16_t weights_word;
  PoolRule rule;
  uint8_t chunk_count;
  uint8_t wide_offsets;  // int64
  uint8_t bounds;        // one offset more than rows
  uint8_t lowest;        // a bag without ids gives -inf
  uint16_t unused[5];
};
// A plain chunk looks a row up in a table with a fixed address and at most 2^32 rows, by an int32 or int64 to which a
// number may be added; any other looked-up row is a general one. A pool of tables is one whose terms, two or more, are
// plain chunks.
enum class ChunkKind : uint8_t {
  kPlain16,
  kPlain8,
  kPlain4,
  kPlain2,
  kGeneral16,
  kGeneral8,
  kGeneral4,
  kGeneral2,
  kCopy16,
  kCopy8,
  kCopy4,
  kCopy2,
  kPool16,
  kPoolElement,
  kPlainPool16,
  kPlainPoolElement,
  kTablePool16,
  kTablePoolElement,
  kBag16,
  kBagElement,
  kPlainBag16,
  kPlainBagElement
};

inline bool IsPool(ChunkKind kind) { return kind == ChunkKind::kPool16 || kind == ChunkKind::kPoolElement; }
inline bool IsPlainPool(ChunkKind kind) {
  return kind == ChunkKind::kPlainPool16 || kind == ChunkKind::kPlainPoolElement;
}
inline bool IsTablePool(ChunkKind kind) {
  return kind == ChunkKind::kTablePool16 || kind == ChunkKind::kTablePoolElement;
}
inline bool IsBag(ChunkKind kind) { return kind == ChunkKind::kBag16 || kind == ChunkKind::kBagElement; }

// Smaller chunks are filled for more rows at a time, to keep as many bytes of loads in flight.
constexpr DPIFRAME_BOTH int RowsFactor(int chunk_bytes) { return chunk_bytes == 16 ? 1 : 2; }

// Division of numbers below 2^31 by a constant as a multiplication (Granlund and Montgomery, 1994, figure 4.1).
struct Divisor {
  uint32_t multiplier;
  uint32_t shift;
};

// Terms of a pool of tables that a block looks up at a time, each thread one of them for as many rows as a thread fills
// of a chunk; and for how many rows, given how many times its threads hold the terms.
constexpr DPIFRAME_BOTH uint32_t TablePoolTerms(uint32_t terms) {
  return terms < kBlockThreads ? terms : kBlockThreads;
}
constexpr DPIFRAME_BOTH uint32_t TablePoolRows(uint32_t times, int rows_per_thread) {
  const uint32_t rows = times * static_cast<uint32_t>(rows_per_thread);
  return rows < kBlockThreads ? rows : kBlockThreads;
}

// Chunks of one output and one kind; blocks of threads from first_block on fill them. Of a pool of tables: the terms of
// one chunk.
struct Segment {
  uint32_t first_block;
  uint32_t first_chunk;
  uint32_t chunk_count;
  Divisor by_chunk_count;  // of a pool of tables: by how many of them a block looks up at a time; of plain pools
                           // and bags: by group_chunks
  uint32_t group_items;    // of both: threads for a group of chunks
  Divisor by_group;        // of both: by group_items
  uint8_t group_chunks;    // of both: so many chunks of a row are side by side
  uint8_t thread_rows;     // of both: for how many rows a thread fills a chunk
  uint8_t lanes_log2;      // of other pools and bags: how many threads share the terms of a chunk; of plain bags: how
                           // many threads side by side fill chunks of one bag
  ChunkKind kind;
  Read read;            // of plain chunks and pools: that of all
  bool column_layout;   // of plain chunks: that of all sources
  bool shifted;         // of plain chunks: whether numbers are added to the ids
  uint8_t groups_log2;  // of plain bags: how many of them a block has; 0: all its threads share one
  Pooling pooling;      // of a pool of tables
  uint64_t source;      // of plain chunks: that of all, 0 where they have several
  uint64_t output;
  uint64_t row_bytes;
};

// What a launch needs. First what every thread reads comes together: parameters are fetched by lines of 64 bytes.
struct LookupArguments {
  const Lookup* chunks;
  int64_t rows;       // R
  int64_t first_row;  // of this launch
  int64_t end_row;
  uint32_t segment_count;
  uint32_t element_bytes;
  bool clamp;
  bool aligned;       // every address suits the chunks' sizes
  uint32_t long_bag;  // a plain bag of more ids is filled by all threads of a block
  Segment segments[kMaxSegments];
  const uint32_t* chunk_lines;
  const PoolChunk* pool_chunks;
  const PlainPool* plain_pools;
  const BagChunk* bag_chunks;
  const PlainBag* plain_bags;
  const Pool* pools;
  const Group* groups;
  const Lookup* terms;
  const Weight* weights;
  const Steps* steps;            // of each line, then of weights
  unsigned long long* counters;  // of each line
};

// The words of a call: as kernel parameters or, where there are too many, in device memory.
struct Words {
  const uint64_t* memory;  // null: they are here
  uint64_t values[kInlineWords];
  DPIFRAME_BOTH uint64_t operator[](uint32_t i) const { return memory != nullptr ? memory[i] : values[i]; }
};

static_assert(sizeof(Lookup) == 32 && sizeof(Weight) == 32 && sizeof(Group) == 16 && sizeof(Pool) == 16 &&
              sizeof(PlainPool) == 64 && sizeof(BagChunk) == 80 && sizeof(PlainBag) == 64);
static_assert(sizeof(LookupArguments) + sizeof(Words) <= 4096);

}  // namespace dpiframe::cuda
