// The kernels of FusedMultiGather: each block of threads belongs to a segment of the outputs' chunks.
#pragma once

#include "chunks.cuh"
#include "plain_pools.cuh"
#include "pools.cuh"
#include "records.h"
#include "table_pools.cuh"

namespace dpiframe::cuda {

__device__ __forceinline__ const Segment& SegmentOfBlock(const LookupArguments& a) {
  uint32_t number = 0;
  while (number + 1 < a.segment_count && blockIdx.x >= a.segments[number + 1].first_block) ++number;
  return a.segments[number];
}

// Plain chunks and copies, for addresses that are aligned and stand in the parameters.
template <int kRows>
__device__ __forceinline__ void FillPlainSegment(const LookupArguments& a, const Words& words, const Segment& segment) {
  switch (segment.kind) {
    case ChunkKind::kPlain16:
      return FillPlainChunks<kRows, 16>(a, words, segment);
    case ChunkKind::kPlain8:
      return FillPlainChunks<kRows, 8>(a, words, segment);
    case ChunkKind::kPlain4:
      return FillPlainChunks<kRows, 4>(a, words, segment);
    case ChunkKind::kPlain2:
      return FillPlainChunks<kRows, 2>(a, words, segment);
    case ChunkKind::kCopy16:
      return FillOtherChunks<true, kRows, 16>(a, words, segment);
    case ChunkKind::kCopy8:
      return FillOtherChunks<true, kRows, 8>(a, words, segment);
    case ChunkKind::kCopy4:
      return FillOtherChunks<true, kRows, 4>(a, words, segment);
    case ChunkKind::kCopy2:
      return FillOtherChunks<true, kRows, 2>(a, words, segment);
    default:
      return;
  }
}

template <int kRows>
__global__ void __launch_bounds__(kBlockThreads, 4)
    PlainLookupKernel(const __grid_constant__ LookupArguments a, const __grid_constant__ Words words) {
  FillPlainSegment<kRows>(a, words, SegmentOfBlock(a));
}

// Pools of tables; whether the segment is one. kSuited: all addresses suit chunks of 16 bytes.
template <int kRows, bool kSuited, typename Element>
__device__ __forceinline__ bool FillTablePoolSegment(const LookupArguments& a, const Words& words,
                                                     const Segment& segment, Vector<16>* memory) {
  if (segment.kind == ChunkKind::kTablePool16) {
    FillTablePool<kRows, kSuited, Element, 16>(a, words, segment, memory);
    return true;
  }
  if (segment.kind == ChunkKind::kTablePoolElement) {
    FillTablePool<kRows, kSuited, Element, sizeof(Element)>(a, words, segment, memory);
    return true;
  }
  return false;
}

// Plain pools; whether the segment is one. kShort: as FillPlainPools has it.
template <bool kShort, typename Element>
__device__ __forceinline__ bool FillPlainPoolSegment(const LookupArguments& a, const Words& words,
                                                     const Segment& segment) {
  if (segment.kind == ChunkKind::kPlainPool16) {
    FillPlainPools<kShort, Element, 16>(a, words, segment);
    return true;
  }
  if (segment.kind == ChunkKind::kPlainPoolElement) {
    FillPlainPools<kShort, Element, sizeof(Element)>(a, words, segment);
    return true;
  }
  return false;
}

// The same as PlainLookupKernel and pools of tables. Element: the type of tables.
template <int kRows, typename Element>
__global__ void __launch_bounds__(kBlockThreads, 4)
    TablePoolKernel(const __grid_constant__ LookupArguments a, const __grid_constant__ Words words) {
  __shared__ Vector<16> memory[TablePoolValues(kRows)];
  const Segment& segment = SegmentOfBlock(a);
  if (FillTablePoolSegment<kRows, true, Element>(a, words, segment, memory)) return;
  FillPlainSegment<kRows>(a, words, segment);
}

// Plain chunks, copies and plain pools. Element: the type of tables.
template <int kRows, typename Element, bool kShort>
__global__ void __launch_bounds__(kBlockThreads, 4)
    PlainPoolKernel(const __grid_constant__ LookupArguments a, const __grid_constant__ Words words) {
  const Segment& segment = SegmentOfBlock(a);
  if (FillPlainPoolSegment<kShort, Element>(a, words, segment)) return;
  FillPlainSegment<kRows>(a, words, segment);
}

// Chunks of 16, 8, 4 and 2 bytes that look rows up or copy columns, whatever they need.
template <int kRows, int kBytes>
__device__ __forceinline__ void FillAnyChunks(const LookupArguments& a, const Words& words, const Segment& segment) {
  const bool copy = segment.kind >= ChunkKind::kCopy16;
  if (!a.aligned) {
    FillUnalignedChunks<kRows, kBytes>(a, words, segment);
  } else if (copy) {
    FillOtherChunks<true, kRows, kBytes>(a, words, segment);
  } else if (segment.kind >= ChunkKind::kGeneral16 || words.memory != nullptr) {
    FillOtherChunks<false, kRows, kBytes>(a, words, segment);
  } else {
    FillPlainChunks<kRows, kBytes>(a, words, segment);
  }
}

// Everything. Element: the type of tables. 2 blocks a multiprocessor keep up to 64 KB of loads in flight, enough to
// hide the latency of memory.
template <int kRows, typename Element>
__global__ void __launch_bounds__(kBlockThreads, 2)
    LookupKernel(const __grid_constant__ LookupArguments a, const __grid_constant__ Words words) {
  __shared__ Vector<16> memory[TablePoolValues(kRows)];
  const Segment& segment = SegmentOfBlock(a);
  if (FillTablePoolSegment<kRows, false, Element>(a, words, segment, memory)) return;
  if (segment.kind == ChunkKind::kPool16) return FillPools<Element, 16>(a, words, segment);
  if (segment.kind == ChunkKind::kPoolElement) return FillPools<Element, sizeof(Element)>(a, words, segment);
  if (FillPlainPoolSegment<false, Element>(a, words, segment)) return;
  switch (static_cast<uint32_t>(segment.kind) % 4) {
    case 0:
      return FillAnyChunks<kRows, 16>(a, words, segment);
    case 1:
      return FillAnyChunks<kRows, 8>(a, words, segment);
    case 2:
      return FillAnyChunks<kRows, 4>(a, words, segment);
    default:
      return FillAnyChunks<kRows, 2>(a, words, segment);
  }
}

}  // namespace dpiframe::cuda
