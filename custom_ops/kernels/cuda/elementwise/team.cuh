// What printed kernels build on besides device.cuh: runs of elements in one access, and results of all
// lanes of a team.
#pragma once

namespace dpiframe::cuda {

// kCount stored elements side by side.
template <typename S, int kCount>
struct alignas(sizeof(S) * kCount < 16 ? sizeof(S) * kCount : 16) Pack {
  S values[kCount];
};

template <int kBytes>
struct WordOf {
  using Type = uint4;
};
template <>
struct WordOf<8> {
  using Type = uint2;
};
template <>
struct WordOf<4> {
  using Type = unsigned;
};
template <>
struct WordOf<2> {
  using Type = unsigned short;
};
template <>
struct WordOf<1> {
  using Type = unsigned char;
};

// A kernel may start while earlier ones of its stream still run, which hides how long a start takes: it says that the
// next one may, and waits for the earlier ones before it touches memory.
__device__ __forceinline__ void LetLaterKernelsStart() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void WaitForEarlierKernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Holds the load of a word where it is printed: a compiler puts it behind what others wait for, to save registers.
template <typename Word>
__device__ __forceinline__ void HoldLoad(Word*) {}
__device__ __forceinline__ void HoldLoad(unsigned* word) { asm volatile("" : "+r"(*word)); }
__device__ __forceinline__ void HoldLoad(uint2* word) { asm volatile("" : "+r"(word->x), "+r"(word->y)); }
__device__ __forceinline__ void HoldLoad(uint4* word) {
  asm volatile("" : "+r"(word->x), "+r"(word->y), "+r"(word->z), "+r"(word->w));
}

// Not through the cache for what nothing writes as long as a kernel runs: an earlier one may still do.
template <int kCount, typename S>
__device__ __forceinline__ Pack<S, kCount> ReadInput(const S* from) {
  using Word = typename WordOf<(sizeof(S) * kCount < 16 ? int(sizeof(S)) * kCount : 16)>::Type;
  constexpr int kWords = int(sizeof(S)) * kCount / int(sizeof(Word));
  union {
    Word words[kWords];
    Pack<S, kCount> pack;
  } value;
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    value.words[i] = reinterpret_cast<const Word*>(from)[i];
    HoldLoad(&value.words[i]);
  }
  return value.pack;
}

template <int kCount, typename S>
__device__ __forceinline__ Pack<S, kCount> Read(const S* from) {
  return *reinterpret_cast<const Pack<S, kCount>*>(from);
}

template <typename S, int kCount>
__device__ __forceinline__ void Write(S* to, const Pack<S, kCount>& values) {
  *reinterpret_cast<Pack<S, kCount>*>(to) = values;
}

// Where element i lies in memory that lanes share: rows of 64, 128 or more bytes, read by one lane each, then start in
// different banks. Runs of 16 bytes stay whole.
template <typename S>
__device__ __forceinline__ unsigned Skewed(unsigned i) {
  return i + i / (128 / sizeof(S)) * (16 / sizeof(S));
}

// Neither zero nor far from 1.
__device__ __forceinline__ bool IsPlain(float x) {
  return static_cast<unsigned>(__float_as_int(x)) * 2u - (64u << 24) < 126u << 24;
}
static __device__ __noinline__ float Quotient(float x, float y) { return x / y; }

// Quotients, correctly rounded. One branch for all of them, rather than one for each, lets the divisions overlap.
template <int kCount>
__device__ __forceinline__ Pack<float, kCount> DivideAll(const Pack<float, kCount>& x, const Pack<float, kCount>& y) {
  Pack<float, kCount> quotients;
  bool plain = true;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    plain &= IsPlain(x.values[i]) && IsPlain(y.values[i]);
    quotients.values[i] = PlainQuotient(x.values[i], y.values[i], PlainReciprocal(y.values[i]));
  }
  if (!plain) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) quotients.values[i] = Quotient(x.values[i], y.values[i]);
  }
  return quotients;
}

// The result of kLanes lanes of a warp that are kDistance apart; all of them get it.
template <typename Rule, int kLanes, int kDistance, typename T>
__device__ __forceinline__ T AcrossLanes(T value) {
#pragma unroll
  for (int distance = kDistance; distance < kLanes * kDistance; distance *= 2) {
    value = Rule::Join(value, FromLane(value, distance));
  }
  return value;
}

// The result of a block of kThreads. kRoom: a number of the place in the kernel; none may write where others read.
template <typename Rule, int kThreads, int kRoom, typename T>
__device__ __forceinline__ T AcrossBlock(T value) {
  constexpr int kWarps = kThreads / 32;
  alignas(16) __shared__ char memory[kWarps * sizeof(T)];
  T* const room = reinterpret_cast<T*>(memory);
  value = AcrossLanes<Rule, 32, 1>(value);
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = value;
  __syncthreads();
  value = room[0];
#pragma unroll
  for (int warp = 1; warp < kWarps; ++warp) value = Rule::Join(value, room[warp]);
  return value;
}

// The number of the row along the first of two row axes.
__device__ __forceinline__ long long FirstAxis(long long row, long long inner_rows) {
  const bool small = ((row | inner_rows) >> 32) == 0;
  return small ? static_cast<unsigned>(row) / static_cast<unsigned>(inner_rows) : row / inner_rows;
}

}  // namespace dpiframe::cuda
