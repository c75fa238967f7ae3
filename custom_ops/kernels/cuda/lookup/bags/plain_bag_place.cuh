// What the threads of plain bags look at: a bag's place in its list and its table, and what its ids mean.
#pragma once

#include "bag_rules.cuh"
#include "kernels/cuda/lookup/chunk_groups.cuh"
#include "kernels/cuda/lookup/device_loads.cuh"
#include "kernels/cuda/lookup/kernel.cuh"
#include "kernels/cuda/lookup/pool_totals.cuh"
#include "kernels/cuda/lookup/records.h"

namespace dpiframe::cuda {

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

// Where a row's bag lies in its list.
struct BagBounds {
  int64_t begin;
  int64_t length;
};

__device__ __forceinline__ BagBounds BagBoundsOf(const LookupArguments& a, const Words& words, const PlainBag& bag,
                                                 int64_t row, int64_t length) {
  const char* const offsets = reinterpret_cast<const char*>(words[bag.offsets_word]);
  Place at = {bag.lookup.column * (a.rows + 1) + row, 1, 0};
  if (bag.bounds == 0) at = PlaceOf(a, words, bag.offsets_word, bag.lookup.column, bag.lookup.columns, row);
  const bool ends_with_list = bag.bounds == 0 && row + 1 == a.rows;
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
  return {begin, end > begin ? end - begin : 0};
}

// kWhole: the place is all of the list, whichever of its ids are the bag's.
template <bool kWide, bool kWhole = false>
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
  BagBounds bounds = {0, length};
  if (!kWhole) bounds = BagBoundsOf(a, words, bag, place.row, length);
  place.length = bounds.length;
  place.ids = reinterpret_cast<const char*>(words[bag.lookup.facts.word()]) + bounds.begin * (kWide ? 8 : 4);
  place.weights = reinterpret_cast<const char*>(words[bag.weights_word]) + bounds.begin * 4;
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

// Where a row's output begins that the record's bag is pooled to.
__device__ __forceinline__ char* ListOutput(const Segment& segment, const PlainBagPlace& place, uint64_t chunk_bytes) {
  return reinterpret_cast<char*>(segment.output) + place.row * segment.row_bytes +
         uint64_t{LoadPart(&place.record->lookup.extra)} * chunk_bytes;
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

}  // namespace dpiframe::cuda
