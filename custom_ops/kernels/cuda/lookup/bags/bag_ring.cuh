// What a thread has on its way of the bags that its group fills one after the other: looked-up rows come through a ring
// in shared memory, in which each thread has places of its own, and the ids that are asked for next are on their way
// too. So there is as much under way where a bag ends as within one.
#pragma once

#include <type_traits>

#include "kernels/cuda/device/async_copy.cuh"
#include "kernels/cuda/device/shared_address.cuh"
#include "plain_bag_place.cuh"

namespace dpiframe::cuda {

constexpr int kRingBatches = 4;  // of rows, all but one on their way
constexpr int kRingTerms = 2;    // of a batch, of one bag

struct BagRange {
  const char* ids;
  int64_t length;
};

struct BagRingMemory {
  static constexpr int kPlaces = kRingBatches * kRingTerms * kBlockThreads;
  Vector<16> rows[kPlaces];
  float weights[kPlaces];
  BagRange ranges[kBlockThreads];  // of the bags that the block's groups fill
};

template <bool kWide, bool kWeighted>
class BagRing {
 public:
  // The bags of a group: `first`, and every `step`th one up to `end`. `place`: of the block's first bag. `counts`:
  // whether this thread counts ids that are outside.
  __device__ __forceinline__ BagRing(const PlainBagPlace& place, uint32_t first, uint32_t step, uint32_t end,
                                     bool counts, BagRingMemory* memory)
      : place_(place),
        chunk_(place.table + place.chunk * 16),
        bag_(first),
        step_(step),
        end_(end),
        counts_(counts),
        memory_(memory) {}

  // The ids that are asked for next.
  __device__ __forceinline__ void LoadIds() {
    while (left_ == 0 && bag_ < end_) {
      const BagRange range = memory_->ranges[bag_];
      next_ = range.ids;
      if (kWeighted) next_weight_ = place_.weights + (range.ids - place_.ids) / kIdBytes * 4;
      left_ = range.length;
      bag_ += step_;
    }
    terms_ = BatchOf(left_);
    left_ -= terms_;
#pragma unroll
    for (int u = 0; u < kRingTerms; ++u) {
      ids_[u] = 0;
      if (u < terms_) ids_[u] = LoadAs<Id>(next_ + u * kIdBytes);
    }
    next_ += terms_ * kIdBytes;
  }

  // Starts copying their rows to a batch's places. Zeros stand for those that aren't read.
  __device__ __forceinline__ void Ask(const LookupArguments& a, int batch) {
    int64_t ids[kRingTerms];
    bool outside = false;
    uint32_t rows = 0;  // as bits: terms whose rows are read
#pragma unroll
    for (int u = 0; u < kRingTerms; ++u) {
      ids[u] = ids_[u];
      outside = outside || static_cast<uint64_t>(ids[u]) > place_.last_row;
      if (u < terms_ && ids[u] != place_.padding) rows |= 1u << u;
    }
    uint32_t joined = rows;
    if (outside) {
      rows = joined = 0;
#pragma unroll
      for (int u = 0; u < kRingTerms; ++u) {
        if (u >= terms_) continue;
        const ListTerm term = ResolveListId(a, place_, counts_, &ids[u]);
        if (term == ListTerm::kRow) rows |= 1u << u;
        if (term != ListTerm::kNothing) joined |= 1u << u;
      }
    }
    const int first = batch * kRingTerms;
    joined_ = (joined_ & ~(kBatchBits << first)) | joined << first;
    if (place_.has_chunk) {
#pragma unroll
      for (int u = 0; u < kRingTerms; ++u) {
        if (u >= terms_) continue;
        const bool read = (rows >> u & 1) != 0;
        const char* const row = chunk_ + uint64_t{static_cast<uint32_t>(ids[u])} * place_.stride;
        CopyAsync16(SharedAddress(RowAt(first + u)), read ? row : chunk_, read ? 16 : 0);
        if (kWeighted) {
          CopyAsync4(SharedAddress(WeightAt(first + u)), next_weight_ + u * 4, (joined >> u & 1) != 0 ? 4 : 0);
        }
      }
    }
    if (kWeighted) next_weight_ += terms_ * 4;
    CommitCopies();
  }

  // How many terms the next batch of a bag has, of which so many are left.
  static __device__ __forceinline__ int BatchOf(int64_t left) {
    return left < kRingTerms ? static_cast<int>(left) : kRingTerms;
  }
  // Of a batch, as bits: the terms that count.
  __device__ __forceinline__ uint32_t Joined(int batch) const { return joined_ >> batch * kRingTerms & kBatchBits; }
  __device__ __forceinline__ Vector<16> Row(int batch, int u) const { return *RowAt(batch * kRingTerms + u); }
  __device__ __forceinline__ float Weight(int batch, int u) const { return *WeightAt(batch * kRingTerms + u); }

 private:
  using Id = std::conditional_t<kWide, int64_t, int32_t>;  // widened where it is used: whoever widens it waits for it
  static constexpr int kIdBytes = sizeof(Id);
  static constexpr uint32_t kBatchBits = (1u << kRingTerms) - 1;
  static_assert(kRingBatches * kRingTerms <= 32);

  __device__ __forceinline__ Vector<16>* RowAt(int at) const {
    return memory_->rows + at * kBlockThreads + threadIdx.x;
  }
  __device__ __forceinline__ float* WeightAt(int at) const {
    return memory_->weights + at * kBlockThreads + threadIdx.x;
  }

  const PlainBagPlace& place_;
  const char* chunk_;  // the thread's, of the table's row 0
  uint32_t bag_;
  uint32_t step_;
  uint32_t end_;
  bool counts_;
  BagRingMemory* memory_;
  const char* next_ = nullptr;
  const char* next_weight_ = nullptr;
  int64_t left_ = 0;  // ids of the bag
  Id ids_[kRingTerms];
  int terms_;
  uint32_t joined_ = 0;  // as bits of their places
};

}  // namespace dpiframe::cuda
