// Bags by groups of threads: each fills a row's chunks, each thread one, with kBatch looked-up rows on their way and
// the next ids too.
#pragma once

#include "plain_bag_place.cuh"

namespace dpiframe::cuda {

// Chunks of bags by the threads of a warp, each one chunk, or element `part` of it. Each thread of a group looks at
// kIds ids at a time for all of them. `fills`: not where another has to do it.
template <int kBatch, bool kWide, bool kWeighted, typename Element, int kBytes>
__device__ __forceinline__ void PlainBagByGroup(const LookupArguments& a, const Segment& segment,
                                                const PlainBagPlace& place, bool fills, ElementOf part) {
  constexpr int kIds = kBatch >> kMinBagLanesLog2;
  constexpr int kIdBytes = kWide ? 8 : 4;
  const Pooling pooling = BagPooling(place.rule);
  const uint32_t lane = threadIdx.x & ((1u << segment.lanes_log2) - 1);
  const uint32_t first_lane = (threadIdx.x & 31) - lane;
  const uint32_t group = (2u << ((1u << segment.lanes_log2) - 1)) - 1;  // as bits of its lanes
  const int32_t window = kIds << segment.lanes_log2;
  const char* const table = place.table + (static_cast<int32_t>(place.chunk) * part.count + part.element) * kBytes;
  const char* own_ids = place.ids + static_cast<int32_t>(lane) * kIds * kIdBytes;
  const char* own_weights = place.weights + static_cast<int32_t>(lane) * kIds * 4;
  int64_t left = fills ? place.length : 0;
  int64_t count = 0;
  Totals<Element, kBytes> totals;
  totals.Start(pooling);
  int64_t ids[kIds];
  const auto exists = [&](int i) { return static_cast<int32_t>(lane) * kIds + i < left; };
  const auto load_ids = [&]() {
#pragma unroll
    for (int i = 0; i < kIds; ++i) {
      ids[i] = 0;
      if (exists(i)) ids[i] = LoadListId<kWide>(own_ids, i);
    }
  };
  load_ids();
#pragma unroll 1
  for (;;) {
    // A warp's bags may have different lengths: its threads stay together until all are done.
    const int32_t last = __reduce_max_sync(kWholeWarp, left < window ? static_cast<int32_t>(left) : window);
    if (last <= 0) break;
    uint32_t rows[kIds];
    float weights[kIds];
    uint32_t read[kIds];    // of which lanes' ids rows are read, as bits from this group's first lane on,
    uint32_t joined[kIds];  // and which count
#pragma unroll
    for (int i = 0; i < kIds; ++i) {
      ListTerm term = ListTerm::kNothing;
      weights[i] = 0.0f;
      if (exists(i)) {
        term = ResolveListId(a, place, part.element == 0 && place.counts, &ids[i]);
        if (kWeighted && term != ListTerm::kNothing) weights[i] = LoadAs<float>(own_weights + i * 4);
      }
      rows[i] = static_cast<uint32_t>(ids[i]);
      read[i] = __ballot_sync(kWholeWarp, term == ListTerm::kRow) >> first_lane;
      joined[i] = __ballot_sync(kWholeWarp, term != ListTerm::kNothing) >> first_lane & group;
      count += __popc(joined[i]);
      if (!place.has_chunk) read[i] = 0;
    }
    own_ids += window * kIdBytes;
    own_weights += window * 4;
    left = left > window ? left - window : 0;  // another bag of the warp may be longer by more than 32 bits hold
    load_ids();                                // they wait for memory together with the rows
    uint32_t from = first_lane;
#pragma unroll 1
    for (int32_t batch = 0; batch < last; batch += kBatch) {
      Vector<kBytes> values[kBatch];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const uint32_t row = __shfl_sync(kWholeWarp, rows[b % kIds], static_cast<int>(from) + b / kIds);
        values[b] = Vector<kBytes>{};
        const bool is_read = (read[b % kIds] >> (b / kIds) & 1) != 0;
        if (is_read) values[b] = LoadAs<Vector<kBytes>>(table + uint64_t{row} * place.stride);
      }
      if (!kWeighted && place.rule == PoolRule::kMax) {
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
          if ((joined[b % kIds] >> (b / kIds) & 1) != 0) totals.Join(pooling, values[b], 1.0f);
        }
      } else {
        // Zeros, which stand for what isn't read, change no bit of a sum: that is never -0.
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
          if (kWeighted) {
            const float weight = __shfl_sync(kWholeWarp, weights[b % kIds], static_cast<int>(from) + b / kIds);
            totals.Join(pooling, values[b], weight);
          } else {
            totals.Add(values[b]);
          }
        }
      }
      from += kBatch / kIds;
#pragma unroll
      for (int i = 0; i < kIds; ++i) {
        read[i] >>= kBatch / kIds;
        joined[i] >>= kBatch / kIds;
      }
    }
  }
  if (!fills || !place.has_chunk) return;
  StoreListPool(segment, place, uint64_t{place.chunk} * part.count + part.element, part.count, count, &totals);
}

}  // namespace dpiframe::cuda
