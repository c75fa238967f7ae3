// Many short bags with wide rows: a group of threads fills one after the other, through a ring (bag_ring.cuh). One at
// a time, a short bag has little on its way, and is waited for three times: its offsets, its ids, its rows.
#pragma once

#include "bag_ring.cuh"
#include "plain_bag_blocks.cuh"

namespace dpiframe::cuda {

struct ManyBagsMemory {
  union {
    BagRingMemory ring;
    PlainBagMemory block;  // for long bags, when the others are filled
  };
  uint32_t long_bags[kBlockThreads / 32];  // as bits
};

// Each of the block's first threads finds the range of one bag: there are no more bags than threads.
template <bool kWide>
__device__ __forceinline__ void FindRanges(const LookupArguments& a, const Words& words, const Segment& segment,
                                           uint32_t first_item, uint32_t bags, ManyBagsMemory* memory) {
  PlainBagPlace place{};
  if (threadIdx.x < bags) place = PlainBagPlaceOf<kWide>(a, words, segment, first_item + threadIdx.x, 0);
  const bool is_long = place.length > a.long_bag;
  memory->ring.ranges[threadIdx.x] = {place.ids, is_long ? 0 : place.length};
  const uint32_t long_bags = __ballot_sync(kWholeWarp, is_long);
  if (threadIdx.x % 32 == 0) memory->long_bags[threadIdx.x / 32] = long_bags;
  __syncthreads();
}

// All but the long ones. `place`: of the block's first bag.
template <bool kWide, bool kWeighted, typename Element>
__device__ __forceinline__ void FillManyBags(const LookupArguments& a, const Segment& segment,
                                             const PlainBagPlace& place, uint32_t lane, ManyBagsMemory* memory) {
  const Pooling pooling = BagPooling(place.rule);
  const uint32_t groups = 1u << segment.groups_log2;
  const uint32_t end = uint32_t{segment.thread_rows} << segment.groups_log2;
  PlainBagPlace here = place;
  uint32_t bag = threadIdx.x >> segment.lanes_log2;
  BagRing<kWide, kWeighted> ring(place, bag, groups, end, place.counts && lane == 0, &memory->ring);
  int64_t left = memory->ring.ranges[bag].length;
  int64_t count = 0;
  Totals<Element, 16> totals;
  totals.Start(pooling);
  ring.LoadIds();
  int batch = 0;  // that is asked for next; the one behind it in the ring is the oldest
#pragma unroll 1
  for (int begun = 1;; ++begun) {
    ring.Ask(a, batch);
    ring.LoadIds();
    batch = batch + 1 == kRingBatches ? 0 : batch + 1;
    if (begun < kRingBatches) continue;
    WaitForCopies<kRingBatches - 1>();
    while (left == 0) {
      here.row = place.row + bag;
      const bool is_long = (memory->long_bags[bag / 32] >> bag % 32 & 1) != 0;
      if (place.has_chunk && !is_long && here.row < a.end_row) {
        StoreListPool(segment, here, uint64_t{place.chunk}, 1, count, &totals);
      }
      bag += groups;
      if (bag >= end) return;
      left = memory->ring.ranges[bag].length;
      count = 0;
      totals.Start(pooling);
    }
    const int terms = ring.BatchOf(left);
    const uint32_t joined = ring.Joined(batch);
    left -= terms;
    count += __popc(joined);
    if (!kWeighted && place.rule == PoolRule::kMax) {
#pragma unroll
      for (int u = 0; u < kRingTerms; ++u) {
        if ((joined >> u & 1) != 0) totals.Join(pooling, ring.Row(batch, u), 1.0f);
      }
    } else {
      // Zeros, which stand for what isn't read, change no bit of a sum: that is never -0.
#pragma unroll
      for (int u = 0; u < kRingTerms; ++u) {
        if (u >= terms) break;
        if (kWeighted) {
          totals.Join(pooling, ring.Row(batch, u), ring.Weight(batch, u));
        } else {
          totals.Add(ring.Row(batch, u));
        }
      }
    }
  }
}

template <bool kWide, bool kWeighted, typename Element>
__device__ __forceinline__ void FillManyBagsOfBlock(const LookupArguments& a, const Words& words,
                                                    const Segment& segment, ManyBagsMemory* memory) {
  const uint32_t lane = threadIdx.x & ((1u << segment.lanes_log2) - 1);
  const uint32_t bags = uint32_t{segment.thread_rows} << segment.groups_log2;
  const uint32_t first_item = (blockIdx.x - segment.first_block) * bags;
  FindRanges<kWide>(a, words, segment, first_item, bags, memory);
  const PlainBagPlace first = PlainBagPlaceOf<kWide>(a, words, segment, first_item, lane);
  FillManyBags<kWide, kWeighted, Element>(a, segment, first, lane, memory);
  WaitForCopies<0>();  // the memory may serve a long bag
  __syncthreads();
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

// Element: the type of tables. All addresses suit chunks of 16 bytes. With more than 3 blocks on a multiprocessor
// registers would not do.
template <typename Element>
__global__ void __launch_bounds__(kBlockThreads, 3)
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
