// The ids of the bags that a group of threads fills one after the other. Bags whose ids stand one behind the other in
// the list are one run, of which the group looks at a window at a time: each thread at one id, for all of them.
#pragma once

#include <type_traits>

#include "plain_bag_place.cuh"

namespace dpiframe::cuda {

// Where a bag's ids stand in its list.
struct BagRange {
  int64_t begin;
  uint32_t length;  // 0 of one that another fills
  uint32_t fills;   // not where there is no such row, or where another fills it
};

template <bool kWide, bool kWeighted>
class BagWindows {
 public:
  // The group's bags: those from `bag` on, before `end`. `place`: of any of them, at the beginning of the list.
  __device__ __forceinline__ BagWindows(const PlainBagPlace& place, uint32_t lanes_log2, const BagRange* ranges,
                                        uint32_t bag, uint32_t end)
      : place_(place),
        lane_(threadIdx.x & ((1u << lanes_log2) - 1)),
        lanes_(1u << lanes_log2),
        group_((2u << ((1u << lanes_log2) - 1)) - 1),
        ranges_(ranges),
        bag_(bag),
        end_(end) {
    FindRun();
    LoadIds();
  }

  // Opens the next window, and loads the ids of that behind it. Returns how many terms the one has that has most in the
  // warp, all of whose threads call this together; 0: there are no more.
  __device__ __forceinline__ uint32_t Open(const LookupArguments& a) {
    ListTerm term = ListTerm::kNothing;
    int64_t id = id_;
    terms_ = asked_;
    if (lane_ < terms_) term = ResolveListId(a, place_, place_.counts, &id);
    row_ = term == ListTerm::kRow ? static_cast<uint32_t>(id) : 0;
    weight_ = asked_weight_;
    run_ += terms_;
    left_ -= terms_;
    if (left_ == 0) FindRun();
    LoadIds();
    const uint32_t first_lane = FirstLane();
    read_ = __ballot_sync(kWholeWarp, term == ListTerm::kRow) >> first_lane & group_;
    joined_ = __ballot_sync(kWholeWarp, term != ListTerm::kNothing) >> first_lane & group_;
    return __reduce_max_sync(kWholeWarp, terms_);
  }

  // Of the open window: how many terms it has, which of them are rows of the table, and which count, as bits.
  __device__ __forceinline__ uint32_t terms() const { return terms_; }
  __device__ __forceinline__ uint32_t read() const { return read_; }
  __device__ __forceinline__ uint32_t joined() const { return joined_; }

  // The row of a term, 0 for none, for the whole warp at a time; and the thread's own weight.
  __device__ __forceinline__ uint32_t RowOf(uint32_t term) const {
    return __shfl_sync(kWholeWarp, row_, static_cast<int>(FirstLane() + term));
  }
  __device__ __forceinline__ float own_weight() const { return weight_; }
  __device__ __forceinline__ uint32_t lane() const { return lane_; }

 private:
  using Id = std::conditional_t<kWide, int64_t, int32_t>;  // widened where it is used: whoever widens it waits for it

  __device__ __forceinline__ uint32_t FirstLane() const { return (threadIdx.x & 31) - lane_; }

  __device__ __forceinline__ void FindRun() {
    while (left_ == 0 && bag_ < end_) {
      run_ = ranges_[bag_].begin;
      do {
        left_ += ranges_[bag_].length;
        ++bag_;
      } while (bag_ < end_ && ranges_[bag_].begin == run_ + left_);
    }
  }

  __device__ __forceinline__ void LoadIds() {
    asked_ = left_ < lanes_ ? left_ : lanes_;
    id_ = 0;
    asked_weight_ = 0.0f;
    if (lane_ >= asked_) return;
    const int64_t position = run_ + lane_;
    id_ = LoadAs<Id>(place_.ids + position * static_cast<int64_t>(sizeof(Id)));
    if (kWeighted) asked_weight_ = LoadAs<float>(place_.weights + position * 4);
  }

  const PlainBagPlace& place_;
  uint32_t lane_;
  uint32_t lanes_;
  uint32_t group_;  // as bits of its lanes
  const BagRange* ranges_;
  uint32_t bag_;
  uint32_t end_;
  int64_t run_ = 0;    // where its next window begins in the list
  uint32_t left_ = 0;  // of the run
  uint32_t asked_;     // terms whose ids are loaded
  Id id_;
  float asked_weight_;
  uint32_t terms_ = 0;
  uint32_t read_ = 0;
  uint32_t joined_ = 0;
  uint32_t row_ = 0;
  float weight_ = 0.0f;
};

}  // namespace dpiframe::cuda
