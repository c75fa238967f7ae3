#include "lookup_device_plan.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "../lookup_ids.h"
#include "pool_runs.h"

namespace dpiframe::cuda {
namespace {

constexpr uint32_t kChunkBytes = 16;
constexpr uint32_t kLongPool = 16;  // terms of a pool, from which on padding may end two rows' bags far apart

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

// The kind for chunks of so many bytes, `of_16` being that for 16.
ChunkKind KindOf(ChunkKind of_16, uint32_t bytes) {
  const uint32_t smaller = bytes == 16 ? 0 : bytes == 8 ? 1 : bytes == 4 ? 2 : 3;
  return static_cast<ChunkKind>(static_cast<uint32_t>(of_16) + smaller);
}

class Builder {
 public:
  Builder(const LookupProgram& program, const std::vector<ElementType>& source_types, ElementType table_type,
          const std::vector<const void*>& tables)
      : program_(program), source_types_(source_types), type_(table_type), tables_(tables) {}

  LookupDevicePlan Build() {
    plan_.element_bytes = ElementBytes();
    plan_.clamp = program_.bad == BadIdPolicy::kClamp;
    AssignWords();
    AddBlocks();
    AddSegments();
    return std::move(plan_);
  }

 private:
  struct Piece {
    Lookup lookup;
    uint32_t line;
  };
  // Output, kind, and what a plain segment's chunks have in common.
  using SegmentKey = std::tuple<int, ChunkKind, Read, bool, bool>;

  uint32_t ElementBytes() const { return type_ == ElementType::kFloat16 ? 2 : 4; }
  uint64_t RowBytes(int output) const {
    return static_cast<uint64_t>(program_.outputs[static_cast<size_t>(output)].width) * ElementBytes();
  }

  void AssignWords() {
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
  void AddBlocks() {
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

  static Steps StepsOf(const IdExpression& id) { return {id.div, id.mod, id.mul, id.add}; }

  // Where the id of a row or term is read, and in which table the row lies.
  Lookup MakeLookup(const ProgramTerm& term) {
    const ProgramTable& table = program_.tables[static_cast<size_t>(term.table)];
    const size_t number = static_cast<size_t>(term.table);
    Lookup lookup{};
    const uint64_t offset = static_cast<uint64_t>(term.first) * ElementBytes();
    const bool dynamic = tables_[number] == nullptr;
    lookup.base.bits = dynamic ? uint64_t{plan_.table_words[number]} << TableBase::kOffsetBits | offset
                               : reinterpret_cast<uint64_t>(tables_[number]) + offset;
    lookup.stride = Narrow(table.dim * ElementBytes(), "the size of a table's row in bytes");
    if (term.id.source < 0) {
      const IdColumn id{-1, 0, term.id.constant, term.id.div, term.id.mod, term.id.mul, term.id.add};
      const uint64_t value = static_cast<uint64_t>(ApplySteps(id, term.id.constant));
      lookup.facts = Facts::Of(table.rows, 0, Read::kConstant);
      lookup.column = static_cast<uint32_t>(value);
      lookup.columns = static_cast<uint32_t>(value >> 32);
    } else {
      const size_t source = static_cast<size_t>(term.id.source);
      lookup.facts = Facts::Of(table.rows, plan_.source_words[source], ReadOf(source_types_[source]));
      lookup.facts = lookup.facts.With(Facts::kStepsBit, HasSteps(term.id));
      lookup.column = term.id.is_star() ? 0 : Narrow(term.id.column, "a source's column");
      lookup.columns = ColumnsField(term.id.source);
    }
    lookup.facts = lookup.facts.With(Facts::kDynamicTableBit, dynamic);
    return lookup;
  }

  uint32_t ColumnsField(int source) const {
    const ProgramSource& layout = program_.sources[static_cast<size_t>(source)];
    if (layout.columns == kStar) return kDynamicColumns;
    return layout.layout == Layout::kColumn ? 0 : Narrow(layout.columns, "the number of a source's columns");
  }

  // The largest chunk that starts at `offset` bytes of the row and `from` bytes of what is read.
  static uint32_t ChunkBytes(uint64_t row_bytes, uint64_t offset, uint64_t from, uint64_t from_stride, uint64_t left,
                             uint32_t least) {
    uint32_t bytes = kChunkBytes;
    while (bytes > least && ((row_bytes | offset | from | from_stride) % bytes != 0 || left < bytes)) bytes /= 2;
    return bytes;
  }

  void Emit(const SegmentKey& key, uint32_t bytes, uint64_t offset, Lookup lookup, uint32_t line) {
    lookup.extra = Narrow(static_cast<int64_t>(offset / bytes), "the width of an output's row");
    pieces_[key].push_back({lookup, line});
    Raise(&plan_.output_alignments[static_cast<size_t>(std::get<0>(key))], bytes);
  }

  // The segment of a looked-up row's chunks.
  SegmentKey RowKey(int output, const IdExpression& id, const Lookup& lookup, uint32_t bytes) const {
    const Read read = lookup.facts.read();
    const bool shift_alone = id.div == 0 && id.mod == 0 && id.mul == 1;
    const bool plain = (read == Read::kInt32 || read == Read::kInt64) && shift_alone && !lookup.facts.dynamic_table() &&
                       lookup.facts.table_rows() <= int64_t{1} << 32;
    if (!plain) return {output, KindOf(ChunkKind::kGeneral16, bytes), Read::kInt32, false, false};
    return {output, KindOf(ChunkKind::kPlain16, bytes), read, lookup.columns == 0, id.add != 0};
  }

  static void Raise(uint32_t* alignment, uint32_t bytes) { *alignment = std::max(*alignment, bytes); }

  void AddRow(const ProgramBlock& block, uint32_t line) {
    const ProgramTerm& term = block.terms[0];
    const Lookup whole = MakeLookup(term);
    const uint64_t first = static_cast<uint64_t>(term.first) * ElementBytes();
    const uint64_t start = static_cast<uint64_t>(block.column) * ElementBytes();
    const uint64_t width = static_cast<uint64_t>(block.width) * ElementBytes();
    for (uint64_t done = 0; done < width;) {
      const uint32_t bytes =
          ChunkBytes(RowBytes(block.output), start + done, first + done, whole.stride, width - done, ElementBytes());
      Lookup chunk = whole;
      chunk.base.bits += done;
      chunk.facts = chunk.facts.With(Facts::kCountingBit, done == 0);
      Emit(RowKey(block.output, term.id, chunk, bytes), bytes, start + done, chunk, line);
      Raise(&plan_.table_alignments[static_cast<size_t>(term.table)], bytes);
      done += bytes;
    }
  }

  void AddCopy(const ProgramBlock& block) {
    const size_t source = static_cast<size_t>(block.source);
    const ProgramSource& layout = program_.sources[source];
    const bool to_half = source_types_[source] != type_;
    // Whole chunks only where the source's columns lie side by side in the output's own type.
    const bool by_element = to_half || layout.layout == Layout::kColumn;
    Lookup copy{};
    copy.facts = Facts::Of(0, plan_.source_words[source], ReadOf(source_types_[source])).With(Facts::kHalfBit, to_half);
    copy.columns = ColumnsField(block.source);
    const uint64_t first = static_cast<uint64_t>(block.first_column) * ElementBytes();
    const uint64_t stride = static_cast<uint64_t>(layout.columns) * ElementBytes();
    const uint64_t start = static_cast<uint64_t>(block.column) * ElementBytes();
    const uint64_t width = static_cast<uint64_t>(block.width) * ElementBytes();
    for (uint64_t done = 0; done < width;) {
      const uint32_t bytes = by_element ? ElementBytes()
                                        : ChunkBytes(RowBytes(block.output), start + done, first + done, stride,
                                                     width - done, ElementBytes());
      copy.column = Narrow(static_cast<int64_t>((first + done) / ElementBytes()), "a source's column");
      Emit({block.output, KindOf(ChunkKind::kCopy16, bytes), Read::kInt32, false, false}, bytes, start + done, copy, 0);
      if (!by_element) Raise(&plan_.source_alignments[source], bytes);
      done += bytes;
    }
  }

  void AddPool(const ProgramBlock& block, uint32_t line) {
    Pooling pooling{};
    pooling.rule = RuleOf(block.op);
    pooling.x = block.x;
    for (const ProgramTerm& term : block.terms) pooling.weighted |= term.weight.kind != WeightKind::kOne;
    const std::vector<TermRun> runs = FindRuns(program_, block.terms);
    const ProgramTerm& first = block.terms[runs[0].first];
    const Lookup lookup = MakeLookup(first);
    if (runs.size() == 1 && IsPlainRun(lookup, first, runs[0])) {
      AddPlainPool(block, line, pooling, runs[0], lookup);
    } else {
      AddGeneralPool(block, line, pooling, runs);
    }
  }

  void AddBag(const ProgramBlock& block, uint32_t line) {
    const ProgramTerm& term = block.terms[0];
    BagChunk bag{};
    bag.lookup = MakeLookup(term);
    bag.padding = block.padding;
    bag.line = line;
    bag.rule = RuleOf(block.op);
    bag.lowest = block.empty != 0;
    bag.weights_read = Read::kConstant;
    if (term.weight.kind == WeightKind::kColumn) {
      const size_t weights = static_cast<size_t>(term.weight.source);
      bag.weights_read = ReadOf(source_types_[weights]);
      bag.weights_word = static_cast<uint16_t>(plan_.source_words[weights]);
    }
    const size_t offsets = static_cast<size_t>(block.offsets.source);
    bag.offsets_read = ReadOf(source_types_[offsets]);
    bag.offsets_word = static_cast<uint16_t>(plan_.source_words[offsets]);
    bag.offsets_column = Narrow(block.offsets.column, "a source's column");
    bag.offsets_columns = ColumnsField(block.offsets.source);
    bag.bounds = program_.sources[offsets].layout == Layout::kBounds;
    bag.offsets_steps = -1;
    if (HasSteps(block.offsets)) {
      bag.offsets_steps = static_cast<int32_t>(plan_.steps.size());
      plan_.steps.push_back(StepsOf(block.offsets));
    }
    ForPoolChunks(block, [&](uint32_t bytes, uint64_t done, uint32_t place) {
      const ChunkKind kind = bytes == kChunkBytes ? ChunkKind::kBag16 : ChunkKind::kBagElement;
      const SegmentKey key{block.output, kind, Read::kInt32, false, false};
      BagChunk chunk = bag;
      chunk.lookup.base.bits += done;
      chunk.lookup.facts = bag.lookup.facts.With(Facts::kCountingBit, done == 0);
      chunk.lookup.extra = place;
      bag_pieces_[key].push_back(chunk);
      bag_lists_[key].star_sources.push_back(term.id.source);
    });
  }

  static PoolRule RuleOf(PoolOp op) {
    return op == PoolOp::kSum ? PoolRule::kSum : op == PoolOp::kMean ? PoolRule::kMean : PoolRule::kMax;
  }

  static bool IsPlainRun(const Lookup& lookup, const ProgramTerm& term, const TermRun& run) {
    const Facts facts = lookup.facts;
    const bool masked = term.weight.kind == WeightKind::kNotEqual && ComparesOwnId(term, run) && run.number_step == 0;
    return (facts.read() == Read::kInt32 || facts.read() == Read::kInt64) && !facts.has_steps() &&
           !facts.dynamic_table() && facts.table_rows() <= int64_t{1} << 32 && lookup.columns != 0 &&
           (masked || term.weight.kind == WeightKind::kOne);
  }

  // Whether the weight of each term of a run compares the term's own id.
  static bool ComparesOwnId(const ProgramTerm& term, const TermRun& run) {
    return term.weight.id == term.id && (run.count == 1 || run.weight_column_step == 1);
  }

  static uint32_t CountOf(const TermRun& run) {
    return run.count == 0 ? kDynamicColumns : static_cast<uint32_t>(run.count);
  }

  void AddPlainPool(const ProgramBlock& block, uint32_t line, const Pooling& pooling, const TermRun& run,
                    const Lookup& lookup) {
    const ProgramTerm& term = block.terms[0];
    const Mask mask = term.weight.kind == WeightKind::kNotEqual ? Mask::kZeroWeight : Mask::kNone;
    const PlainPool pool{lookup, term.weight.number, CountOf(run), line, pooling, mask, term.id.is_star() ? 0u : 1u};
    ForPoolChunks(block, [&](uint32_t bytes, uint64_t done, uint32_t place) {
      const ChunkKind kind = bytes == kChunkBytes ? ChunkKind::kPlainPool16 : ChunkKind::kPlainPoolElement;
      PlainPool chunk = pool;
      chunk.lookup.base.bits += done;
      chunk.lookup.facts = lookup.facts.With(Facts::kCountingBit, done == 0);
      chunk.lookup.extra = place;
      plain_pool_pieces_[{block.output, kind, lookup.facts.read(), false, false}].push_back(chunk);
    });
  }

  void AddGeneralPool(const ProgramBlock& block, uint32_t line, const Pooling& pooling,
                      const std::vector<TermRun>& runs) {
    Pool pool{static_cast<uint32_t>(plan_.groups.size()), 0, pooling};
    SegmentPlan terms{};
    for (const TermRun& run : runs) {
      const ProgramTerm& term = block.terms[run.first];
      Lookup lookup = MakeLookup(term);
      lookup.extra = line + static_cast<uint32_t>(run.first);
      AddToGroup(pool, run, term.id.is_star());
      plan_.terms.push_back(lookup);
      plan_.weights.push_back(MakeWeight(term, run));
      terms.terms += run.count;
      if (run.count == 0) terms.star_sources.push_back(term.id.source);
    }
    pool.group_count = static_cast<uint32_t>(plan_.groups.size()) - pool.first_group;
    const uint32_t number = static_cast<uint32_t>(plan_.pools.size());
    plan_.pools.push_back(pool);
    ForPoolChunks(block, [&](uint32_t bytes, uint64_t done, uint32_t place) {
      const ChunkKind kind = bytes == kChunkBytes ? ChunkKind::kPool16 : ChunkKind::kPoolElement;
      const SegmentKey key{block.output, kind, Read::kInt32, false, false};
      pool_pieces_[key].push_back({number, static_cast<uint32_t>(done), place, done == 0 ? 1u : 0u});
      SegmentPlan& most = pool_terms_[key];
      most.terms = std::max(most.terms, terms.terms);
      for (int source : terms.star_sources) most.star_sources.push_back(source);
    });
  }

  // Cuts a pool into chunks of 16 bytes, or of single elements where those don't suit all of its places. `add` takes a
  // chunk's bytes, its offset from the start of the pool, and its place in the output row.
  template <typename Add>
  void ForPoolChunks(const ProgramBlock& block, Add&& add) {
    const uint64_t start = static_cast<uint64_t>(block.column) * ElementBytes();
    const uint64_t width = static_cast<uint64_t>(block.width) * ElementBytes();
    uint32_t fit = kChunkBytes;
    for (const ProgramTerm& term : block.terms) {
      const uint64_t stride =
          static_cast<uint64_t>(program_.tables[static_cast<size_t>(term.table)].dim) * ElementBytes();
      const uint64_t first = static_cast<uint64_t>(term.first) * ElementBytes();
      fit = std::min(fit, ChunkBytes(RowBytes(block.output), start, first, stride, width, ElementBytes()));
    }
    if (fit != kChunkBytes) fit = ElementBytes();
    for (uint64_t done = 0; done < width;) {
      const uint32_t bytes = width - done >= fit ? fit : ElementBytes();
      add(bytes, done, Narrow(static_cast<int64_t>((start + done) / bytes), "the width of an output's row"));
      Raise(&plan_.output_alignments[static_cast<size_t>(block.output)], bytes);
      for (const ProgramTerm& term : block.terms) {
        Raise(&plan_.table_alignments[static_cast<size_t>(term.table)], bytes);
      }
      done += bytes;
    }
  }

  // Single terms that follow each other share a group. To be called before the term is added.
  void AddToGroup(const Pool& pool, const TermRun& run, bool star) {
    const bool is_run = star || run.count > 1;
    if (!is_run && plan_.groups.size() > pool.first_group && plan_.groups.back().is_run == 0) {
      ++plan_.groups.back().count;
      return;
    }
    plan_.groups.push_back({static_cast<uint32_t>(plan_.terms.size()), CountOf(run), is_run ? 1u : 0u, star ? 0u : 1u});
  }

  Weight MakeWeight(const ProgramTerm& term, const TermRun& run) {
    const TermWeight& from = term.weight;
    Weight weight{};
    weight.number = from.number;
    weight.number_step = static_cast<uint8_t>(run.number_step);
    weight.column_step = static_cast<uint8_t>(run.weight_column_step);
    switch (from.kind) {
      case WeightKind::kOne:
        weight.rule = WeightRule::kOne;
        return weight;
      case WeightKind::kColumn:
        weight.rule = WeightRule::kColumn;
        SetWeightSource(from.source, from.column, &weight);
        return weight;
      case WeightKind::kNotEqual:
        weight.rule = WeightRule::kNotEqual;
        break;
      case WeightKind::kLess:
        weight.rule = WeightRule::kLess;
        if (from.position) weight.number = 0;
        break;
    }
    if (from.id.source < 0) {
      const IdColumn id{-1, 0, from.id.constant, from.id.div, from.id.mod, from.id.mul, from.id.add};
      const uint64_t value = static_cast<uint64_t>(ApplySteps(id, from.id.constant));
      weight.read = Read::kConstant;
      weight.column = static_cast<uint32_t>(value);
      weight.columns = static_cast<uint32_t>(value >> 32);
      return weight;
    }
    weight.same_as_id = ComparesOwnId(term, run);
    SetWeightSource(from.id.source, from.id.column, &weight);
    weight.has_steps = HasSteps(from.id);
    if (weight.has_steps) {
      weight.steps = static_cast<int32_t>(plan_.steps.size());
      plan_.steps.push_back(StepsOf(from.id));
    }
    return weight;
  }

  void SetWeightSource(int source, int64_t column, Weight* weight) const {
    weight->read = ReadOf(source_types_[static_cast<size_t>(source)]);
    weight->word = static_cast<uint16_t>(plan_.source_words[static_cast<size_t>(source)]);
    weight->column = column == kStar ? 0 : Narrow(column, "a source's column");
    weight->columns = ColumnsField(source);
  }

  void AddSegments() {
    for (const auto& [key, pieces] : pieces_) {
      SegmentPlan segment{};
      segment.source_word = pieces[0].lookup.facts.word();
      segment.one_source = std::all_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
        return piece.lookup.facts.word() == segment.source_word;
      });
      AddSegment(key, plan_.chunks.size(), pieces.size(), segment);
      for (const Piece& piece : pieces) {
        plan_.chunks.push_back(piece.lookup);
        plan_.chunk_lines.push_back(piece.line);
      }
    }
    for (const auto& [key, pieces] : plain_pool_pieces_) {
      SegmentPlan segment{};
      for (const PlainPool& pool : pieces) {
        segment.ragged |= pool.mask != Mask::kNone && pool.count > kLongPool;
        plan_.short_pools &= pool.count <= kShortPool;
      }
      AddSegment(key, plan_.plain_pools.size(), pieces.size(), segment);
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
  }

  void AddSegment(const SegmentKey& key, size_t first, size_t count, SegmentPlan segment) {
    segment = MadeSegment(key, first, count, std::move(segment));
    const ChunkKind kind = segment.kind;
    const bool general_rows = kind >= ChunkKind::kGeneral16 && kind <= ChunkKind::kGeneral2;
    const bool general_pools = kind == ChunkKind::kPool16 || kind == ChunkKind::kPoolElement;
    plan_.has_general |= general_rows || general_pools;
    plan_.has_pools |= kind >= ChunkKind::kPool16;
    plan_.segments.push_back(std::move(segment));
  }

  SegmentPlan MadeSegment(const SegmentKey& key, size_t first, size_t count, SegmentPlan segment) const {
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

  const LookupProgram& program_;
  const std::vector<ElementType>& source_types_;
  ElementType type_;
  const std::vector<const void*>& tables_;
  LookupDevicePlan plan_;
  std::map<SegmentKey, std::vector<Piece>> pieces_;
  std::map<SegmentKey, std::vector<PlainPool>> plain_pool_pieces_;
  std::map<SegmentKey, std::vector<PoolChunk>> pool_pieces_;
  std::map<SegmentKey, SegmentPlan> pool_terms_;
  std::map<SegmentKey, std::vector<BagChunk>> bag_pieces_;
  std::map<SegmentKey, SegmentPlan> bag_lists_;
};

}  // namespace

LookupDevicePlan MakeLookupDevicePlan(const LookupProgram& program, const std::vector<ElementType>& source_types,
                                      ElementType table_type, const std::vector<const void*>& tables) {
  return Builder(program, source_types, table_type, tables).Build();
}

}  // namespace dpiframe::cuda
