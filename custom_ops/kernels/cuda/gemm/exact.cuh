// The end of a tile: products that float16 parts could not stand for are computed again in float32, then the steps
// follow and the results are written.
#pragma once

#include <cuda_runtime.h>

#include "epilogue.cuh"
#include "records.h"
#include "runs.cuh"
#include "split.cuh"

namespace dpiframe::cuda {

constexpr int kStripRows = 16;  // whose notes are kept together: those of one instruction's rows

// Whether any of a tile's columns has a flag: a bit for each. They begin at a multiple of 8. In two steps: what comes
// between them hides the time that the loads take.
template <int kColumns>
class FlagWords {
 public:
  __device__ __forceinline__ FlagWords(const PreparedWeight& weight, int first_column, int lane) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int column = first_column + 4 * (lane + 32 * i);
      words_[i] = 0;
      if (4 * (lane + 32 * i) < kColumns && column < weight.rows) {
        words_[i] = *reinterpret_cast<const uint32_t*>(weight.flags + column);
      }
    }
  }
  __device__ __forceinline__ uint32_t All() const {
    uint32_t flags = 0;
#pragma unroll
    for (int i = 0; i < kWords; ++i) flags |= words_[i];
    flags = __reduce_or_sync(0xffffffffu, flags);
    flags |= flags >> 16;
    return (flags | flags >> 8) & 0xffu;
  }

 private:
  static constexpr int kWords = (kColumns + 127) / 128;
  uint32_t words_[kWords];
};

struct WarpNotes {
  uint32_t of_rows = 0;
  uint32_t of_weight = 0;
};

__device__ __forceinline__ bool NeedsExactProducts(const WarpNotes& notes) {
  return (notes.of_rows & kRowOutOfRange) != 0 || (notes.of_weight & kWeightOutOfRange) != 0 ||
         ((notes.of_rows & kRowUneven) != 0 && (notes.of_weight & kWeightUneven) != 0);
}

// Products of up to 16 rows of A with a column of the weight, by the 32-bit unit. All loads of A are the same for a
// warp whose threads take a column each. Sums of a chunk's products are added up on their own: rounding errors grow
// with the length of a sum.
__device__ __forceinline__ void ExactColumn(const GemmArguments& arguments, int64_t first_row, int rows,
                                            const RunColumns& run, int column, float (&totals)[kStripRows]) {
  const int k = arguments.k, a_pitch = arguments.a_pitch;
  const bool by_4 = arguments.a_by_4 && (reinterpret_cast<uintptr_t>(arguments.weight.plain) & 15) == 0;
  const float* a = arguments.a + run.begin + first_row * a_pitch;
  const float* w = arguments.weight.plain + static_cast<int64_t>(column) * k;
#pragma unroll
  for (int row = 0; row < kStripRows; ++row) totals[row] = 0.0f;
  for (int chunk = 0; chunk < k; chunk += kChunk) {
    const int end = min(chunk + kChunk, k);
    float part[kStripRows] = {};
    if (by_4) {
      for (int i = chunk; i < end; i += 4) {
        const float4 weight = *reinterpret_cast<const float4*>(w + i);
#pragma unroll
        for (int row = 0; row < kStripRows; ++row) {
          if (row >= rows) break;
          const float4 value = *reinterpret_cast<const float4*>(a + static_cast<int64_t>(row) * a_pitch + i);
          part[row] = fmaf(value.x, weight.x, part[row]);
          part[row] = fmaf(value.y, weight.y, part[row]);
          part[row] = fmaf(value.z, weight.z, part[row]);
          part[row] = fmaf(value.w, weight.w, part[row]);
        }
      }
    } else {
      for (int i = chunk; i < end; ++i) {
        const float weight = w[i];
#pragma unroll
        for (int row = 0; row < kStripRows; ++row) {
          if (row < rows) part[row] = fmaf(a[static_cast<int64_t>(row) * a_pitch + i], weight, part[row]);
        }
      }
    }
#pragma unroll
    for (int row = 0; row < kStripRows; ++row) totals[row] += part[row];
  }
}

// The same for a tile's columns: each of `threads` threads takes one at a time. `sums`: [16][pitch] in shared memory.
static __device__ __noinline__ void ExactStrip(const GemmArguments& arguments, int64_t first_row, RunColumns run,
                                               int columns, int thread, int threads, float* sums, int pitch) {
  const int rows = static_cast<int>(min(static_cast<int64_t>(kStripRows), arguments.m - first_row));
  for (int c = thread; c < columns; c += threads) {
    if (run.first + c >= run.end) break;
    float totals[kStripRows];
    ExactColumn(arguments, first_row, rows, run, run.first + c, totals);
#pragma unroll
    for (int row = 0; row < kStripRows; ++row) sums[row * pitch + c] = totals[row];
  }
}

// A tile's sums in shared memory: in each of `kBlocks` blocks `slabs` of them, [rows][pitch], all of which are to be
// added up and multiplied with the columns' powers of two. Strips that were computed exactly stand in the first slab of
// the first block alone, and are complete.
template <int kBlocks>
struct TileSums {
  const float* sums[kBlocks];
  int pitch;
  int slab;  // distance of two slabs
  uint32_t exact_strips;
  int first_row;  // the rows to finish
  int end_row;
};

// Adds, multiplies, applies the steps and writes. All of `kThreads` threads call it.
template <int kColumns, int kSlabs, int kThreads, int kBlocks>
__device__ __forceinline__ void FinishTile(const GemmArguments& arguments, int64_t first_row, const RunColumns& run,
                                           const TileSums<kBlocks>& tile, int thread, const KeptColumns& kept = {}) {
  constexpr int kGroups = kColumns / 4;
  constexpr int kTogether = 4;
  const int all = (tile.end_row - tile.first_row) * kGroups;
  for (int base = thread; base < all; base += kThreads * kTogether) {
    int64_t rows[kTogether];
    int columns[kTogether];
    float4 y[kTogether];
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      const int group = base + j * kThreads;
      const int row = tile.first_row + group / kGroups, column = group % kGroups * 4;
      rows[j] = -1;
      columns[j] = run.first + column;
      y[j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (group >= all || first_row + row >= arguments.m || columns[j] >= run.end) continue;
      rows[j] = first_row + row;
      const int place = row * tile.pitch + column;
      y[j] = *reinterpret_cast<const float4*>(tile.sums[0] + place);
      if ((tile.exact_strips >> (row / kStripRows) & 1) != 0) continue;
#pragma unroll
      for (int slab = 1; slab < kSlabs * kBlocks; ++slab) {
        const float* from = tile.sums[slab / kSlabs] + slab % kSlabs * tile.slab + place;
        const float4 more = *reinterpret_cast<const float4*>(from);
        y[j] = make_float4(y[j].x + more.x, y[j].y + more.y, y[j].z + more.z, y[j].w + more.w);
      }
      const float4 unscale = kept.memory != nullptr
                                 ? kept.At(0, columns[j])
                                 : *reinterpret_cast<const float4*>(arguments.weight.unscale + columns[j]);
      y[j] = make_float4(y[j].x * unscale.x, y[j].y * unscale.y, y[j].z * unscale.z, y[j].w * unscale.w);
    }
    ApplySteps4<kTogether>(arguments, rows, columns, y, kept);
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      if (rows[j] < 0) continue;
      Store4(arguments.y + rows[j] * arguments.n, columns[j], run.end, arguments.y_by_4, y[j]);
    }
  }
}

}  // namespace dpiframe::cuda
