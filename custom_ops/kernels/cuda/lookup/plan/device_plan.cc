#include "device_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "device_plan_builder.h"

namespace dpiframe::cuda {

Read ReadOf(ElementType type) {
  switch (type) {
    case ElementType::kInt32:
      return Read::kInt32;
    case ElementType::kInt64:
      return Read::kInt64;
    case ElementType::kFloat32:
      return Read::kFloat32;
    case ElementType::kFloat64:
      return Read::kFloat64;
    case ElementType::kFloat16:
      return Read::kFloat16;
  }
  return Read::kInt64;
}

uint32_t Narrow(int64_t value, const char* what) {
  if (value < 0 || value >= int64_t{kDynamicColumns}) {
    throw ProgramTooLarge(std::string(what) + " is " + std::to_string(value) +
                          ", more than the CUDA kernel takes (2^32)");
  }
  return static_cast<uint32_t>(value);
}

bool HasSteps(const IdExpression& id) { return id.div != 0 || id.mod != 0 || id.mul != 1 || id.add != 0; }

Steps StepsOf(const IdExpression& id) { return {id.div, id.mod, id.mul, id.add}; }

PoolRule RuleOf(PoolOp op) {
  return op == PoolOp::kSum ? PoolRule::kSum : op == PoolOp::kMean ? PoolRule::kMean : PoolRule::kMax;
}

LookupDevicePlan LookupDevicePlanBuilder::Build() {
  plan_.element_bytes = ElementBytes();
  plan_.clamp = program_.bad == BadIdPolicy::kClamp;
  AssignWords();
  AddBlocks();
  AddSegments();
  return std::move(plan_);
}

void LookupDevicePlanBuilder::AssignWords() {
  uint64_t next = 0;
  for (size_t i = 0; i < program_.sources.size(); ++i) {
    plan_.source_words.push_back(static_cast<uint32_t>(next++));
    if (program_.sources[i].columns == kStar) plan_.column_words.emplace_back(i, static_cast<uint32_t>(next++));
  }
  for (const void* table : tables_) {
    plan_.table_words.push_back(static_cast<uint32_t>(next));
    next += table == nullptr ? 1 : 0;
  }
  if (next > uint64_t{1} << Facts::kWordBits) {
    throw ProgramTooLarge("the program has " + std::to_string(next) +
                          " inputs, more than the CUDA kernel takes (65536)");
  }
  plan_.word_count = static_cast<uint32_t>(next);
  plan_.table_alignments.resize(tables_.size(), ElementBytes());
  plan_.output_alignments.resize(program_.outputs.size(), ElementBytes());
  for (const ElementType type : source_types_) {
    const Read read = ReadOf(type);
    plan_.source_element_bytes.push_back(read == Read::kFloat16                           ? 2
                                         : read == Read::kInt64 || read == Read::kFloat64 ? 8
                                                                                          : 4);
  }
  plan_.source_alignments = plan_.source_element_bytes;
}

// Blocks in the order of their places, so that neighbouring threads write neighbouring chunks; lines in the
// program's.
void LookupDevicePlanBuilder::AddBlocks() {
  std::vector<std::pair<const ProgramBlock*, size_t>> blocks;
  for (const ProgramBlock& block : program_.blocks) {
    blocks.emplace_back(&block, plan_.line_count);
    plan_.line_count += block.terms.size();
    for (const ProgramTerm& term : block.terms) plan_.steps.push_back(StepsOf(term.id));
  }
  std::sort(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a.first->output, a.first->column) < std::make_pair(b.first->output, b.first->column);
  });
  for (const auto& [block, line] : blocks) {
    if (block->kind == BlockKind::kRow) AddRow(*block, Narrow(static_cast<int64_t>(line), "the number of lines"));
    if (block->kind == BlockKind::kCopy) AddCopy(*block);
    if (block->kind == BlockKind::kPool) AddPool(*block, Narrow(static_cast<int64_t>(line), "the number of lines"));
    if (block->kind == BlockKind::kBag) AddBag(*block, Narrow(static_cast<int64_t>(line), "the number of lines"));
  }
}

// Pools of tables come first: they take longest.
void LookupDevicePlanBuilder::AddSegments() {
  for (const TablePool& pool : table_pools_) {
    SegmentPlan segment{};
    segment.pooling = pool.pooling;
    AddPieces(pool.key, pool.terms, segment);
  }
  for (const auto& [key, pieces] : pieces_) AddPieces(key, pieces, {});
  for (const auto& [key, pieces] : plain_pool_pieces_) {
    for (const PlainPool& pool : pieces) plan_.short_pools &= pool.count <= kShortPool;
    AddSegment(key, plan_.plain_pools.size(), pieces.size(), {});
    plan_.plain_pools.insert(plan_.plain_pools.end(), pieces.begin(), pieces.end());
  }
  for (const auto& [key, pieces] : pool_pieces_) {
    AddSegment(key, plan_.pool_chunks.size(), pieces.size(), pool_terms_[key]);
    plan_.pool_chunks.insert(plan_.pool_chunks.end(), pieces.begin(), pieces.end());
  }
  for (const auto& [key, pieces] : bag_pieces_) {
    plan_.bag_segments.push_back(MadeSegment(key, plan_.bag_chunks.size(), pieces.size(), bag_lists_[key]));
    plan_.bag_chunks.insert(plan_.bag_chunks.end(), pieces.begin(), pieces.end());
  }
  for (const auto& [key, pieces] : plain_bag_pieces_) {
    SegmentPlan segment = plain_bag_lists_[key];
    segment.lanes_log2 = key.second;
    segment.pooling.weighted = std::get<4>(key.first);
    plan_.plain_bag_segments.push_back(
        MadeSegment(key.first, plan_.plain_bags.size(), pieces.size(), std::move(segment)));
    plan_.plain_bags.insert(plan_.plain_bags.end(), pieces.begin(), pieces.end());
  }
}

void LookupDevicePlanBuilder::AddPieces(const SegmentKey& key, const std::vector<Piece>& pieces, SegmentPlan segment) {
  segment.source_word = pieces[0].lookup.facts.word();
  segment.one_source = std::all_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
    return piece.lookup.facts.word() == segment.source_word;
  });
  AddSegment(key, plan_.chunks.size(), pieces.size(), std::move(segment));
  for (const Piece& piece : pieces) {
    plan_.chunks.push_back(piece.lookup);
    plan_.chunk_lines.push_back(piece.line);
  }
}

void LookupDevicePlanBuilder::AddSegment(const SegmentKey& key, size_t first, size_t count, SegmentPlan segment) {
  segment = MadeSegment(key, first, count, std::move(segment));
  const ChunkKind kind = segment.kind;
  const bool general_rows = kind >= ChunkKind::kGeneral16 && kind <= ChunkKind::kGeneral2;
  plan_.has_general |= general_rows || IsPool(kind);
  plan_.has_plain_pools |= IsPlainPool(kind);
  plan_.has_table_pools |= IsTablePool(kind);
  plan_.segments.push_back(std::move(segment));
}

SegmentPlan LookupDevicePlanBuilder::MadeSegment(const SegmentKey& key, size_t first, size_t count,
                                                 SegmentPlan segment) const {
  if (first + count > size_t{1} << 30) {
    throw ProgramTooLarge("an output row takes more than 2^30 chunks, more than the CUDA kernel takes");
  }
  std::tie(segment.output, segment.kind, segment.read, segment.column_layout, segment.shifted) = key;
  segment.first_chunk = static_cast<uint32_t>(first);
  segment.chunk_count = static_cast<uint32_t>(count);
  segment.row_bytes = RowBytes(segment.output);
  auto& stars = segment.star_sources;
  std::sort(stars.begin(), stars.end());
  stars.erase(std::unique(stars.begin(), stars.end()), stars.end());
  return segment;
}

LookupDevicePlan MakeLookupDevicePlan(const LookupProgram& program, const std::vector<ElementType>& source_types,
                                      ElementType table_type, const std::vector<const void*>& tables) {
  return LookupDevicePlanBuilder(program, source_types, table_type, tables).Build();
}

}  // namespace dpiframe::cuda
