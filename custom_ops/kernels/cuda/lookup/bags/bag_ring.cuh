// Rows of bags on their way through a ring in shared memory, in which each thread has places of its own. So there is as
// much under way where a bag ends as within one.
#pragma once

#include "bag_windows.cuh"
#include "kernels/cuda/device/async_copy.cuh"
#include "kernels/cuda/device/shared_address.cuh"

namespace dpiframe::cuda {

constexpr int kRingBatches = 2;  // of rows, all but one on their way
constexpr int kRingTerms = 4;    // of a batch; divides a window
static_assert((1 << kMinBagLanesLog2) % kRingTerms == 0);

struct BagRingMemory {
  static constexpr int kTerms = kRingBatches * kRingTerms;
  Vector<16> rows[kTerms][kBlockThreads];
  float weights[kTerms][kBlockThreads >> kMinBagLanesLog2];  // of each group
};

// A batch: how many terms it has, and which of them count.
struct BagBatch {
  static constexpr uint32_t kAll = (1u << kRingTerms) - 1;
  uint32_t terms;
  uint32_t joined;  // as bits
};

template <bool kWide, bool kWeighted>
class BagRing {
 public:
  __device__ __forceinline__ BagRing(const PlainBagPlace& place, uint32_t lanes_log2, BagRingMemory* memory)
      : chunk_(place.table + uint64_t{place.chunk} * 16),
        stride_(place.stride),
        has_chunk_(place.has_chunk),
        group_(threadIdx.x >> lanes_log2),
        memory_(memory) {
    // Else it is added up again from its parts for every row.
    asm volatile("" : "+l"(chunk_));
  }

  // Starts copying the rows of a window's terms from `first` on to a batch's places. Zeros stand for those that aren't
  // read. All threads of a warp call this together.
  __device__ __forceinline__ void Ask(const BagWindows<kWide, kWeighted>& window, uint32_t first, int batch) {
    const uint32_t read = window.read() >> first & BagBatch::kAll;
    const uint32_t joined = window.joined() >> first & BagBatch::kAll;
    const int32_t rest = static_cast<int32_t>(window.terms() - first);
    const uint32_t terms = rest <= 0 ? 0 : rest < kRingTerms ? rest : kRingTerms;
    notes_ = (notes_ & ~(kNote << batch * kNoteBits)) | (terms << kRingTerms | joined) << batch * kNoteBits;
    if (kWeighted) {
      __syncwarp();
      const uint32_t term = window.lane() - first;
      if (term < kRingTerms) memory_->weights[batch * kRingTerms + term][group_] = window.own_weight();
      __syncwarp();
    }
    uint32_t rows[kRingTerms];
#pragma unroll
    for (int u = 0; u < kRingTerms; ++u) rows[u] = window.RowOf(first + u);
    if (has_chunk_) {
      Vector<16>* const to = &memory_->rows[batch * kRingTerms][threadIdx.x];
#pragma unroll
      for (int u = 0; u < kRingTerms; ++u) {
        CopyAsync16(SharedAddress(to + u * kBlockThreads), chunk_ + uint64_t{rows[u]} * stride_, (read >> u & 1) * 16);
      }
    }
    CommitCopies();
  }

  __device__ __forceinline__ BagBatch Batch(int batch) const {
    const uint32_t note = notes_ >> batch * kNoteBits & kNote;
    return {note >> kRingTerms, note & BagBatch::kAll};
  }
  __device__ __forceinline__ Vector<16> Row(int batch, int u) const {
    return memory_->rows[batch * kRingTerms + u][threadIdx.x];
  }
  __device__ __forceinline__ float Weight(int batch, int u) const {
    return memory_->weights[batch * kRingTerms + u][group_];
  }

 private:
  static constexpr int kNoteBits = 8;
  static constexpr uint32_t kNote = (1u << kNoteBits) - 1;
  static_assert(kRingBatches * kNoteBits <= 32 && kRingTerms <= 4);

  const char* chunk_;  // the thread's, of the table's row 0
  uint32_t stride_;
  bool has_chunk_;
  uint32_t group_;
  BagRingMemory* memory_;
  uint32_t notes_ = 0;  // of each batch: its terms and which count
};

}  // namespace dpiframe::cuda
