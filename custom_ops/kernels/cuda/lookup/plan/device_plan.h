// Turns a parsed program into the records that GPU threads read. Host code only: nothing here needs a GPU.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/cuda/lookup/records.h"
#include "kernels/lookup/plan.h"
#include "kernels/lookup/program.h"

namespace dpiframe::cuda {

// A program of a size that the records can't hold.
struct ProgramTooLarge : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// Chunks of one output and one kind; see Segment. Of general pools: how many terms a chunk joins at most, `*` not
// counted, and the sources whose columns count on top. Of bags: the lists.
struct SegmentPlan {
  ChunkKind kind;
  Read read;
  bool column_layout;
  bool shifted;
  int output;
  uint32_t first_chunk;
  uint32_t chunk_count;
  uint64_t row_bytes;
  uint32_t source_word = 0;  // of plain chunks: that of all
  bool one_source = false;
  Pooling pooling{};  // of a pool of tables
  uint64_t terms = 0;
  uint8_t lanes_log2 = 0;  // of plain bags: for the most chunks that one has
  std::vector<int> star_sources;
};

struct LookupDevicePlan {
  std::vector<Lookup> chunks;
  std::vector<uint32_t> chunk_lines;
  std::vector<PoolChunk> pool_chunks;
  std::vector<PlainPool> plain_pools;
  std::vector<BagChunk> bag_chunks;
  std::vector<PlainBag> plain_bags;
  std::vector<Pool> pools;
  std::vector<Group> groups;
  std::vector<Lookup> terms;
  std::vector<Weight> weights;
  std::vector<Steps> steps;
  std::vector<SegmentPlan> segments;
  std::vector<SegmentPlan> bag_segments;        // launched apart from the others
  std::vector<SegmentPlan> plain_bag_segments;  // and these apart from those

  // The words of a call: sources (one with a dynamic number of columns takes a second word for it), then the tables
  // that a call may change.
  uint32_t word_count = 0;
  std::vector<uint32_t> source_words;
  std::vector<std::pair<int, uint32_t>> column_words;  // source and word
  std::vector<uint32_t> table_words;                   // unused for a table with a fixed address

  // What sizes of chunks need of the addresses.
  std::vector<uint32_t> source_element_bytes;
  std::vector<uint32_t> source_alignments;
  std::vector<uint32_t> table_alignments;
  std::vector<uint32_t> output_alignments;

  uint32_t element_bytes = 4;
  size_t line_count = 0;
  bool clamp = false;
  bool has_general = false;  // chunks or pools that are not plain
  bool has_plain_pools = false;
  bool has_table_pools = false;
  bool short_pools = true;  // no plain pool has more than kShortPool terms
};

// `tables` holds an address in device memory for each table, null where each call brings one. Source types must suit
// the program, as LookupPlan checks. Throws ProgramTooLarge.
LookupDevicePlan MakeLookupDevicePlan(const LookupProgram& program, const std::vector<ElementType>& source_types,
                                      ElementType table_type, const std::vector<const void*>& tables);

}  // namespace dpiframe::cuda
