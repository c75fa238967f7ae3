// Bags of any length of a LookupDevicePlan.
#include "device_plan_builder.h"

namespace dpiframe::cuda {

void LookupDevicePlanBuilder::AddBag(const ProgramBlock& block, uint32_t line) {
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
