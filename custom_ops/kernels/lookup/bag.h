// Bags: each row pools as many rows of a table as it has ids in a list.
#pragma once

#include <cstdint>

#include "bounds.h"
#include "copy.h"
#include "ids.h"
#include "plain_bag.h"
#include "plan.h"
#include "pool.h"

namespace dpiframe {
namespace {

// Ids of a list that are looked up, those at positions [first, first + kListBlock). Bits tell which are outside the
// table and which are padding.
struct ListBlock {
  int64_t first = -1;
  uint32_t outside = 0;
  uint32_t padding = 0;
  const char* rows[kListBlock];
  float weights[kListBlock];
};

// Looks a list up block by block, and asks for rows ahead of their use, whichever bags their ids belong to: so that
// short bags don't wait for memory either.
class ListReader {
 public:
  // `end`: the position behind the last that is asked for.
  ListReader(const PlanView& plan, const LookupCall& call, const Bag& bag, int64_t end)
      : plan_(plan), call_(call), bag_(bag), end_(end) {}

  const ListBlock& BlockOf(int64_t position) {
    ListBlock& block = blocks_[position / kListBlock % 2];
    const int64_t first = position / kListBlock * kListBlock;
    if (block.first != first) Fill(first, &block);
    return block;
  }

  // Asks for the rows behind `position`, which follows those that have been asked for unless bags are out of order.
  void LookAhead(int64_t position) {
    if (asked_ < position || asked_ > position + kListBlock) asked_ = position;
    int64_t stop = position + bag_.rows_ahead;
    if (stop > end_) stop = end_;
    const int64_t bytes = bag_.width * (plan_.type == ElementType::kFloat32 ? 4 : 2);
    while (asked_ < stop) {
      const ListBlock& block = BlockOf(asked_);
      int64_t end = block.first + kListBlock;
      if (end > stop) end = stop;
      for (; asked_ < end; ++asked_) PrefetchLines(block.rows[asked_ - block.first], bytes);
    }
  }

  int64_t IdAt(int64_t position) const {
    int64_t id = 0;
    LoadIds(plan_, call_, bag_.id, position, 1, 1, &id);
    return id;
  }

 private:
  void Fill(int64_t first, ListBlock* block) const {
    const int64_t left = call_.columns[bag_.id.source] - first;
    const int64_t count = left < kListBlock ? left : kListBlock;
    int64_t ids[kListBlock];
    LoadIds(plan_, call_, bag_.id, first, 1, count, ids);
    block->first = first;
    block->outside = 0;
    block->padding = 0;
    const bool inside = ResolveIds(bag_.table_rows, ids, count);
    for (int64_t i = 0; i < count; ++i) {
      if (bag_.padding >= 0 && ids[i] == bag_.padding) block->padding |= 1u << i;
      if (!inside && static_cast<uint64_t>(ids[i]) >= static_cast<uint64_t>(bag_.table_rows)) {
        block->outside |= 1u << i;
        ids[i] = plan_.outside != OutsideTable::kClamp ? -1 : ids[i] < 0 ? 0 : bag_.table_rows - 1;
      }
      block->rows[i] = AddressOf(call_, bag_.address, ids[i]);
    }
    if (bag_.weight_source < 0) return;
    for (int64_t i = 0; i < count; ++i) block->weights[i] = WeightAt(first + i);
  }

  float WeightAt(int64_t position) const {
    return ColumnValue(call_, bag_.weight_source, plan_.sources.data[bag_.weight_source].type, position);
  }

  const PlanView& plan_;
  const LookupCall& call_;
  const Bag& bag_;
  int64_t end_;
  int64_t asked_ = 0;  // the first position whose row hasn't been asked for
  ListBlock blocks_[2];
};

// Positions [begin, end) of a list, pooled into `totals`. Returns how many of them count.
template <typename Element>
inline int64_t JoinList(const Bag& bag, const Pooling& pooling, int64_t row, int64_t begin, int64_t end,
                        ListReader* reader, float* totals, BadIds* bad_ids) {
  int64_t joined = 0;
  while (begin < end) {
    reader->LookAhead(begin);
    const ListBlock& block = reader->BlockOf(begin);
    const int64_t first = begin - block.first;
    int64_t stop = end - block.first < kListBlock ? end - block.first : kListBlock;
    // few at a time, between which more are asked for
    if (stop - first > bag.rows_at_once) stop = first + bag.rows_at_once;
    const int64_t count = stop - first;
    const uint32_t taken = static_cast<uint32_t>(((uint64_t{1} << count) - 1) << first);
    for (uint32_t outside = block.outside & taken; outside != 0; outside &= outside - 1) {
      AddBadId(bag.address.line, row, reader->IdAt(block.first + __builtin_ctz(outside)), bad_ids);
    }
    if ((block.padding & taken) == 0) {
      JoinRows<Element>(pooling, {count, block.rows + first, block.weights + first, joined == 0}, totals);
      joined += count;
    } else {
      PoolBatch kept;
      for (uint32_t rest = taken & ~block.padding; rest != 0; rest &= rest - 1) {
        const int i = __builtin_ctz(rest);
        kept.rows[kept.count] = block.rows[i];
        kept.weights[kept.count] = block.weights[i];
        ++kept.count;
      }
      JoinRows<Element>(pooling, {kept.count, kept.rows, kept.weights, joined == 0}, totals);
      joined += kept.count;
    }
    begin = block.first + stop;
  }
  return joined;
}

// One bag in rows [begin, end), which are some. Id: the type of ids where they are integers.
template <typename Element, typename Id>
void BagRowsOf(const PlanView& plan, const LookupCall& call, const Bag& bag, int64_t begin, int64_t end, float* totals,
               BadIds* bad_ids) {
  const Pooling pooling{bag.kind, bag.weight_source >= 0, 0.0f, bag.width};
  const int64_t row_bytes = plan.output_row_bytes.data[bag.output];
  char* to = static_cast<char*>(call.outputs[bag.output]) + begin * row_bytes + bag.offset;
  int64_t offsets[kBlockRows + 1];
  LoadOffsets(plan, call, bag, end - 1, 1, offsets);
  const int64_t last = offsets[1];
  ListReader reader(plan, call, bag, last);
  PlainStretch<Id> stretch(plan, call, bag);
  PlainIds ids = PlainIdsOf(call, bag, sizeof(Element), last);
  for (int64_t block = begin; block < end; block += kBlockRows) {
    const int64_t count = end - block < kBlockRows ? end - block : kBlockRows;
    LoadOffsets(plan, call, bag, block, count, offsets);
    for (int64_t i = 0; i < count; ++i, to += row_bytes) {
      if constexpr (sizeof(Element) == 4) totals = reinterpret_cast<float*>(to);
      ids.begin = offsets[i];
      ids.end = offsets[i + 1];
      int64_t joined = 0;
      if (ids.begin < ids.end) {
        if (stretch.Has(ids.begin, ids.end, last)) {
          JoinPlainBag<Element, Id>(bag.kind, ids, bag.width, totals);
          joined = ids.end - ids.begin;
        } else {
          joined = JoinList<Element>(bag, pooling, block + i, ids.begin, ids.end, &reader, totals, bad_ids);
        }
      }
      if (joined == 0) {
        for (int64_t k = 0; k < bag.width; ++k) totals[k] = bag.empty;
      } else if (bag.kind == PoolKind::kMean) {
        const float divisor = static_cast<float>(joined);
        for (int64_t k = 0; k < bag.width; ++k) totals[k] /= divisor;
      }
      if constexpr (sizeof(Element) != 4) StoreTotals<Element>(totals, bag.width, to);
    }
  }
}

template <typename Element>
void BagRows(const PlanView& plan, const LookupCall& call, const Bag& bag, int64_t begin, int64_t end, float* totals,
             BadIds* bad_ids) {
  if (begin >= end) return;
  if (plan.sources.data[bag.id.source].type == ElementType::kInt32) {
    BagRowsOf<Element, int32_t>(plan, call, bag, begin, end, totals, bad_ids);
  } else {
    BagRowsOf<Element, int64_t>(plan, call, bag, begin, end, totals, bad_ids);
  }
}

}  // namespace
}  // namespace dpiframe
