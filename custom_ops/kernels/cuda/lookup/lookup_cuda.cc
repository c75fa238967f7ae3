#include "lookup_cuda.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "divisor.h"
#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/device/device_attribute.h"
#include "kernels/cuda/device/device_scope.h"
#include "kernels/cuda/device/divide_up.h"

namespace dpiframe::cuda {
namespace {

constexpr size_t kSectionAlignment = 256;

size_t Aligned(size_t bytes) { return (bytes + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment; }

// Rows of a chunk that a thread fills, given those for chunks of 16 bytes.
uint64_t RowsOf(ChunkKind kind, int rows_per_thread) {
  const int chunk_bytes = 16 >> (static_cast<uint32_t>(kind) % 4);
  return static_cast<uint64_t>(rows_per_thread * RowsFactor(chunk_bytes));
}

bool IsGrouped(ChunkKind kind) { return IsPlainPool(kind) || IsBag(kind); }

bool FitsAlignment(const void* address, uint32_t alignment) {
  return reinterpret_cast<uint64_t>(address) % alignment == 0;
}

// Where a chunk of a pool lies in its padding row; null where the pool has none or must read it.
const char* PaddingRow(const PlainPool& pool) {
  const int64_t table_rows = pool.lookup.facts.table_rows();
  const int64_t row = pool.number + (pool.number < 0 ? table_rows : 0);
  if (pool.mask == Mask::kNone || pool.pooling.rule == PoolRule::kMax || row < 0 || row >= table_rows) return nullptr;
  return reinterpret_cast<const char*>(pool.lookup.base.bits) + static_cast<uint64_t>(row) * pool.lookup.stride;
}

bool AllFinite(const char* values, size_t bytes, uint32_t element_bytes) {
  for (size_t i = 0; i < bytes; i += element_bytes) {
    uint32_t bits = 0;
    std::memcpy(&bits, values + i, element_bytes);
    const uint32_t exponent = element_bytes == 4 ? 0x7f800000u : 0x7c00u;
    if ((bits & exponent) == exponent) return false;
  }
  return true;
}

std::string NoCodeMessage(int device) {
  cudaDeviceProp properties{};
  std::string capability;
  if (cudaGetDeviceProperties(&properties, device) == cudaSuccess) {
    capability = std::to_string(properties.major) + std::to_string(properties.minor);
  }
  return "this build of dpiframe holds no code for this GPU; build it with DPIFRAME_CUDA_ARCHITECTURES=" + capability;
}

}  // namespace

CudaLookup::CudaLookup(const LookupProgram& program, const std::vector<ElementType>& source_types,
                       ElementType table_type, std::vector<const void*> tables, int multiprocessors)
    : plan_(MakeLookupDevicePlan(program, source_types, table_type, tables)),
      tables_(std::move(tables)),
      multiprocessors_(multiprocessors) {
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (!FitsAlignment(tables_[i], plan_.element_bytes)) {
      throw MisalignedAddress(MisalignedAddress::Kind::kTable, i, "does not start at a multiple of its elements' size");
    }
  }
  arguments_.element_bytes = plan_.element_bytes;
  arguments_.clamp = plan_.clamp;
  device_bytes_ =
      Aligned(plan_.chunks.size() * sizeof(Lookup)) + Aligned(plan_.chunk_lines.size() * sizeof(uint32_t)) +
      Aligned(plan_.pool_chunks.size() * sizeof(PoolChunk)) + Aligned(plan_.plain_pools.size() * sizeof(PlainPool)) +
      Aligned(plan_.bag_chunks.size() * sizeof(BagChunk)) + Aligned(plan_.plain_bags.size() * sizeof(PlainBag)) +
      Aligned(plan_.pools.size() * sizeof(Pool)) + Aligned(plan_.groups.size() * sizeof(Group)) +
      Aligned(plan_.terms.size() * sizeof(Lookup)) + Aligned(plan_.weights.size() * sizeof(Weight)) +
      Aligned(plan_.steps.size() * sizeof(Steps)) + Aligned(plan_.line_count * sizeof(uint64_t)) + kSectionAlignment;
}

size_t CudaLookup::scratch_bytes() const {
  return plan_.word_count > kInlineWords ? plan_.word_count * sizeof(uint64_t) : 0;
}

void CudaLookup::Upload(void* memory) {
  const uint64_t start = Aligned(reinterpret_cast<uint64_t>(memory));
  memory_ = reinterpret_cast<char*>(start);
  device_ = DeviceOf(memory);
  const DeviceScope scope(device_);
  scope.WaitForUploads();
  FindSkippedPadding(scope);
  char* next = memory_;
  const auto place = [&](const auto& records) {
    using Record = typename std::decay_t<decltype(records)>::value_type;
    const size_t bytes = records.size() * sizeof(Record);
    if (bytes > 0) scope.CopyToDevice(next, records.data(), bytes);
    const Record* const at = reinterpret_cast<const Record*>(next);
    next += Aligned(bytes);
    return at;
  };
  arguments_.chunks = place(plan_.chunks);
  arguments_.chunk_lines = place(plan_.chunk_lines);
  arguments_.pool_chunks = place(plan_.pool_chunks);
  arguments_.plain_pools = place(plan_.plain_pools);
  arguments_.bag_chunks = place(plan_.bag_chunks);
  arguments_.plain_bags = place(plan_.plain_bags);
  arguments_.pools = place(plan_.pools);
  arguments_.groups = place(plan_.groups);
  arguments_.terms = place(plan_.terms);
  arguments_.weights = place(plan_.weights);
  arguments_.steps = place(plan_.steps);
  arguments_.counters = reinterpret_cast<unsigned long long*>(next);
  if (plan_.line_count > 0) scope.SetZero(next, plan_.line_count * sizeof(uint64_t));
  if (multiprocessors_ == 0) multiprocessors_ = DeviceAttribute(cudaDevAttrMultiProcessorCount, device_);
  // Kernels are loaded at their first use, which must not fall into the capture of a graph.
  for (const void* kernel :
       {PlainLookupKernelFor(1), PlainLookupKernelFor(4), PlainPoolKernelFor(plan_.element_bytes, plan_.short_pools),
        TablePoolKernelFor(plan_.element_bytes, 1), TablePoolKernelFor(plan_.element_bytes, 4),
        LookupKernelFor(plan_.element_bytes), BagKernelFor(plan_.element_bytes),
        PlainBagKernelFor(plan_.element_bytes, false), PlainBagKernelFor(plan_.element_bytes, true),
        ManyBagsKernelFor(plan_.element_bytes)}) {
    cudaFuncAttributes attributes{};
    const cudaError_t code = cudaFuncGetAttributes(&attributes, kernel);
    if (code == cudaErrorNoKernelImageForDevice) throw CudaError(NoCodeMessage(device_), code);
    CheckCuda(code, "the lookup kernel can't be loaded");
  }
  if (plan_.plain_bag_segments.empty()) return;
  int blocks = 1;
  CheckCuda(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, ManyBagsKernelFor(plan_.element_bytes), kBlockThreads, 0),
      "the GPU's properties can't be read");
  many_bags_at_once_ = static_cast<uint64_t>(multiprocessors_) * static_cast<uint64_t>(std::max(blocks, 1));
}

// Padding rows of finite numbers need not be read: what a sum adds for them is 0, which changes no bit of it.
void CudaLookup::FindSkippedPadding(const DeviceScope& scope) {
  for (const SegmentPlan& segment : plan_.segments) {
    if (!IsPlainPool(segment.kind)) continue;
    const size_t bytes = segment.kind == ChunkKind::kPlainPool16 ? 16 : plan_.element_bytes;
    PlainPool* const end = plan_.plain_pools.data() + segment.first_chunk + segment.chunk_count;
    for (PlainPool* first = end - segment.chunk_count; first != end;) {
      // The chunks of a pool lie side by side in the padding row: one copy brings them all.
      const char* const row = PaddingRow(*first);
      PlainPool* last = first + 1;
      while (row != nullptr && last != end && PaddingRow(*last) == row + bytes * static_cast<size_t>(last - first)) {
        ++last;
      }
      if (row != nullptr) {
        std::vector<char> values(bytes * static_cast<size_t>(last - first));
        scope.CopyFromDevice(values.data(), row, values.size());
        for (PlainPool* pool = first; pool != last; ++pool) {
          const char* const own = values.data() + bytes * static_cast<size_t>(pool - first);
          if (AllFinite(own, bytes, plan_.element_bytes)) pool->mask = Mask::kSkip;
        }
      }
      first = last;
    }
  }
}

void CudaLookup::FillWords(const CudaLookupCall& call, uint64_t* words) const {
  const auto address = [](const void* pointer) { return reinterpret_cast<uint64_t>(pointer); };
  for (size_t i = 0; i < plan_.source_words.size(); ++i) {
    words[plan_.source_words[i]] = address(call.sources[i]);
  }
  for (const auto& [source, word] : plan_.column_words) words[word] = static_cast<uint64_t>(call.columns[source]);
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (tables_[i] == nullptr) words[plan_.table_words[i]] = address(call.tables[i]);
  }
}

// Whether every address suits the chunks; throws where one doesn't even suit its elements.
bool CudaLookup::IsAligned(const CudaLookupCall& call) const {
  using Kind = MisalignedAddress::Kind;
  bool aligned = true;
  const auto check = [&](Kind kind, size_t index, const void* address, uint32_t element, uint32_t alignment) {
    if (FitsAlignment(address, alignment)) return;
    if (!FitsAlignment(address, element)) {
      throw MisalignedAddress(kind, index, "does not start at a multiple of its elements' size");
    }
    aligned = false;
  };
  for (size_t i = 0; i < plan_.source_alignments.size(); ++i) {
    check(Kind::kSource, i, call.sources[i], plan_.source_element_bytes[i], plan_.source_alignments[i]);
  }
  for (size_t i = 0; i < tables_.size(); ++i) {
    const void* const address = tables_[i] != nullptr ? tables_[i] : call.tables[i];
    check(Kind::kTable, i, address, plan_.element_bytes, plan_.table_alignments[i]);
  }
  for (size_t i = 0; i < plan_.output_alignments.size(); ++i) {
    check(Kind::kOutput, i, call.outputs[i], plan_.element_bytes, plan_.output_alignments[i]);
  }
  return aligned;
}

// More rows a thread keep more loads in flight, fewer make more threads.
int CudaLookup::PlainRows(const CudaLookupCall& call) const {
  if (call.rows_per_thread != 0) return call.rows_per_thread == 1 ? 1 : 4;
  uint64_t chunks = 0;
  for (const SegmentPlan& segment : plan_.segments) chunks += segment.chunk_count;
  const uint64_t threads = chunks * static_cast<uint64_t>(call.rows);
  return threads >= static_cast<uint64_t>(multiprocessors_) * 1024 ? 4 : 1;
}

// Lanes for the terms of a chunk: as many as there are terms, while there are too few chunks to fill the GPU.
uint8_t CudaLookup::LanesLog2(const SegmentPlan& segment, const CudaLookupCall& call) const {
  uint64_t terms = segment.terms;
  for (const int source : segment.star_sources) {
    terms = std::max(terms, segment.terms + static_cast<uint64_t>(call.columns[source]));
  }
  const uint64_t items = uint64_t{segment.chunk_count} * static_cast<uint64_t>(call.rows);
  uint8_t lanes_log2 = 0;
  while (lanes_log2 < 5 && (uint64_t{1} << lanes_log2) < terms &&
         (items << (lanes_log2 + 1)) <= static_cast<uint64_t>(multiprocessors_) * 256) {
    ++lanes_log2;
  }
  return lanes_log2;
}

// The mean length of the longest list's bags, as if all ids belonged to one bag each.
uint64_t CudaLookup::MeanBag(const SegmentPlan& segment, const CudaLookupCall& call) const {
  uint64_t ids = 0;
  for (const int list : segment.star_sources) ids = std::max(ids, static_cast<uint64_t>(call.columns[list]));
  return DivideUp<uint64_t>(ids, static_cast<uint64_t>(call.rows));
}

// The same of a bag, by the mean length of bags: a lane has several terms on their way at a time.
uint8_t CudaLookup::BagLanesLog2(const SegmentPlan& segment, const CudaLookupCall& call) const {
  const uint64_t mean = MeanBag(segment, call);
  const uint64_t items = uint64_t{segment.chunk_count} * static_cast<uint64_t>(call.rows);
  uint8_t lanes_log2 = 0;
  while (lanes_log2 < 5 && (uint64_t{kBagBatch} << lanes_log2) < mean &&
         (items << (lanes_log2 + 1)) <= static_cast<uint64_t>(multiprocessors_) * 512) {
    ++lanes_log2;
  }
  return lanes_log2;
}

// Two rows a thread cost less for each, one makes more threads.
uint8_t CudaLookup::PoolRows(const SegmentPlan& segment, const CudaLookupCall& call) const {
  const uint64_t items = uint64_t{segment.chunk_count} * static_cast<uint64_t>(call.rows);
  return items >= static_cast<uint64_t>(multiprocessors_) * 1024 ? kShortPoolRows : 1;
}

void CudaLookup::Launch(const CudaLookupCall& call, const Launcher& launcher) const {
  if (call.rows == 0) return;
  Words words;
  words.memory = nullptr;
  if (plan_.word_count <= kInlineWords) {
    FillWords(call, words.values);
  } else {
    std::vector<uint64_t> all(plan_.word_count);
    FillWords(call, all.data());
    uint64_t* const memory = static_cast<uint64_t*>(call.scratch);
    for (uint32_t begin = 0; begin < plan_.word_count; begin += kInlineWords) {
      const uint32_t count = std::min<uint32_t>(kInlineWords, plan_.word_count - begin);
      std::memcpy(words.values, all.data() + begin, count * sizeof(uint64_t));
      CheckCuda(LaunchWriteWords(memory + begin, words, count, launcher), "a launch failed");
    }
    words.memory = memory;
  }
  for (const std::vector<SegmentPlan>* segments : {&plan_.segments, &plan_.bag_segments}) {
    for (size_t begin = 0; begin < segments->size(); begin += kMaxSegments) {
      const size_t end = std::min<size_t>(begin + kMaxSegments, segments->size());
      LaunchSegments(call, *segments, begin, end, words, launcher);
    }
  }
  const size_t plain_bags = plan_.plain_bag_segments.size();
  for (size_t begin = 0; begin < plain_bags; begin += kMaxSegments) {
    LaunchPlainBags(call, begin, std::min<size_t>(begin + kMaxSegments, plain_bags), words, launcher);
  }
}

void CudaLookup::LaunchSegments(const CudaLookupCall& call, const std::vector<SegmentPlan>& segments, size_t begin,
                                size_t end, const Words& words, const Launcher& launcher) const {
  LookupArguments arguments = arguments_;
  arguments.rows = call.rows;
  arguments.aligned = IsAligned(call);
  arguments.segment_count = static_cast<uint32_t>(end - begin);
  const bool bags = IsBag(segments[begin].kind);
  const bool both_pools = plan_.has_plain_pools && plan_.has_table_pools;
  const bool plain = !plan_.has_general && !both_pools && arguments.aligned && words.memory == nullptr;
  const int rows_per_thread = plain && !plan_.has_plain_pools ? PlainRows(call) : kGeneralRows;
  const uint32_t element_bytes = plan_.element_bytes;
  const void* const kernel = bags                    ? BagKernelFor(element_bytes)
                             : !plain                ? LookupKernelFor(element_bytes)
                             : plan_.has_plain_pools ? PlainPoolKernelFor(element_bytes, plan_.short_pools)
                             : plan_.has_table_pools ? TablePoolKernelFor(element_bytes, rows_per_thread)
                                                     : PlainLookupKernelFor(rows_per_thread);
  uint64_t widest = 1;  // threads that a row of some segment takes
  for (size_t i = begin; i < end; ++i) {
    const SegmentPlan& plan = segments[i];
    Segment& segment = arguments.segments[i - begin];
    segment.kind = plan.kind;
    segment.first_chunk = plan.first_chunk;
    segment.chunk_count = plan.chunk_count;
    segment.read = plan.read;
    segment.column_layout = plan.column_layout;
    segment.shifted = plan.shifted;
    segment.source = plan.one_source && words.memory == nullptr ? words.values[plan.source_word] : 0;
    segment.output = reinterpret_cast<uint64_t>(call.outputs[plan.output]);
    segment.row_bytes = plan.row_bytes;
    segment.pooling = plan.pooling;
    segment.lanes_log2 = !arguments.aligned  ? 0
                         : IsPool(plan.kind) ? LanesLog2(plan, call)
                         : bags              ? BagLanesLog2(plan, call)
                                             : 0;
    const uint32_t groups = DivideUp<uint32_t>(plan.chunk_count, kGroupChunks);
    segment.group_chunks = static_cast<uint8_t>(DivideUp<uint32_t>(plan.chunk_count, groups));
    segment.thread_rows = plain && plan_.short_pools && IsPlainPool(plan.kind) ? PoolRows(plan, call) : 1;
    segment.by_chunk_count = DivisorFor(IsTablePool(plan.kind) ? TablePoolTerms(plan.chunk_count)
                                        : IsGrouped(plan.kind) ? segment.group_chunks
                                                               : plan.chunk_count);
    const uint32_t chunks = IsGrouped(plan.kind) ? groups * segment.group_chunks : plan.chunk_count;
    widest = std::max(widest, uint64_t{chunks} << segment.lanes_log2);
  }
  const int64_t rows_at_once = static_cast<int64_t>(std::max<uint64_t>(1, kMaxThreads / widest));
  for (int64_t first = 0; first < call.rows; first += rows_at_once) {
    arguments.first_row = first;
    arguments.end_row = std::min(first + rows_at_once, call.rows);
    const uint64_t rows = static_cast<uint64_t>(arguments.end_row - first);
    uint32_t blocks = 0;
    for (size_t i = begin; i < end; ++i) {
      Segment& segment = arguments.segments[i - begin];
      segment.first_block = blocks;
      if (IsTablePool(segment.kind)) {
        const uint32_t times = kBlockThreads / TablePoolTerms(segment.chunk_count);
        const uint64_t block_rows = TablePoolRows(times, rows_per_thread);
        blocks += static_cast<uint32_t>(DivideUp<uint64_t>(rows, block_rows));
        continue;
      }
      const uint64_t rows_each = bags || IsPool(segment.kind) ? 1
                                 : IsPlainPool(segment.kind)  ? segment.thread_rows
                                                              : RowsOf(segment.kind, rows_per_thread);
      const uint64_t row_groups = DivideUp<uint64_t>(rows, rows_each);
      uint64_t items = row_groups * segment.chunk_count;
      if (IsGrouped(segment.kind)) {
        segment.group_items = static_cast<uint32_t>(row_groups * segment.group_chunks);
        segment.by_group = DivisorFor(segment.group_items);
        items = uint64_t{segment.group_items} * DivideUp(segment.chunk_count, segment.group_chunks);
      }
      blocks += static_cast<uint32_t>(DivideUp<uint64_t>(items << segment.lanes_log2, kBlockThreads));
    }
    CheckCuda(LaunchLookup(kernel, blocks, arguments, words, launcher), "a launch failed");
  }
}

std::vector<uint64_t> CudaLookup::ReadCounters() const {
  std::vector<uint64_t> counts(plan_.line_count);
  if (!counts.empty()) {
    DeviceScope(device_).CopyFromDevice(counts.data(), arguments_.counters, counts.size() * sizeof(uint64_t));
  }
  return counts;
}

void CudaLookup::ResetCounters() const {
  if (plan_.line_count > 0) DeviceScope(device_).SetZero(arguments_.counters, plan_.line_count * sizeof(uint64_t));
}

}  // namespace dpiframe::cuda
