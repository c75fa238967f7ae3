// A on its way from memory to a warp's registers: a ring of buffers in shared memory that the warp alone uses, each
// with 64 values of K of its 16 rows. Copies of later chunks are under way while the warp works on one.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/async_copy.cuh"
#include "records.h"

namespace dpiframe::cuda {

constexpr int kRowBytes = 4 * kChunk;
constexpr int kRowBufferBytes = 16 * kRowBytes;

template <int kBuffers>
class RowRing {
 public:
  static constexpr int kBytes = kBuffers * kRowBufferBytes;

  RowRing() = default;

  // `first`: of the 16 rows. Rows beyond the last one stand for that: nothing of them is written. `memory`: kBytes in
  // shared memory, of this warp.
  __device__ __forceinline__ RowRing(const GemmArguments& arguments, const float* a, int64_t first, uint32_t memory)
      : all_rows_(first + 16 <= arguments.m), lane_(threadIdx.x & 31), memory_(memory) {
    const int64_t row = min(first + (arguments.a_by_4 ? lane_ / 16 : 0), arguments.m - 1);
    last_row_ = static_cast<int>(min(arguments.m - 1 - row, int64_t{15}));
    from_ = a + row * arguments.a_pitch + (arguments.a_by_4 ? 4 * (lane_ % 16) : lane_);
    to_ = memory_ + lane_ / 16 * kRowBytes + Place(lane_ / 16, lane_ % 16);
    read_from_ = memory_ + lane_ / 4 * kRowBytes + Place(lane_ / 4, lane_ % 4);
  }

  // Starts copying the chunk at value `k` of K; what lies beyond K is 0. Where there is nothing to copy, too, one more
  // group of copies is counted.
  __device__ __forceinline__ void Copy(const GemmArguments& arguments, int k) {
    if (k >= arguments.k) {
    } else if (arguments.a_by_4) {
      const bool inside = k + 4 * (lane_ % 16) < arguments.k;
      const uint32_t bytes = inside ? 16 : 0;
      const float* from = inside ? from_ + k : from_;
      const uint32_t to = to_ + copied_ * kRowBufferBytes;
      if (all_rows_) {
        const int64_t two_rows = 2 * static_cast<int64_t>(arguments.a_pitch);
#pragma unroll
        for (int i = 0; i < 8; ++i, from += two_rows) CopyAsync16(to + 2 * i * kRowBytes, from, bytes);
      } else {
#pragma unroll 1
        for (int i = 0; i < 8; ++i) {
          CopyAsync16(to + 2 * i * kRowBytes, from + static_cast<int64_t>(min(2 * i, last_row_)) * arguments.a_pitch,
                      bytes);
        }
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < 32; ++i) {
        const int row = i / 2, value = lane_ + i % 2 * 32;
        const bool inside = k + value < arguments.k;
        const float* from = from_ + static_cast<int64_t>(min(row, last_row_)) * arguments.a_pitch;
        CopyAsync4(memory_ + copied_ * kRowBufferBytes + row * kRowBytes + Place(row, value / 4) + value % 4 * 4,
                   inside ? from + k + i % 2 * 32 : from_, inside ? 4 : 0);
      }
    }
    CommitCopies();
    if (++copied_ == kBuffers) copied_ = 0;
  }

  // Waits for the oldest chunk. kBuffers - 1 copies must have been started since it was last called, or from the
  // beginning on.
  __device__ __forceinline__ void Wait() {
    WaitForCopies<kBuffers - 2>();
    __syncwarp();
  }

  // Reads of that chunk a thread's values of row g (half 0) or g + 8 (1), as SplitRows takes them.
  __device__ __forceinline__ void Read(int half, float4 (&values)[kChunk / 16]) const {
    const uint32_t from = read_from_ + read_ * kRowBufferBytes + half * 8 * kRowBytes;
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step) {
      asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(values[step].x), "=f"(values[step].y), "=f"(values[step].z), "=f"(values[step].w)
                   : "r"(from ^ static_cast<uint32_t>(step * 64))
                   : "memory");
    }
  }

  __device__ __forceinline__ void Next() {
    if (++read_ == kBuffers) read_ = 0;
  }

 private:
  // Where a row has 16 bytes: the halves of 128 bytes are exchanged in odd rows, so that reads meet no bank conflicts.
  static __device__ __forceinline__ uint32_t Place(int row, int piece) { return (piece ^ (row & 1) << 2) * 16; }

  bool all_rows_;
  int lane_;
  uint32_t memory_;
  int last_row_;
  const float* from_;
  uint32_t to_;
  uint32_t read_from_;
  int copied_ = 0;
  int read_ = 0;
};

}  // namespace dpiframe::cuda
