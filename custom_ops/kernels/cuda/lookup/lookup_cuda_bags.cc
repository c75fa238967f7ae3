// Launches of plain bags.
#include <algorithm>

#include "divisor.h"
#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/device/divide_up.h"
#include "lookup_cuda.h"

namespace dpiframe::cuda {
namespace {

// A bag that is filled by a block among others that aren't has more ids than this and so many times the mean, that of
// the launch's longest ones.
constexpr uint64_t kLongBag = 128;
constexpr uint64_t kLongBagFactor = 4;

uint32_t LongBag(uint64_t mean) {
  return static_cast<uint32_t>(std::min<uint64_t>(std::max(kLongBag, mean * kLongBagFactor), 1u << 30));
}

// So many and fewer have a block each: the more, the longer they are.
uint64_t FewBags(uint64_t processors, uint64_t mean) { return processors * std::min<uint64_t>(8, 2 + mean / 32); }

// Bags of so few ids gain where their rows come through a ring.
constexpr uint64_t kShortBag = 256;

bool GainsFromRing(const Segment& segment, uint64_t rows, uint64_t mean) {
  return segment.kind == ChunkKind::kPlainBag16 && segment.groups_log2 != 0 && mean <= kShortBag &&
         rows > uint64_t{1} << segment.groups_log2;
}

uint64_t PlainBagBlocks(const Segment& segment, uint64_t rows) {
  return DivideUp<uint64_t>(rows * segment.chunk_count, uint64_t{1} << segment.groups_log2);
}

}  // namespace

// Where there are so few bags that groups of threads would not fill the GPU, each has a block, and long ones several
// blocks for fewer of their chunks each, while there are too few blocks too.
void CudaLookup::ShapePlainBags(const SegmentPlan& plan, int64_t rows, uint64_t mean, bool aligned,
                                Segment* segment) const {
  const uint64_t groups = uint64_t{plan.chunk_count} * static_cast<uint64_t>(rows);
  const uint64_t processors = static_cast<uint64_t>(multiprocessors_);
  segment->lanes_log2 = plan.lanes_log2;
  segment->group_chunks = 1;
  segment->groups_log2 = static_cast<uint8_t>(kBlockThreadsLog2 - plan.lanes_log2);
  if (!aligned || mean <= kPlainBagBatch || groups > FewBags(processors, mean)) return;
  segment->groups_log2 = 0;
  while (segment->lanes_log2 > kMinSharedLanesLog2 && groups * segment->group_chunks <= processors && mean > kLongBag) {
    --segment->lanes_log2;
    segment->group_chunks = static_cast<uint8_t>(segment->group_chunks * 2);
  }
}

void CudaLookup::LaunchPlainBags(const CudaLookupCall& call, size_t begin, size_t end, const Words& words,
                                 const Launcher& launcher) const {
  LookupArguments arguments = arguments_;
  arguments.rows = call.rows;
  arguments.aligned = IsAligned(call);
  arguments.segment_count = static_cast<uint32_t>(end - begin);
  Segment* const segments_end = arguments.segments + (end - begin);
  uint64_t longest = 0;  // of the segments' mean bags
  uint64_t widest = 1;   // threads that a row of some segment takes
  uint64_t all = 0;      // blocks, if a group of threads fills one bag
  bool ring = arguments.aligned;
  for (size_t i = begin; i < end; ++i) {
    const SegmentPlan& plan = plan_.plain_bag_segments[i];
    Segment& segment = arguments.segments[i - begin];
    const uint64_t mean = MeanBag(plan, call);
    ShapePlainBags(plan, call.rows, mean, arguments.aligned, &segment);
    longest = std::max(longest, mean);
    segment.kind = plan.kind;
    segment.read = plan.read;
    segment.pooling = plan.pooling;
    segment.first_chunk = plan.first_chunk;
    segment.chunk_count = plan.chunk_count * segment.group_chunks;
    segment.by_chunk_count = DivisorFor(segment.group_chunks);
    segment.output = reinterpret_cast<uint64_t>(call.outputs[plan.output]);
    segment.row_bytes = plan.row_bytes;
    widest = std::max(widest, uint64_t{segment.chunk_count} * kBlockThreads >> segment.groups_log2);
    all += PlainBagBlocks(segment, static_cast<uint64_t>(call.rows));
    ring = ring && GainsFromRing(segment, static_cast<uint64_t>(call.rows), mean);
  }
  arguments.long_bag = LongBag(longest);
  const bool many = ring && all > static_cast<uint64_t>(multiprocessors_);
  const void* const kernel =
      many ? ManyBagsKernelFor(plan_.element_bytes) : PlainBagKernelFor(plan_.element_bytes, longest <= kShortBagBatch);
  const int64_t rows_at_once = static_cast<int64_t>(std::max<uint64_t>(1, kMaxThreads / widest));
  for (int64_t first = 0; first < call.rows; first += rows_at_once) {
    arguments.first_row = first;
    arguments.end_row = std::min(first + rows_at_once, call.rows);
    const uint64_t rows = static_cast<uint64_t>(arguments.end_row - first);
    uint32_t blocks = 0;
    for (Segment* segment = arguments.segments; segment != segments_end; ++segment) {
      uint64_t rows_taken = rows;
      segment->thread_rows = 1;
      if (many) {
        // So many that all blocks run at once, as far as a block has a thread to find the range of each of its bags,
        // which are all of one record, and there is something to do for all of its groups.
        const uint64_t most = kBlockThreads >> segment->groups_log2;
        const uint64_t all_groups = DivideUp(rows, uint64_t{1} << segment->groups_log2);
        segment->thread_rows = static_cast<uint8_t>(std::min({DivideUp(all, many_bags_at_once_), most, all_groups}));
        const uint64_t of_block = uint64_t{segment->thread_rows} << segment->groups_log2;
        rows_taken = DivideUp(rows, of_block) * of_block;
      }
      segment->first_block = blocks;
      segment->group_items = static_cast<uint32_t>(rows_taken * segment->group_chunks);
      segment->by_group = DivisorFor(segment->group_items);
      blocks += static_cast<uint32_t>(DivideUp<uint64_t>(PlainBagBlocks(*segment, rows_taken), segment->thread_rows));
    }
    CheckCuda(LaunchLookup(kernel, blocks, arguments, words, launcher), "a launch failed");
  }
}

}  // namespace dpiframe::cuda
