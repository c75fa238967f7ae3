// Bags of any length of a LookupDevicePlan.
#include "device_plan_builder.h"

namespace dpiframe::cuda {

bool LookupDevicePlanBuilder::FitsPlainBag(const ProgramBlock& block, const Lookup& lookup) const {
  const auto is_plain = [](Read read) { return read == Read::kInt32 || read == Read::kInt64; };
  const TermWeight& weight = block.terms[0].weight;
  return is_plain(lookup.facts.read()) && !lookup.facts.has_steps() && lookup.facts.table_rows() <= int64_t{1} << 32 &&
         is_plain(ReadOf(source_types_[static_cast<size_t>(block.offsets.source)])) && !HasSteps(block.offsets) &&
         (weight.kind == WeightKind::kOne ||
          source_types_[static_cast<size_t>(weight.source)] == ElementType::kFloat32);
}

void LookupDevicePlanBuilder::AddPlainBag(const ProgramBlock& block, uint32_t line, const Lookup& lookup) {
  const ProgramTerm& term = block.terms[0];
  const size_t offsets = static_cast<size_t>(block.offsets.source);
  const bool weighted = term.weight.kind == WeightKind::kColumn;
  PlainBag bag{};
  bag.lookup = lookup;
  bag.lookup.column = Narrow(block.offsets.column, "a source's column");
  bag.lookup.columns = ColumnsField(block.offsets.source);
  bag.padding = block.padding;
  bag.line = line;
  bag.offsets_word = static_cast<uint16_t>(plan_.source_words[offsets]);
  if (weighted) bag.weights_word = static_cast<uint16_t>(plan_.source_words[static_cast<size_t>(term.weight.source)]);
  bag.rule = RuleOf(block.op);
  bag.wide_offsets = source_types_[offsets] == ElementType::kInt64;
  bag.bounds = program_.sources[offsets].layout == Layout::kBounds;
  bag.lowest = block.empty != 0;
  const std::vector<PoolPiece> pieces = CutPool(block);
  for (auto first = pieces.begin(); first != pieces.end();) {
    auto last = first;
    while (last != pieces.end() && last->bytes == first->bytes && last - first < 1 << kMaxBagLanesLog2) ++last;
    PlainBag piece = bag;
    piece.lookup.base.bits += first->done;
    piece.lookup.facts = bag.lookup.facts.With(Facts::kCountingBit, first->done == 0);
    piece.lookup.extra = first->place;
    piece.chunk_count = static_cast<uint8_t>(last - first);
    uint8_t lanes_log2 = kMinBagLanesLog2;
    while (1 << lanes_log2 < piece.chunk_count) ++lanes_log2;
    const ChunkKind kind = first->bytes == kChunkBytes ? ChunkKind::kPlainBag16 : ChunkKind::kPlainBagElement;
    const std::pair key{SegmentKey{block.output, kind, lookup.facts.read(), false, weighted}, lanes_log2};
    plain_bag_pieces_[key].push_back(piece);
    plain_bag_lists_[key].star_sources.push_back(term.id.source);
    first = last;
  }
}

void LookupDevicePlanBuilder::AddBag(const ProgramBlock& block, uint32_t line) {
  const ProgramTerm& term = block.terms[0];
  BagChunk bag{};
  bag.lookup = MakeLookup(term);
  if (FitsPlainBag(block, bag.lookup)) return AddPlainBag(block, line, bag.lookup);
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
  for (const auto& [bytes, done, place] : CutPool(block)) {
    const ChunkKind kind = bytes == kChunkBytes ? ChunkKind::kBag16 : ChunkKind::kBagElement;
    const SegmentKey key{block.output, kind, Read::kInt32, false, false};
    BagChunk chunk = bag;
    chunk.lookup.base.bits += done;
    chunk.lookup.facts = bag.lookup.facts.With(Facts::kCountingBit, done == 0);
    chunk.lookup.extra = place;
    bag_pieces_[key].push_back(chunk);
    bag_lists_[key].star_sources.push_back(term.id.source);
  }
}

}  // namespace dpiframe::cuda
