// The order of plain pools and bags: a few chunks of a row side by side, these for all rows, then the next chunks. What
// several rows look up in one table is still in the L2 cache then.
#pragma once

#include "device_loads.cuh"
#include "records.h"

namespace dpiframe::cuda {

// The last group's chunks may be beyond the segment's.
struct GroupedChunk {
  uint32_t chunk;
  uint32_t row_group;
};

__device__ __forceinline__ GroupedChunk GroupedChunkOf(const Segment& segment, uint32_t item) {
  const uint32_t group = Divide(item, segment.by_group);
  const uint32_t in_group = item - group * segment.group_items;
  const uint32_t row_group = Divide(in_group, segment.by_chunk_count);
  return {group * segment.group_chunks + (in_group - row_group * segment.group_chunks), row_group};
}

}  // namespace dpiframe::cuda
