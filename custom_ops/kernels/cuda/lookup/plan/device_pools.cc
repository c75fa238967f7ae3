// Pools of a LookupDevicePlan.
#include <algorithm>

#include "device_plan_builder.h"
#include "kernels/lookup/ids.h"

namespace dpiframe::cuda {
namespace {

constexpr size_t kMaxTablePools = kMaxSegments / 2;  // each is a segment, for which a launch has little room

// Whether the weight of each term of a run compares the term's own id.
bool ComparesOwnId(const ProgramTerm& term, const TermRun& run) {
  return term.weight.id == term.id && (run.count == 1 || run.weight_column_step == 1);
}

bool IsPlainRun(const Lookup& lookup, const ProgramTerm& term, const TermRun& run) {
  const Facts facts = lookup.facts;
  const bool masked = term.weight.kind == WeightKind::kNotEqual && ComparesOwnId(term, run) && run.number_step == 0;
  return (facts.read() == Read::kInt32 || facts.read() == Read::kInt64) && !facts.has_steps() &&
         !facts.dynamic_table() && facts.table_rows() <= int64_t{1} << 32 && lookup.columns != 0 &&
         (masked || term.weight.kind == WeightKind::kOne);
}

uint32_t CountOf(const TermRun& run) { return run.count == 0 ? kDynamicColumns : static_cast<uint32_t>(run.count); }

}  // namespace

// Chunks of 16 bytes, or of single elements where those don't suit all places of the pool.
std::vector<LookupDevicePlanBuilder::PoolPiece> LookupDevicePlanBuilder::CutPool(const ProgramBlock& block) {
  const uint64_t start = static_cast<uint64_t>(block.column) * ElementBytes();
  const uint64_t width = static_cast<uint64_t>(block.width) * ElementBytes();
  std::vector<PoolPiece> pieces;
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
    pieces.push_back(
        {bytes, done, Narrow(static_cast<int64_t>((start + done) / bytes), "the width of an output's row")});
    Raise(&plan_.output_alignments[static_cast<size_t>(block.output)], bytes);
    for (const ProgramTerm& term : block.terms) {
      Raise(&plan_.table_alignments[static_cast<size_t>(term.table)], bytes);
    }
    done += bytes;
  }
  return pieces;
}

void LookupDevicePlanBuilder::AddPool(const ProgramBlock& block, uint32_t line) {
  Pooling pooling{};
  pooling.rule = RuleOf(block.op);
  pooling.x = block.x;
  for (const ProgramTerm& term : block.terms) pooling.weighted |= term.weight.kind != WeightKind::kOne;
  const std::vector<PoolPiece> pieces = CutPool(block);
  const std::vector<TermRun> runs = FindRuns(program_, block.terms);
  const ProgramTerm& first = block.terms[runs[0].first];
  const Lookup lookup = MakeLookup(first);
  if (runs.size() == 1 && IsPlainRun(lookup, first, runs[0])) {
    AddPlainPool(block, line, pooling, pieces, runs[0], lookup);
  } else if (FitsTablePool(block, pieces)) {
    AddTablePool(block, line, pooling, pieces);
  } else {
    AddGeneralPool(block, line, pooling, pieces, runs);
  }
}

bool LookupDevicePlanBuilder::FitsTablePool(const ProgramBlock& block, const std::vector<PoolPiece>& pieces) {
  if (block.terms.size() < 2 || static_cast<uint64_t>(block.width) * ElementBytes() > kChunkBytes ||
      table_pools_.size() + pieces.size() > kMaxTablePools) {
    return false;
  }
  const auto key_of = [&](const ProgramTerm& term) {
    SegmentKey key = RowKey(block.output, term.id, MakeLookup(term), pieces[0].bytes);
    std::get<4>(key) = false;  // a number may be added to some ids alone
    return key;
  };
  const SegmentKey key = key_of(block.terms[0]);
  return std::get<1>(key) < ChunkKind::kGeneral16 &&
         std::all_of(
             block.terms.begin(), block.terms.end(),
             [&](const ProgramTerm& term) {
               return !term.id.is_star() && term.weight.kind == WeightKind::kOne && key_of(term) == key;
             });
}

void LookupDevicePlanBuilder::AddTablePool(const ProgramBlock& block, uint32_t line, const Pooling& pooling,
                                           const std::vector<PoolPiece>& pieces) {
  for (const auto& [bytes, done, place] : pieces) {
    TablePool pool{{}, pooling, {}};
    bool shifted = false;
    for (size_t i = 0; i < block.terms.size(); ++i) {
      const ProgramTerm& term = block.terms[i];
      Lookup lookup = MakeLookup(term);
      pool.key = RowKey(block.output, term.id, lookup, bytes);
      shifted |= std::get<4>(pool.key);
      lookup.base.bits += done;
      lookup.facts = lookup.facts.With(Facts::kCountingBit, done == 0);
      lookup.extra = place;
      pool.terms.push_back({lookup, line + static_cast<uint32_t>(i)});
    }
    std::get<1>(pool.key) = bytes == kChunkBytes ? ChunkKind::kTablePool16 : ChunkKind::kTablePoolElement;
    std::get<4>(pool.key) = shifted;
    table_pools_.push_back(std::move(pool));
  }
}

void LookupDevicePlanBuilder::AddPlainPool(const ProgramBlock& block, uint32_t line, const Pooling& pooling,
                                           const std::vector<PoolPiece>& pieces, const TermRun& run,
                                           const Lookup& lookup) {
  const ProgramTerm& term = block.terms[0];
  const Mask mask = term.weight.kind == WeightKind::kNotEqual ? Mask::kZeroWeight : Mask::kNone;
  const PlainPool pool{lookup, term.weight.number, CountOf(run), line, pooling, mask, term.id.is_star() ? 0u : 1u};
  for (const auto& [bytes, done, place] : pieces) {
    const ChunkKind kind = bytes == kChunkBytes ? ChunkKind::kPlainPool16 : ChunkKind::kPlainPoolElement;
    PlainPool chunk = pool;
    chunk.lookup.base.bits += done;
    chunk.lookup.facts = lookup.facts.With(Facts::kCountingBit, done == 0);
    chunk.lookup.extra = place;
    plain_pool_pieces_[{block.output, kind, lookup.facts.read(), false, false}].push_back(chunk);
  }
}

void LookupDevicePlanBuilder::AddGeneralPool(const ProgramBlock& block, uint32_t line, const Pooling& pooling,
                                             const std::vector<PoolPiece>& pieces, const std::vector<TermRun>& runs) {
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
  for (const auto& [bytes, done, place] : pieces) {
    const ChunkKind kind = bytes == kChunkBytes ? ChunkKind::kPool16 : ChunkKind::kPoolElement;
    const SegmentKey key{block.output, kind, Read::kInt32, false, false};
    pool_pieces_[key].push_back({number, static_cast<uint32_t>(done), place, done == 0 ? 1u : 0u});
    SegmentPlan& most = pool_terms_[key];
    most.terms = std::max(most.terms, terms.terms);
    for (int source : terms.star_sources) most.star_sources.push_back(source);
  }
}

// Single terms that follow each other share a group. To be called before the term is added.
void LookupDevicePlanBuilder::AddToGroup(const Pool& pool, const TermRun& run, bool star) {
  const bool is_run = star || run.count > 1;
  if (!is_run && plan_.groups.size() > pool.first_group && plan_.groups.back().is_run == 0) {
    ++plan_.groups.back().count;
    return;
  }
  plan_.groups.push_back({static_cast<uint32_t>(plan_.terms.size()), CountOf(run), is_run ? 1u : 0u, star ? 0u : 1u});
}

Weight LookupDevicePlanBuilder::MakeWeight(const ProgramTerm& term, const TermRun& run) {
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

void LookupDevicePlanBuilder::SetWeightSource(int source, int64_t column, Weight* weight) const {
  weight->read = ReadOf(source_types_[static_cast<size_t>(source)]);
  weight->word = static_cast<uint16_t>(plan_.source_words[static_cast<size_t>(source)]);
  weight->column = column == kStar ? 0 : Narrow(column, "a source's column");
  weight->columns = ColumnsField(source);
}

}  // namespace dpiframe::cuda
