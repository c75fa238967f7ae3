// The weight in parts: blocks of 64 values of K, [chunk][part][column][64], as tensor cores read them from shared
// memory:
//
// - 128 bytes of a column hold the values of a chunk. Its 16-byte pieces are exchanged among each other: piece p of
//   column n lies at p ^ (n % 8), the pattern of 128 bytes in which both ldmatrix and wgmma read without conflicts.
// - In each 16 values, those that one thread of four takes lie together in A (split.cuh). So value 4t + j stands
// at
//   2t + j for j < 2 and at 2t + 8 + j - 2 for the others.
//
// Any run of columns that starts at a multiple of 8 is one piece of memory in each part of a chunk.
#include "prepare.h"
#include "split.cuh"

namespace dpiframe::cuda {
namespace {

constexpr int kPrepareThreads = 128;
constexpr int kTile = 32;

// What an uneven weight must reach to make up for values of A that lost bits, with as many bits to spare as float32
// has.
constexpr int kHarmlessExponents = 24;

constexpr size_t Aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

__global__ void __launch_bounds__(kTile * 8) Transpose(const float* from, float* to, int n, int k) {
  __shared__ float tile[kTile][kTile + 1];
  for (int i = threadIdx.y; i < kTile; i += 8) {
    const int row = blockIdx.y * kTile + i, column = blockIdx.x * kTile + threadIdx.x;
    if (row < k && column < n) tile[i][threadIdx.x] = from[static_cast<int64_t>(row) * n + column];
  }
  __syncthreads();
  for (int i = threadIdx.y; i < kTile; i += 8) {
    const int row = blockIdx.x * kTile + i, column = blockIdx.y * kTile + threadIdx.x;
    if (row < n && column < k) to[static_cast<int64_t>(row) * k + column] = tile[threadIdx.x][i];
  }
}

struct PartsTarget {
  uint8_t* parts;
  float* unscale;
  uint8_t* flags;
};

// A block a column.
__global__ void __launch_bounds__(kPrepareThreads)
    SplitWeight(const float* plain, PartsTarget target, int n, int k, int rows, int part_count) {
  const int column = blockIdx.x;
  const float* values = plain + static_cast<int64_t>(column) * k;
  float largest = 0.0f;
  uint32_t smallest = 0xffffffffu;
  bool has_zero = false;
  if (column < n) {
    for (int i = threadIdx.x; i < k; i += kPrepareThreads) {
      largest = Largest(largest, values[i]);
      smallest = SmallestBits(smallest, values[i]);
      has_zero |= values[i] == 0.0f;
    }
  }
  // As bits, NaN is larger than infinity, and that larger than all numbers.
  __shared__ uint32_t largest_bits, smallest_bits;
  if (threadIdx.x == 0) largest_bits = 0, smallest_bits = 0xffffffffu;
  __syncthreads();
  atomicMax(&largest_bits, __float_as_uint(largest) & 0x7fffffffu);
  atomicMin(&smallest_bits, smallest);
  has_zero = __syncthreads_or(has_zero);
  largest = __uint_as_float(largest_bits);
  const PowerOfTwo power = ScaleOf(largest);
  if (threadIdx.x == 0) {
    target.unscale[column] = power.unscale;
    uint8_t flags = 0;
    if (!InRange(largest) || !IsEven(largest, smallest_bits, kFullBitsExponents)) flags |= kWeightOutOfRange;
    if (largest != 0.0f && (has_zero || !IsEven(largest, smallest_bits, kHarmlessExponents))) flags |= kWeightUneven;
    target.flags[column] = flags;
  }
  const int chunks = (k + kChunk - 1) / kChunk;
  for (int pair = threadIdx.x; pair < chunks * kChunk / 2; pair += kPrepareThreads) {
    const int at = 2 * pair;
    const float x = column < n && at < k ? values[at] : 0.0f;
    const float y = column < n && at + 1 < k ? values[at + 1] : 0.0f;
    const Halves halves = Split2(x, y, power.scale);
    const int in_step = at % 16, in_thread = in_step % 4;
    const int place = at % kChunk / 16 * 16 + in_step / 4 * 2 + (in_thread >= 2 ? 8 : 0);
    const size_t row = (static_cast<size_t>(at / kChunk) * part_count * rows + column) * kPartRowBytes;
    const size_t byte = row + ((place / 8) ^ (column % 8)) * 16 + place % 8 * 2;
    *reinterpret_cast<uint32_t*>(target.parts + byte) = halves.high;
    if (part_count == 2) {
      *reinterpret_cast<uint32_t*>(target.parts + byte + static_cast<size_t>(rows) * kPartRowBytes) = halves.low;
    }
  }
}

}  // namespace

WeightLayout::WeightLayout(int n, int k, int parts, bool transposed)
    : n_(n), k_(k), parts_(parts), rows_((n + 7) / 8 * 8), transposed_(transposed) {
  const size_t chunks = (static_cast<size_t>(k) + kChunk - 1) / kChunk;
  size_t at = chunks * parts * rows_ * kPartRowBytes;  // the parts lie at the front, where they are aligned best
  unscale_ = at;
  if (parts > 0) at = Aligned(at + rows_ * sizeof(float));
  flags_ = at;
  if (parts > 0) at = Aligned(at + rows_);
  plain_ = at;
  if (transposed) at = Aligned(at + static_cast<size_t>(n) * k * sizeof(float));
  bytes_ = at;
}

PreparedWeight WeightLayout::At(const float* weight, void* memory) const {
  uint8_t* bytes = static_cast<uint8_t*>(memory);
  PreparedWeight prepared{};
  prepared.plain = transposed_ ? reinterpret_cast<const float*>(bytes + plain_) : weight;
  prepared.rows = rows_;
  if (parts_ > 0) {
    prepared.parts = bytes;
    prepared.unscale = reinterpret_cast<const float*>(bytes + unscale_);
    prepared.flags = bytes + flags_;
  }
  return prepared;
}

// The codes are those of the launches themselves: what an earlier call of this thread left behind is none of theirs.
cudaError_t WeightLayout::Prepare(const float* weight, void* memory, const Launcher& launcher) const {
  const PreparedWeight prepared = At(weight, memory);
  int n = n_, k = k_, rows = rows_, parts = parts_;
  if (transposed_) {
    const dim3 blocks((n_ + kTile - 1) / kTile, (k_ + kTile - 1) / kTile);
    float* plain = const_cast<float*>(prepared.plain);
    void* parameters[] = {&weight, &plain, &n, &k};
    const cudaError_t code =
        launcher.Launch(reinterpret_cast<const void*>(&Transpose), {blocks, dim3(kTile, 8)}, parameters);
    if (code != cudaSuccess) return code;
  }
  if (parts_ == 0) return cudaSuccess;
  PartsTarget target{const_cast<uint8_t*>(prepared.parts), const_cast<float*>(prepared.unscale),
                     const_cast<uint8_t*>(prepared.flags)};
  const float* plain = prepared.plain;
  void* parameters[] = {&plain, &target, &n, &k, &rows, &parts};
  return launcher.Launch(reinterpret_cast<const void*>(&SplitWeight), {dim3(rows_), dim3(kPrepareThreads)}, parameters);
}

}  // namespace dpiframe::cuda
