// Tiles of FusedGemm for GPUs without the instructions of compute capability 9.0: tensor cores whose operands are all
// in registers. What they multiply, and in which order, is the same as in wgmma_loops.cuh, but for chunks of half
// the length.
#pragma once

#include <cuda_runtime.h>

#include "exact.cuh"
#include "records.h"
#include "rows.cuh"
#include "split.cuh"

namespace dpiframe::cuda {

// kWarpsDown * kWarpsAcross warps, each with 32 rows and kColumns / kWarpsAcross columns.
template <int kWarpsDown_, int kWarpsAcross_, int kColumns_, int kProducts_>
struct MmaTile {
  static constexpr int kWarpsAcross = kWarpsAcross_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kProducts = kProducts_;
  static constexpr int kRows = 32 * kWarpsDown_;
  static constexpr int kThreads = 32 * kWarpsDown_ * kWarpsAcross;
  static constexpr int kWarpColumns = kColumns / kWarpsAcross;
  static constexpr int kParts = kProducts == 3 ? 2 : 1;
  static constexpr int kPartBytes = kColumns * kPartRowBytes;
  static constexpr int kStageBytes = kParts * kPartBytes;
  static constexpr int kStages = 3;
  static constexpr int kPitch = kColumns + 8;
  static constexpr int kSumBytes = kRows * kPitch * 4;
  static constexpr int kSharedBytes = kStages * kStageBytes > kSumBytes ? kStages * kStageBytes : kSumBytes;
  static_assert(kWarpColumns % 16 == 0 && kSharedBytes <= 98 * 1024);
};

__device__ __forceinline__ void Mma(float (&sums)[4], const uint32_t (&rows)[4], uint32_t first, uint32_t second) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(first), "r"(second));
}

// Of 16 columns, 16 values of K each, from the step on: operands for the first 8 columns, then for the others.
__device__ __forceinline__ void LoadColumns(uint32_t (&operands)[4], uint32_t part, int column, int step) {
  const int lane = threadIdx.x & 31;
  const int row = column + (lane & 7) + (lane >> 4) * 8;
  const int piece = 2 * step + (lane >> 3 & 1);
  const uint32_t address = part + row * kPartRowBytes + (piece ^ (row & 7)) * 16;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(operands[0]), "=r"(operands[1]), "=r"(operands[2]), "=r"(operands[3])
               : "r"(address)
               : "memory");
}

// Rows of A on their way to SplitRows: those of two instructions, half a chunk of K.
class RowValues {
 public:
  static constexpr int kSteps = kChunk / 32;

  __device__ __forceinline__ RowValues(const GemmArguments& arguments, const float* a, int64_t first) {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t row = min(first + lane / 4 + 8 * i, arguments.m - 1);
      from_[i] = a + row * arguments.a_pitch + lane % 4 * 4;
    }
  }

  // From value `k` of K on; what lies beyond K is 0.
  __device__ __forceinline__ void Load(const GemmArguments& arguments, int k) {
    const int rest = arguments.k - k - static_cast<int>(threadIdx.x & 3) * 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const float* from = from_[i] + k + 16 * step;
        float4& to = values_[i][step];
        to = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (arguments.a_by_4) {
          if (16 * step < rest) to = *reinterpret_cast<const float4*>(from);
        } else {
          if (16 * step < rest) to.x = from[0];
          if (16 * step + 1 < rest) to.y = from[1];
          if (16 * step + 2 < rest) to.z = from[2];
          if (16 * step + 3 < rest) to.w = from[3];
        }
      }
    }
  }

  template <int kProducts>
  __device__ __forceinline__ void Split(SplitRows<kSteps, kProducts> (&to)[2], bool note_uneven, uint32_t (&notes)[2]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i / 2].Split(i % 2, values_[i], note_uneven, &notes[i / 2]);
  }

 private:
  float4 values_[4][kSteps];
  const float* from_[4];
};

template <class Tile>
__device__ __forceinline__ void CopyColumns(const GemmArguments& arguments, uint32_t to, int first_column, int chunk,
                                            int chunks) {
  const PreparedWeight& weight = arguments.weight;
  if (chunk < chunks) {
    const int pieces = min(Tile::kColumns, weight.rows - first_column) * (kPartRowBytes / 16);
    const uint8_t* from =
        weight.parts + (static_cast<size_t>(chunk) * Tile::kParts * weight.rows + first_column) * kPartRowBytes;
#pragma unroll
    for (int part = 0; part < Tile::kParts; ++part) {
      for (int i = threadIdx.x; i < pieces; i += Tile::kThreads) {
        CopyAsync16(to + part * Tile::kPartBytes + i * 16, from + i * 16, 16);
      }
      from += static_cast<size_t>(weight.rows) * kPartRowBytes;
    }
  }
  CommitCopies();
}

// Products of a warp's rows with 16 columns in half a chunk, added to their sums.
template <class Tile>
__device__ __forceinline__ void MultiplyColumns(const SplitRows<RowValues::kSteps, Tile::kProducts> (&rows)[2],
                                                uint32_t part, int column, int first_step, float (&sums)[2][2][4]) {
  constexpr int kSteps = RowValues::kSteps;
  uint32_t high[kSteps][4];
  float products[2][2][4] = {};
#pragma unroll
  for (int step = 0; step < kSteps; ++step) LoadColumns(high[step], part, column, first_step + step);
  if constexpr (Tile::kProducts == 3) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      uint32_t low[4];
      LoadColumns(low, part + Tile::kPartBytes, column, first_step + step);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        Mma(products[i / 2][i % 2], rows[i / 2].high[step], low[i % 2 * 2], low[i % 2 * 2 + 1]);
        Mma(products[i / 2][i % 2], rows[i / 2].low[step], high[step][i % 2 * 2], high[step][i % 2 * 2 + 1]);
      }
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) products[i / 8][i / 4 % 2][i % 4] *= 1.0f / kRestScale;
  }
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      Mma(products[i / 2][i % 2], rows[i / 2].high[step], high[step][i % 2 * 2], high[step][i % 2 * 2 + 1]);
    }
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    float& sum = sums[i / 8][i / 4 % 2][i % 4];
    sum = fmaf(products[i / 8][i / 4 % 2][i % 4], rows[i / 8].unscale[i % 4 / 2], sum);
  }
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads) MmaGemm(const __grid_constant__ GemmArguments arguments) {
  extern __shared__ __align__(1024) uint8_t dynamic[];
  __shared__ uint32_t all_notes[Tile::kRows / kStripRows];
  const uint32_t ring = static_cast<uint32_t>(__cvta_generic_to_shared(dynamic));
  float* const sum_memory = reinterpret_cast<float*>(dynamic);
  const int tile_number = blockIdx.x, tiles_across = TilesAcross(arguments, Tile::kColumns);
  const int64_t first_row = static_cast<int64_t>(tile_number / tiles_across) * Tile::kRows;
  const RunColumns run(arguments, tile_number % tiles_across, Tile::kColumns);
  const int first_column = run.first;
  const int chunks = (arguments.k + kChunk - 1) / kChunk;
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  const int row = warp / Tile::kWarpsAcross * 32, column = warp % Tile::kWarpsAcross * Tile::kWarpColumns;
  if (threadIdx.x < Tile::kRows / kStripRows) all_notes[threadIdx.x] = 0;
  for (int i = 0; i < Tile::kStages - 1; ++i) {
    CopyColumns<Tile>(arguments, ring + i * Tile::kStageBytes, first_column, i, chunks);
  }
  RowValues values(arguments, arguments.a + run.begin, first_row + row);
  values.Load(arguments, 0);
  WarpNotes notes;
  uint32_t row_notes[2] = {};
  notes.of_weight = FlagWords<Tile::kColumns>(arguments.weight, first_column, lane).All();
  const bool note_uneven = (notes.of_weight & kWeightUneven) != 0;
  float sums[Tile::kWarpColumns / 16][2][2][4] = {};
  int stage = 0;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    WaitForCopies<Tile::kStages - 2>();
    __syncthreads();  // this chunk is there, and all are done with the one before it
    const int next = stage == 0 ? Tile::kStages - 1 : stage - 1;
    CopyColumns<Tile>(arguments, ring + next * Tile::kStageBytes, first_column, chunk + Tile::kStages - 1, chunks);
    const uint32_t part = ring + stage * Tile::kStageBytes;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      SplitRows<RowValues::kSteps, Tile::kProducts> rows[2];
      values.Split(rows, note_uneven, row_notes);
      values.Load(arguments, chunk * kChunk + (half + 1) * (kChunk / 2));
#pragma unroll
      for (int i = 0; i < Tile::kWarpColumns / 16; ++i) {
        MultiplyColumns<Tile>(rows, part, column + 16 * i, half * RowValues::kSteps, sums[i]);
      }
    }
    stage = stage == Tile::kStages - 1 ? 0 : stage + 1;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t joined = __reduce_or_sync(0xffffffffu, row_notes[i]);
    if (lane == 0 && joined != 0) atomicOr(&all_notes[row / kStripRows + i], joined);
  }
  WaitForCopies<0>();
  __syncthreads();
#pragma unroll
  for (int i = 0; i < Tile::kWarpColumns / 16 * 8; ++i) {
    const int group = i / 8, of_rows = i / 4 % 2, of_columns = i / 2 % 2, half = i % 2;
    const int at =
        (row + 16 * of_rows + 8 * half + lane / 4) * Tile::kPitch + column + 16 * group + 8 * of_columns + lane % 4 * 2;
    const float* from = &sums[group][of_rows][of_columns][2 * half];
    *reinterpret_cast<float2*>(sum_memory + at) = make_float2(from[0], from[1]);
  }
  __syncthreads();
  TileSums<1> tile{{sum_memory}, Tile::kPitch, 0, 0, 0, Tile::kRows};
  for (int strip = 0; strip < Tile::kRows / kStripRows; ++strip) {
    if (!NeedsExactProducts({all_notes[strip], notes.of_weight})) continue;
    if (first_row + strip * kStripRows >= arguments.m) continue;
    tile.exact_strips |= 1u << strip;
    ExactStrip(arguments, first_row + strip * kStripRows, run, Tile::kColumns, threadIdx.x, Tile::kThreads,
               sum_memory + strip * kStripRows * Tile::kPitch, Tile::kPitch);
  }
  if (tile.exact_strips != 0) __syncthreads();
  FinishTile<Tile::kColumns, 1, Tile::kThreads>(arguments, first_row, run, tile, threadIdx.x);
}

}  // namespace dpiframe::cuda
