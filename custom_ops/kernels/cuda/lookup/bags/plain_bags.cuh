// Plain bags: what an EmbeddingBag over a list of ids gives. A group of threads fills a row's chunks. A bag that is
// much longer than others, or one of so few that they would leave the GPU idle, is filled by all threads of a block.
// Either way terms are joined in their order.
#pragma once

#include "plain_bag_blocks.cuh"
#include "plain_bag_groups.cuh"

namespace dpiframe::cuda {

// A chunk in single elements, for calls whose addresses don't suit larger ones.
template <int kBatch, bool kWide, bool kWeighted, typename Element, int kBytes>
__device__ __noinline__ void PlainBagByElements(const LookupArguments& a, const Segment& segment,
                                                const PlainBagPlace& place, bool fills) {
  constexpr int kSize = static_cast<int>(sizeof(Element));
#pragma unroll 1
  for (int i = 0; i < kBytes / kSize; ++i) {
    PlainBagByGroup<kBatch, kWide, kWeighted, Element, kSize>(a, segment, place, fills, {i, kBytes / kSize});
  }
}

template <int kBatch, bool kWide, bool kWeighted, typename Element, int kBytes>
__device__ __forceinline__ void FillPlainBags(const LookupArguments& a, const Words& words, const Segment& segment,
                                              PlainBagMemory* memory) {
  const uint32_t lane = threadIdx.x & ((1u << segment.lanes_log2) - 1);
  const uint32_t first_item = (blockIdx.x - segment.first_block) << segment.groups_log2;
  uint32_t left = 0;  // groups of this warp, as bits of their first threads
  if (segment.groups_log2 != 0) {
    const PlainBagPlace place =
        PlainBagPlaceOf<kWide>(a, words, segment, first_item + (threadIdx.x >> segment.lanes_log2), lane);
    const bool is_long = a.aligned && place.length > a.long_bag;
    left = __ballot_sync(kWholeWarp, is_long && lane == 0);
    if ((threadIdx.x & 31) == 0) memory->long_bags[threadIdx.x / 32] = left;
    if (kBytes > static_cast<int>(sizeof(Element)) && !a.aligned) {
      PlainBagByElements<kBatch, kWide, kWeighted, Element, kBytes>(a, segment, place, !is_long);
    } else {
      PlainBagByGroup<kBatch, kWide, kWeighted, Element, kBytes>(a, segment, place, !is_long, {0, 1});
    }
    if (__syncthreads_or(left != 0) == 0) return;
  }
#pragma unroll 1
  for (uint32_t word = 0; word < kBlockThreads / 32; ++word) {
    uint32_t bits = segment.groups_log2 != 0 ? memory->long_bags[word] : word == 0 ? 1 : 0;
#pragma unroll 1
    for (; bits != 0; bits &= bits - 1) {
      const uint32_t thread = word * 32 + __ffs(static_cast<int>(bits)) - 1;
      const PlainBagPlace place =
          PlainBagPlaceOf<kWide>(a, words, segment, first_item + (thread >> segment.lanes_log2), lane);
      PlainBagByBlock<kWide, kWeighted, Element, kBytes>(a, segment, place, memory);
    }
  }
}

// All ids of a segment are of one type, and all its bags have weights or none.
template <int kBatch, typename Element, int kBytes>
__device__ __forceinline__ void FillPlainBagSegment(const LookupArguments& a, const Words& words,
                                                    const Segment& segment, PlainBagMemory* memory) {
  const bool wide = segment.read == Read::kInt64;
  if (segment.pooling.weighted) {
    if (wide) return FillPlainBags<kBatch, true, true, Element, kBytes>(a, words, segment, memory);
    return FillPlainBags<kBatch, false, true, Element, kBytes>(a, words, segment, memory);
  }
  if (wide) return FillPlainBags<kBatch, true, false, Element, kBytes>(a, words, segment, memory);
  FillPlainBags<kBatch, false, false, Element, kBytes>(a, words, segment, memory);
}

// Element: the type of tables. kBatch: more keep more loads of a bag in flight, fewer make more threads.
template <typename Element, int kBatch>
__global__ void __launch_bounds__(kBlockThreads, kBatch == kShortBagBatch ? 4 : 3)
    PlainBagKernel(const __grid_constant__ LookupArguments a, const __grid_constant__ Words words) {
  __shared__ PlainBagMemory memory;
  const Segment& segment = SegmentOfBlock(a);
  if (segment.kind == ChunkKind::kPlainBag16) {
    FillPlainBagSegment<kBatch, Element, 16>(a, words, segment, &memory);
  } else {
    FillPlainBagSegment<kBatch, Element, sizeof(Element)>(a, words, segment, &memory);
  }
}

}  // namespace dpiframe::cuda
