// Pooling: weighted sums, means and maxima of looked-up rows, in float32, in the order of the terms.
#pragma once

#include <cstdint>

#include "copy.h"
#include "ids.h"
#include "kernels/half.h"
#include "plan.h"

namespace dpiframe {
namespace {

// Several floats as one value, so that they stay in a register: an array would be written to memory and read back.
#ifdef __AVX__
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
template <int kCount>
struct FloatsOf {
  typedef float Type __attribute__((vector_size(kCount * sizeof(float))));
};
template <>
struct FloatsOf<1> {
  typedef float Type;
};

// Elements of a looked-up row, which may start at any byte, as float32.
template <typename Element, int kCount>
[[gnu::always_inline]] inline typename FloatsOf<kCount>::Type LoadRow(const char* row) {
  typename FloatsOf<kCount>::Type values;
  if constexpr (sizeof(Element) == 4) {
    __builtin_memcpy(&values, row, sizeof values);
  } else {
    uint16_t halves[kCount];
    float floats[kCount];
    __builtin_memcpy(halves, row, sizeof halves);
    HalvesToFloats<kCount>(halves, floats);
    __builtin_memcpy(&values, floats, sizeof values);
  }
  return values;
}

struct Sum {
  static float Start() { return 0.0f; }
  template <bool kWeighted, typename Floats>
  [[gnu::always_inline]] static void Join(Floats* total, const Floats& row, float weight, float /*x*/) {
    if constexpr (kWeighted) {
      *total += weight * row;
    } else {
      *total += row;
    }
  }
};

struct Max {
  static float Start() { return -__builtin_inff(); }
  template <bool kWeighted, typename Floats>
  [[gnu::always_inline]] static void Join(Floats* total, const Floats& row, float weight, float x) {
    Floats value = row;
    if constexpr (kWeighted) value -= (1.0f - weight) * x;
    *total = (value > *total) | (value != value) ? value : *total;  // a NaN stays
  }
};

// Rows whose addresses and weights are known, to be pooled together: a source of terms for JoinPasses.
struct PoolRows {
  int64_t count;
  const char* const* rows;
  const float* weights;
  bool first;  // no others have been pooled before: what the totals hold means nothing

  const char* Row(int64_t term) const { return rows[term]; }
  float Weight(int64_t term) const { return weights[term]; }
  const PoolRows& Again() const { return *this; }
};

// How they are pooled.
struct Pooling {
  PoolKind kind;
  bool weighted;
  float x;
  int64_t width;
};

struct PoolBatch {
  int64_t count = 0;
  bool first = true;
  const char* rows[kPoolBatch];
  float weights[kPoolBatch];
};

// kWidth elements of each term's row, from element `done` on, held in registers across the terms.
template <typename Op, typename Element, bool kWeighted, int kWidth, typename Terms>
inline void JoinTerms(const Terms& terms, float x, int64_t done, float* totals) {
  constexpr int kEach = kWidth < kLanes ? kWidth : kLanes;
  constexpr int kCount = kWidth / kEach;
  typename FloatsOf<kEach>::Type local[kCount];
  if (terms.first) {
    for (auto& floats : local) floats = Op::Start() + typename FloatsOf<kEach>::Type{};
  } else {
    __builtin_memcpy(local, totals + done, sizeof local);
  }
  for (int64_t t = 0; t < terms.count; ++t) {
    const char* const row = terms.Row(t) + done * static_cast<int64_t>(sizeof(Element));
    float weight = 1.0f;
    if constexpr (kWeighted) weight = terms.Weight(t);
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) {
      const int64_t place = i * kEach * static_cast<int64_t>(sizeof(Element));
      Op::template Join<kWeighted>(&local[i], LoadRow<Element, kEach>(row + place), weight, x);
    }
  }
  __builtin_memcpy(totals + done, local, sizeof local);
}

// Any width, in passes that shrink: 100 = 64 + 32 + 4.
template <typename Op, typename Element, bool kWeighted, int kWidth = 64, typename Terms>
void JoinPasses(const Terms& terms, float x, int64_t done, int64_t width, float* totals) {
  if (width - done >= kWidth) {
    JoinTerms<Op, Element, kWeighted, kWidth>(terms, x, done, totals);
    done += kWidth;
    if (done < width) JoinPasses<Op, Element, kWeighted, kWidth>(terms.Again(), x, done, width, totals);
  } else if constexpr (kWidth > 1) {
    JoinPasses<Op, Element, kWeighted, kWidth / 2>(terms, x, done, width, totals);
  }
}

template <typename Op, typename Element>
inline void JoinBatchOfWeight(const Pooling& pooling, const PoolRows& batch, float* totals) {
  if (pooling.weighted) {
    JoinPasses<Op, Element, true>(batch, pooling.x, 0, pooling.width, totals);
  } else {
    JoinPasses<Op, Element, false>(batch, pooling.x, 0, pooling.width, totals);
  }
}

template <typename Element>
[[gnu::noinline]] void JoinRows(const Pooling& pooling, const PoolRows& rows, float* totals) {
  if (pooling.kind == PoolKind::kMax) {
    JoinBatchOfWeight<Max, Element>(pooling, rows, totals);
  } else {
    JoinBatchOfWeight<Sum, Element>(pooling, rows, totals);
  }
}

template <typename Element>
inline void StoreTotals(const float* totals, int64_t width, char* to) {
  if constexpr (sizeof(Element) == 4) {
    __builtin_memcpy(to, totals, static_cast<size_t>(width) * 4);
  } else {
    for (int64_t i = 0; i < width; ++i) {
      const uint16_t half = FloatToHalf(totals[i]);
      __builtin_memcpy(to + i * 2, &half, 2);
    }
  }
}

template <typename Element>
inline void FlushBatch(const Pool& pool, PoolBatch* batch, float* totals, float* weight_total) {
  if (batch->count == 0) return;
  const Pooling pooling{pool.kind, pool.weighted, pool.x, pool.width};
  JoinRows<Element>(pooling, {batch->count, batch->rows, batch->weights, batch->first}, totals);
  batch->first = false;
  if (pool.kind == PoolKind::kMean) {
    for (int64_t t = 0; t < batch->count; ++t) *weight_total += batch->weights[t];
  }
  batch->count = 0;
}

// The weight of a term at a position (0 without a star).
inline float WeightOf(const PlanView& plan, const LookupCall& call, const PoolTerm& term, int64_t row, int64_t position,
                      int64_t value) {
  switch (term.weight) {
    case PoolWeight::kOne:
      return 1.0f;
    case PoolWeight::kNotEqual:
      return value != term.number ? 1.0f : 0.0f;
    case PoolWeight::kLess:
      return term.number < value ? 1.0f : 0.0f;
    case PoolWeight::kLessPosition:
      return position < value ? 1.0f : 0.0f;
    case PoolWeight::kColumn: {
      const int64_t column = term.weight_star ? position : term.weight_column;
      const Place place = PlaceOf(plan, call, term.weight_source, column, row);
      return ColumnValue(call, term.weight_source, plan.sources.data[term.weight_source].type, place.first);
    }
  }
  return 1.0f;
}

// One term for each column of its source.
template <typename Element>
inline void JoinStarTerm(const PlanView& plan, const LookupCall& call, const Pool& pool, const PoolTerm& term,
                         int64_t row, const Cell* cells, PoolBatch* batch, float* totals, float* weight_total,
                         BadIds* bad_ids) {
  const int64_t columns = call.columns[term.id.source];
  const bool weight_values = term.weight != PoolWeight::kOne && term.weight != PoolWeight::kColumn;
  int64_t ids[kPoolBatch];
  int64_t values[kPoolBatch];
  for (int64_t begin = 0; begin < columns; begin += kPoolBatch) {
    const int64_t count = columns - begin < kPoolBatch ? columns - begin : kPoolBatch;
    const Place place = PlaceOf(plan, call, term.id.source, begin, row);
    LoadIds(plan, call, term.id, place.first, place.column_stride, count, ids);
    if (!ResolveIds(term.table_rows, ids, count)) {
      const CellRow line{term.address, 0};
      HandleBadIds(plan, term.table_rows, &line, 1, row, 0, ids, count, bad_ids);
    }
    if (weight_values && term.weight_star) {
      const Place weight_place = PlaceOf(plan, call, term.weight_id.source, begin, row);
      LoadIds(plan, call, term.weight_id, weight_place.first, weight_place.column_stride, count, values);
    }
    FlushBatch<Element>(pool, batch, totals, weight_total);
    for (int64_t i = 0; i < count; ++i) {
      batch->rows[i] = AddressOf(call, term.address, ids[i]);
      PrefetchBytes(batch->rows[i], pool.width * static_cast<int64_t>(sizeof(Element)));
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t value = !weight_values ? 0 : term.weight_star ? values[i] : cells[term.weight_cell].value;
      batch->weights[i] = WeightOf(plan, call, term, row, begin + i, value);
    }
    batch->count = count;
  }
}

template <typename Element>
inline void PoolRow(const PlanView& plan, const LookupCall& call, const Pool& pool, int64_t row, const Cell* cells,
                    float* totals, char* to, BadIds* bad_ids) {
  float weight_total = 0;
  PoolBatch batch;
  const PoolTerm* terms = plan.terms.data + pool.first_term;
  for (const PoolTerm* term = terms; term != terms + pool.term_count; ++term) {
    if (term->star) {
      JoinStarTerm<Element>(plan, call, pool, *term, row, cells, &batch, totals, &weight_total, bad_ids);
      continue;
    }
    if (batch.count == kPoolBatch) FlushBatch<Element>(pool, &batch, totals, &weight_total);
    const bool has_cell = term->weight != PoolWeight::kOne && term->weight != PoolWeight::kColumn;
    batch.rows[batch.count] = cells[term->cell].row;
    batch.weights[batch.count] = WeightOf(plan, call, *term, row, 0, has_cell ? cells[term->weight_cell].value : 0);
    ++batch.count;
  }
  FlushBatch<Element>(pool, &batch, totals, &weight_total);
  if (batch.first) {  // a source of no columns
    const float start = pool.kind == PoolKind::kMax ? Max::Start() : Sum::Start();
    for (int64_t i = 0; i < pool.width; ++i) totals[i] = start;
  }
  if (pool.kind == PoolKind::kMean) {
    const float divisor = weight_total + pool.x;
    for (int64_t i = 0; i < pool.width; ++i) totals[i] /= divisor;
  }
  StoreTotals<Element>(totals, pool.width, to);
}

}  // namespace
}  // namespace dpiframe
