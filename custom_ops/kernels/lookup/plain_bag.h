// Bags of integers that are inside their table, as they stand in a list, and that count with weight 1: what an
// EmbeddingBag is nearly always given. Rows are pooled as their ids are read.
#pragma once

#include <cstdint>

#include "copy.h"
#include "ids.h"
#include "plan.h"
#include "pool.h"

namespace dpiframe {
namespace {

// Of rows that take several passes, so many are pooled together that the later passes find them in the L1 cache.
constexpr int64_t kRowsOfPasses = 16;

// A list of such ids, of which a bag has those at positions [begin, end).
struct PlainIds {
  const void* list;
  uintptr_t row_of_0;
  uint64_t stride;    // bytes of a table row
  int64_t row_bytes;  // that are pooled of one
  int64_t ahead;      // rows are asked for so many positions ahead of their use,
  int64_t asked_end;  // and none from here on
  int64_t begin;
  int64_t end;
};

template <typename Id>
[[gnu::always_inline]] inline const char* RowAt(const PlainIds& ids, int64_t position) {
  const uint64_t id = static_cast<uint64_t>(static_cast<int64_t>(LoadElement<Id>(ids.list, position)));
  return reinterpret_cast<const char*>(ids.row_of_0 + id * ids.stride);
}

// Some of a bag's ids as a source of terms. kAsks: their rows are read for the first time, and others are asked for.
template <typename Id, bool kAsks>
struct PlainTerms {
  const PlainIds& ids;
  int64_t begin;
  int64_t count;
  bool first;

  [[gnu::always_inline]] const char* Row(int64_t term) const {
    const int64_t position = begin + term;
    if constexpr (kAsks) {
      const int64_t next = position + ids.ahead;
      PrefetchLines(RowAt<Id>(ids, next < ids.asked_end ? next : position), ids.row_bytes);
    }
    return RowAt<Id>(ids, position);
  }
  PlainTerms<Id, false> Again() const { return {ids, begin, count, first}; }
};

template <typename Op, typename Element, typename Id>
inline void JoinPlainBagBy(const PlainIds& ids, int64_t width, float* totals) {
  const int64_t together = width <= 64 ? ids.end - ids.begin : kRowsOfPasses;
  for (int64_t begin = ids.begin; begin < ids.end; begin += together) {
    const int64_t count = ids.end - begin < together ? ids.end - begin : together;
    const PlainTerms<Id, true> terms{ids, begin, count, begin == ids.begin};
    JoinPasses<Op, Element, false>(terms, 0.0f, 0, width, totals);
  }
}

template <typename Element, typename Id>
inline void JoinPlainBag(PoolKind kind, const PlainIds& ids, int64_t width, float* totals) {
  if (kind == PoolKind::kMax) {
    JoinPlainBagBy<Max, Element, Id>(ids, width, totals);
  } else {
    JoinPlainBagBy<Sum, Element, Id>(ids, width, totals);
  }
}

// Finds out whether ids are such, a stretch of the list at a time: bags mostly follow each other.
template <typename Id>
class PlainStretch {
 public:
  PlainStretch(const PlanView& plan, const LookupCall& call, const Bag& bag)
      : bag_(bag), list_(call.sources[bag.id.source]) {
    const ElementType type = plan.sources.data[bag.id.source].type;
    const bool integers = type == ElementType::kInt32 || type == ElementType::kInt64;
    plain_ = integers && bag.weight_source < 0 && bag.id.div == 0 && bag.id.mod == 0 && bag.id.mul == 1;
  }

  // Positions [begin, end), at least one. Looks on up to `list_end`.
  bool Has(int64_t begin, int64_t end, int64_t list_end) {
    if (begin >= begin_ && end <= end_) return true;
    if (!plain_) return false;
    int64_t stop = list_end - begin < kLooked ? list_end : begin + kLooked;
    if (stop < end) stop = end;
    if (!AreInside(begin, stop)) {
      stop = end;
      if (!AreInside(begin, stop)) return false;
    }
    begin_ = begin;
    end_ = stop;
    return true;
  }

 private:
  static constexpr int64_t kLooked = 256;

  bool AreInside(int64_t begin, int64_t end) const {
    const uint64_t rows = static_cast<uint64_t>(bag_.table_rows);
    uint64_t others = 0;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t id = WrappingAdd(LoadElement<Id>(list_, i), bag_.id.add);
      others |= static_cast<uint64_t>(static_cast<uint64_t>(id) >= rows) | static_cast<uint64_t>(id == bag_.padding);
    }
    return others == 0;
  }

  const Bag& bag_;
  const void* list_;
  bool plain_;
  int64_t begin_ = 0;
  int64_t end_ = 0;
};

inline PlainIds PlainIdsOf(const LookupCall& call, const Bag& bag, int64_t element_bytes, int64_t asked_end) {
  const uint64_t stride = static_cast<uint64_t>(bag.address.stride);
  const uintptr_t table = reinterpret_cast<uintptr_t>(TableStart(call, bag.address));
  return {call.sources[bag.id.source],
          table + static_cast<uint64_t>(bag.id.add) * stride,
          stride,
          bag.width * element_bytes,
          bag.rows_ahead,
          asked_end,
          0,
          0};
}

}  // namespace
}  // namespace dpiframe
