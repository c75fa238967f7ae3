// Many bags: a group of threads fills one after the other, as many as it has, and their rows come through a ring
// (bag_ring.cuh). One at a time, a bag is waited for three times: its offsets, its ids, its rows.
#pragma once

#include "bag_ring.cuh"
#include "plain_bag_blocks.cuh"

namespace dpiframe::cuda {

struct ManyBagsMemory {
  union {
    BagRingMemory ring;
    PlainBagMemory block;  // for long bags, when the others are filled
  };
  BagRange ranges[kBlockThreads];          // of the block's bags
  uint32_t long_bags[kBlockThreads / 32];  // as bits
};

// Each of the block's first threads finds the range of one bag: there are no more bags than threads. `place`: of the
// first bag. Returns whether one is long.
__device__ __forceinline__ bool FindRanges(const LookupArguments& a, const Words& words, const PlainBagPlace& place,
                                           uint32_t bags, ManyBagsMemory* memory) {
  bool is_long = false;
  if (threadIdx.x / 32 * 32 < bags) {
    const int64_t row = place.row + threadIdx.x;
    const bool exists = threadIdx.x < bags && row < a.end_row;
    BagBounds bounds{};
    if (exists) bounds = BagBoundsOf(a, words, LoadRecord(place.record), row, place.length);
    is_long = bounds.length > a.long_bag;
    const bool fills = exists && !is_long;
    memory->ranges[threadIdx.x] = {bounds.begin, is_long ? 0 : static_cast<uint32_t>(bounds.length), fills ? 1u : 0u};
    const uint32_t long_bags = __ballot_sync(kWholeWarp, is_long);
    if (threadIdx.x % 32 == 0) memory->long_bags[threadIdx.x / 32] = long_bags;
  }
  return __syncthreads_or(is_long) != 0;
}

// Joins terms of a batch: those whose bits are set.
template <bool kWide, bool kWeighted, typename Element>
__device__ __forceinline__ void JoinTerms(const Pooling& pooling, const BagRing<kWide, kWeighted>& ring, int batch,
                                          uint32_t joined, Totals<Element, 16>* totals) {
  Vector<16> rows[kRingTerms];
#pragma unroll
  for (int u = 0; u < kRingTerms; ++u) rows[u] = ring.Row(batch, u);
  if (!kWeighted && pooling.rule == PoolRule::kMax) {
#pragma unroll
    for (int u = 0; u < kRingTerms; ++u) {
      if ((joined >> u & 1) != 0) totals->Join(pooling, rows[u], 1.0f);
    }
    return;
  }
#pragma unroll
  for (int u = 0; u < kRingTerms; ++u) {
    if ((joined >> u & 1) == 0) continue;
    if (kWeighted) {
      totals->Join(pooling, rows[u], ring.Weight(batch, u));
    } else {
      totals->Add(rows[u]);
    }
  }
}

// A group's bags but the long ones. `place`: of the block's first bag.
template <bool kWide, bool kWeighted, typename Element>
__device__ __forceinline__ void FillManyBags(const LookupArguments& a, const Segment& segment,
                                             const PlainBagPlace& place, ManyBagsMemory* memory) {
  const Pooling pooling = BagPooling(place.rule);
  const bool lowest = place.record->lowest != 0;
  uint32_t bag = (threadIdx.x >> segment.lanes_log2) * segment.thread_rows;
  const uint32_t end = bag + segment.thread_rows;
  char* output = ListOutput(segment, place, 16) + uint64_t{place.chunk} * 16 + bag * segment.row_bytes;
  BagWindows<kWide, kWeighted> windows(place, segment.lanes_log2, memory->ranges, bag, end);
  BagRing<kWide, kWeighted> ring(place, segment.lanes_log2, &memory->ring);
  uint32_t left = memory->ranges[bag].length;  // terms of the bag
  uint32_t count = 0;                          // of those before
  Totals<Element, 16> totals;
  totals.Start(pooling);
  uint32_t terms = 0;  // of the open window
  uint32_t next = 0;   // of them
  int batch = 0;       // that is asked for next; the one behind it in the ring is the oldest
  int empty = 0;       // batches, in the end
#pragma unroll 1
  for (;;) {
    if (next >= terms) {
      terms = windows.Open(a);
      next = 0;
      if (terms == 0 && ++empty == kRingBatches) return;
    }
    ring.Ask(windows, next, batch);
    next += kRingTerms;
    batch = batch + 1 == kRingBatches ? 0 : batch + 1;
    WaitForCopies<kRingBatches - 1>();
    const BagBatch oldest = ring.Batch(batch);
    uint32_t at = 0;
#pragma unroll 1
    for (;;) {
      const uint32_t rest = oldest.terms - at;
      const uint32_t now = left < rest ? left : rest;
      if (now != 0) {
        const uint32_t joined = oldest.joined & ((1u << now) - 1) << at;
        JoinTerms<kWide, kWeighted, Element>(pooling, ring, batch, joined, &totals);
        count += __popc(joined);
        left -= now;
        at += now;
      }
      if (left != 0 || bag == end) break;
      if (place.has_chunk && memory->ranges[bag].fills != 0) {
        *reinterpret_cast<Vector<16>*>(output) = BagResult(place.rule, lowest, count, &totals);
      }
      output += segment.row_bytes;
      if (++bag < end) left = memory->ranges[bag].length;
      count = 0;
      totals.Start(pooling);
    }
  }
}

template <bool kWide, bool kWeighted, typename Element>
__device__ __noinline__ void FillLongBags(const LookupArguments& a, const Words& words, const Segment& segment,
                                          uint32_t first_item, uint32_t bags, ManyBagsMemory* memory) {
  const uint32_t lane = threadIdx.x & ((1u << segment.lanes_log2) - 1);
#pragma unroll 1
  for (uint32_t warp = 0; warp * 32 < bags; ++warp) {
#pragma unroll 1
    for (uint32_t bits = memory->long_bags[warp]; bits != 0; bits &= bits - 1) {
      const uint32_t item = first_item + warp * 32 + __ffs(static_cast<int>(bits)) - 1;
      const PlainBagPlace place = PlainBagPlaceOf<kWide>(a, words, segment, item, lane);
      PlainBagByBlock<kWide, kWeighted, Element, 16>(a, segment, place, &memory->block);
    }
  }
}

template <bool kWide, bool kWeighted, typename Element>
__device__ __forceinline__ void FillManyBagsOfBlock(const LookupArguments& a, const Words& words,
                                                    const Segment& segment, ManyBagsMemory* memory) {
  const uint32_t lane = threadIdx.x & ((1u << segment.lanes_log2) - 1);
  const uint32_t bags = uint32_t{segment.thread_rows} << segment.groups_log2;
  const uint32_t first_item = (blockIdx.x - segment.first_block) * bags;
  const PlainBagPlace place = PlainBagPlaceOf<kWide, true>(a, words, segment, first_item, lane);
  const bool has_long_bags = FindRanges(a, words, place, bags, memory);
  FillManyBags<kWide, kWeighted, Element>(a, segment, place, memory);
  if (!has_long_bags) return;
  WaitForCopies<0>();  // the memory serves them too
  __syncthreads();
  FillLongBags<kWide, kWeighted, Element>(a, words, segment, first_item, bags, memory);
}

// Element: the type of tables. All addresses suit chunks of 16 bytes.
template <typename Element>
__global__ void __launch_bounds__(kBlockThreads, 4)
    ManyBagsKernel(const __grid_constant__ LookupArguments a, const __grid_constant__ Words words) {
  __shared__ ManyBagsMemory memory;
  const Segment& segment = SegmentOfBlock(a);
  const bool wide = segment.read == Read::kInt64;
  if (segment.pooling.weighted) {
    if (wide) return FillManyBagsOfBlock<true, true, Element>(a, words, segment, &memory);
    return FillManyBagsOfBlock<false, true, Element>(a, words, segment, &memory);
  }
  if (wide) return FillManyBagsOfBlock<true, false, Element>(a, words, segment, &memory);
  FillManyBagsOfBlock<false, false, Element>(a, words, segment, &memory);
}

}  // namespace dpiframe::cuda
