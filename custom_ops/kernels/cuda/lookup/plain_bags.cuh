// Plain bags: what an EmbeddingBag over a list of ids gives. A group of threads fills a row's chunks, each thread one,
// with kBatch looked-up rows on their way and the next ids too. A bag that is much longer than others, or one
// of so few that they would leave the GPU idle, is filled by all threads of a block: they look its rows up side by
// side, into shared memory. Either way terms are joined in their order.
#pragma once

#include "bag_rules.cuh"
#include "chunk_groups.cuh"
#include "kernel.cuh"
#include "kernels/cuda/device/async_copy.cuh"
#include "kernels/cuda/device/bulk_copy.cuh"
#include "kernels/cuda/device/device_loads.cuh"
#include "pool_totals.cuh"
#include "records.h"

namespace dpiframe::cuda {

constexpr int kBagStages = 3;     // of rows in shared memory, all but one on their way there
constexpr int kBagStageRows = 2;  // of which a thread copies a chunk in each stage
constexpr int kJoinBatch = 8;     // rows that are read from there at a time; divides those of a stage

// A thread's chunk of a bag. What is needed of the record again and again; the rest is read when it is.
struct PlainBagPlace {
  const PlainBag* record;
  const char* table;
  const char* ids;
  const char* weights;
  int64_t row;
  int64_t length;
  int64_t padding;
  uint32_t stride;
  uint32_t last_row;  // of the table
  uint32_t chunk;     // of the record's
  PoolRule rule;
  bool has_chunk;  // as not all threads of a group need have one
  bool counts;     // ids that are outside
};

template <bool kWide>
__device__ __forceinline__ PlainBagPlace PlainBagPlaceOf(const LookupArguments& a, const Words& words,
                                                         const Segment& segment, uint32_t item, uint32_t lane) {
  PlainBagPlace place{};
  const GroupedChunk grouped = GroupedChunkOf(segment, item);
  place.row = a.first_row + grouped.row_group;
  if (grouped.chunk >= segment.chunk_count || place.row >= a.end_row) return place;
  const uint32_t piece = Divide(grouped.chunk, segment.by_chunk_count);
  place.record = a.plain_bags + segment.first_chunk + piece;
  const PlainBag bag = LoadRecord(place.record);
  place.chunk = ((grouped.chunk - piece * segment.group_chunks) << segment.lanes_log2) + lane;
  place.has_chunk = place.chunk < bag.chunk_count;
  place.counts = bag.lookup.facts.counts_bad_ids() && place.chunk == lane;
  const int64_t length = static_cast<int64_t>(words[bag.lookup.facts.word() + 1]);
  const char* const offsets = reinterpret_cast<const char*>(words[bag.offsets_word]);
  Place at = {bag.lookup.column * (a.rows + 1) + place.row, 1, 0};
  if (bag.bounds == 0) at = PlaceOf(a, words, bag.offsets_word, bag.lookup.column, bag.lookup.columns, place.row);
  const bool ends_with_list = bag.bounds == 0 && place.row + 1 == a.rows;
  const int64_t next = at.first + (ends_with_list ? 0 : at.row_step);
  int64_t begin = 0;
  int64_t end = 0;
  if (bag.wide_offsets != 0) {
    begin = LoadAs<int64_t>(offsets + at.first * 8);
    end = LoadAs<int64_t>(offsets + next * 8);
  } else {
    begin = LoadAs<int32_t>(offsets + at.first * 4);
    end = LoadAs<int32_t>(offsets + next * 4);
  }
  begin = ToListPosition(begin, length);
  end = ends_with_list ? length : ToListPosition(end, length);
  place.length = end > begin ? end - begin : 0;
  place.ids = reinterpret_cast<const char*>(words[bag.lookup.facts.word()]) + begin * (kWide ? 8 : 4);
  place.weights = reinterpret_cast<const char*>(words[bag.weights_word]) + begin * 4;
  place.table = TableAddress(words, bag.lookup.base, bag.lookup.facts);
  place.stride = bag.lookup.stride;
  place.last_row = static_cast<uint32_t>(bag.lookup.facts.table_rows() - 1);
  place.padding = bag.padding;
  place.rule = bag.rule;
  return place;
}

template <bool kWide>
__device__ __forceinline__ int64_t LoadListId(const char* ids, uint32_t position) {
  if (kWide) return LoadAs<int64_t>(ids + uint64_t{position} * 8);
  return LoadAs<int32_t>(ids + uint64_t{position} * 4);
}

// What an id of a bag means: a row of the table, zeros for one outside, or nothing where it is the padding.
enum class ListTerm { kRow, kZeros, kNothing };

// `counts`: whether this thread counts ids that are outside.
__device__ __forceinline__ ListTerm ResolveListId(const LookupArguments& a, const PlainBagPlace& place, bool counts,
                                                  int64_t* id) {
  if (static_cast<uint64_t>(*id) > place.last_row) {
    const Facts facts = LoadPart(&place.record->lookup.facts);
    if (ResolveId(facts.table_rows(), a.clamp, id)) {
      if (counts) atomicAdd(a.counters + LoadPart(&place.record->line), 1ull);
      return a.clamp ? ListTerm::kRow : ListTerm::kZeros;
    }
  }
  return *id == place.padding ? ListTerm::kNothing : ListTerm::kRow;
}

template <int kBytes>
__device__ __forceinline__ const char* ListRow(const PlainBagPlace& place, int64_t id, uint64_t chunk) {
  return place.table + uint64_t{static_cast<uint32_t>(id)} * place.stride + chunk * kBytes;
}

// `chunk`: counted in kBytes from the record's first.
template <typename Element, int kBytes>
__device__ __forceinline__ void StoreListPool(const Segment& segment, const PlainBagPlace& place, uint64_t chunk,
                                              uint64_t chunks_of_16, int64_t count, Totals<Element, kBytes>* totals) {
  const uint64_t first = uint64_t{LoadPart(&place.record->lookup.extra)} * chunks_of_16;
  char* const output =
      reinterpret_cast<char*>(segment.output) + place.row * segment.row_bytes + (first + chunk) * kBytes;
  *reinterpret_cast<Vector<kBytes>*>(output) = BagResult(place.rule, place.record->lowest != 0, count, totals);
}

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

// What a block has in shared memory.
struct PlainBagMemory {
  static constexpr int kChunks = kBagStages * kBagStageRows * kBlockThreads;
  Vector<16> rows[kChunks];
  float weights[kChunks >> kMinSharedLanesLog2];
  uint32_t long_bags[kBlockThreads / 32];  // as bits of their groups' first threads
  unsigned long long left_out;
};

template <int kBytes>
__device__ __forceinline__ void FetchChunk(Vector<kBytes>* to, const char* from, bool read) {
  if constexpr (kBytes == 16) {
    CopyAsync16(SharedAddress(to), from, read ? 16 : 0);
  } else if constexpr (kBytes == 4) {
    CopyAsync4(SharedAddress(to), from, read ? 4 : 0);
  } else {
    *to = read ? LoadAs<Vector<kBytes>>(from) : Vector<kBytes>{};
  }
}

// A bag's chunks by all threads of the block. Each looks its chunk up in some of the rows; one thread an element joins
// them.
template <bool kWide, bool kWeighted, typename Element, int kBytes>
__device__ __forceinline__ void PlainBagByBlock(const LookupArguments& a, const Segment& segment,
                                                const PlainBagPlace& place, PlainBagMemory* memory) {
  constexpr int kSize = static_cast<int>(sizeof(Element));
  constexpr int kElements = kBytes / kSize;
  const uint32_t chunk_count = place.record->chunk_count;
  const uint32_t lane = threadIdx.x & ((1u << segment.lanes_log2) - 1);
  const uint32_t own_row = threadIdx.x >> segment.lanes_log2;
  const uint32_t rows_at_once = kBlockThreads >> segment.lanes_log2;
  const uint32_t stage_rows = rows_at_once * kBagStageRows;
  const bool lowest = place.rule == PoolRule::kMax;
  const bool counts = place.counts && lane == 0;
  const uint32_t first_chunk = place.chunk - lane;
  if (first_chunk >= chunk_count) return;
  uint32_t left_out = 0;
  Vector<kBytes>* const rows = reinterpret_cast<Vector<kBytes>*>(memory->rows);

  int64_t ids[2][kBagStageRows];
  const auto load_ids = [&](int64_t stage, int64_t* to) {
#pragma unroll
    for (int u = 0; u < kBagStageRows; ++u) {
      const int64_t position = stage * stage_rows + u * rows_at_once + own_row;
      to[u] = 0;
      if (position >= place.length) continue;
      to[u] = kWide ? LoadAs<int64_t>(place.ids + position * 8) : LoadAs<int32_t>(place.ids + position * 4);
    }
  };
  const auto fetch = [&](int64_t stage, int buffer) {
#pragma unroll
    for (int u = 0; u < kBagStageRows; ++u) {
      const int64_t position = stage * stage_rows + u * rows_at_once + own_row;
      Vector<kBytes>* const to = rows + (buffer * kBagStageRows + u) * kBlockThreads + threadIdx.x;
      ListTerm term = ListTerm::kNothing;
      if (position < place.length) {
        term = ResolveListId(a, place, counts, &ids[0][u]);
        left_out += term == ListTerm::kNothing ? 1 : 0;
      }
      if (kWeighted && lane == 0) {
        const float weight = term == ListTerm::kNothing ? 0.0f : LoadAs<float>(place.weights + position * 4);
        memory->weights[(buffer * kBagStageRows + u) * rows_at_once + own_row] = weight;
      }
      if (!place.has_chunk) continue;
      if (term == ListTerm::kNothing && lowest) {
        Totals<Element, kBytes> nothing;
        nothing.Set(-INFINITY);
        *to = nothing.Result(BagPooling(PoolRule::kMax));
      } else {
        const bool read = term == ListTerm::kRow;
        FetchChunk<kBytes>(to, read ? ListRow<kBytes>(place, ids[0][u], place.chunk) : place.table, read);
      }
    }
  };
  const auto advance = [&](int64_t stage, int buffer) {
    if (stage * stage_rows < place.length) fetch(stage, buffer);
    CommitCopies();
#pragma unroll
    for (int u = 0; u < kBagStageRows; ++u) ids[0][u] = ids[1][u];
    load_ids(stage + 2, ids[1]);
  };

  if (threadIdx.x == 0) memory->left_out = 0;
  load_ids(0, ids[0]);
  load_ids(1, ids[1]);
#pragma unroll
  for (int stage = 0; stage < kBagStages - 1; ++stage) advance(stage, stage);

  const uint32_t chunks_here = min(1u << segment.lanes_log2, chunk_count - first_chunk);
  const bool joins = threadIdx.x < chunks_here * kElements;
  const Pooling pooling = BagPooling(place.rule);
  Totals<Element, kSize> totals;
  totals.Start(pooling);
  int buffer = 0;
  int64_t stage = 0;
#pragma unroll 1
  for (int64_t first = 0; first < place.length; first += stage_rows) {
    WaitForCopies<kBagStages - 2>();
    __syncthreads();
    advance(stage + kBagStages - 1, buffer == 0 ? kBagStages - 1 : buffer - 1);
    if (joins) {
      const int64_t rest = place.length - first;
      const uint32_t here = rest < stage_rows ? static_cast<uint32_t>(rest) : stage_rows;
      const char* const own =
          reinterpret_cast<const char*>(rows + buffer * kBagStageRows * kBlockThreads) + threadIdx.x * kSize;
      const uint32_t row_bytes = kBytes << segment.lanes_log2;
      const float* const weights = memory->weights + buffer * stage_rows;
      const auto row = [&](uint32_t r) { return *reinterpret_cast<const Vector<kSize>*>(own + r * row_bytes); };
      if (lowest) {
#pragma unroll 1
        for (uint32_t r = 0; r < here; r += kJoinBatch) {
#pragma unroll
          for (uint32_t b = 0; b < kJoinBatch; ++b) totals.Join(pooling, row(r + b), 1.0f);
        }
      } else {
#pragma unroll 2
        for (uint32_t r = 0; r < here; r += kJoinBatch) {
#pragma unroll
          for (uint32_t b = 0; b < kJoinBatch; ++b) {
            if (kWeighted) {
              totals.Join(pooling, row(r + b), weights[r + b]);
            } else {
              totals.Add(row(r + b));
            }
          }
        }
      }
    }
    ++stage;
    buffer = buffer + 1 == kBagStages ? 0 : buffer + 1;
  }
  WaitForCopies<0>();
  if (lane == 0 && left_out != 0) atomicAdd(&memory->left_out, static_cast<unsigned long long>(left_out));
  __syncthreads();
  if (joins) {
    const int64_t count = place.length - static_cast<int64_t>(memory->left_out);
    StoreListPool(segment, place, first_chunk * kElements + threadIdx.x, kElements, count, &totals);
  }
  __syncthreads();  // the memory may serve another bag
}

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
