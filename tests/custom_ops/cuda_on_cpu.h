// Just enough of CUDA to run a printed kernel on a CPU: the threads of a block take turns and meet where the kernel
// makes them wait for each other. Ends the process where some threads wait and others don't.
#pragma once

#include <ucontext.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __launch_bounds__(threads, blocks)

struct uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct Coordinate {
  unsigned x;
};

static Coordinate threadIdx, blockIdx, blockDim, gridDim;
uint4 shared[3072];

namespace cuda_on_cpu {

struct Thread {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(64 << 10);
  unsigned waits = 0;
  bool done = false;
};

static std::vector<Thread> threads;
static ucontext_t scheduler;
static bool backwards;
static const void* kernel_arguments;
static void (*kernel_body)(const void*);
alignas(16) static char exchanged[2][1024][16];

inline void Wait() {
  Thread& own = threads[threadIdx.x];
  ++own.waits;
  swapcontext(&own.context, &scheduler);
}

inline void RunThread() {
  kernel_body(kernel_arguments);
  threads[threadIdx.x].done = true;
}

inline void RunBlock() {
  for (Thread& thread : threads) {
    thread.waits = 0;
    thread.done = false;
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.data();
    thread.context.uc_stack.ss_size = thread.stack.size();
    thread.context.uc_link = &scheduler;
    makecontext(&thread.context, RunThread, 0);
  }
  while (!threads[0].done) {
    unsigned before = 0;
    for (unsigned turn = 0; turn < threads.size(); ++turn) {
      const unsigned i = backwards ? static_cast<unsigned>(threads.size()) - 1 - turn : turn;
      threadIdx.x = i;
      swapcontext(&scheduler, &threads[i].context);
      if (turn > 0 && (threads[i].done != threads[before].done || threads[i].waits != threads[before].waits)) {
        std::fprintf(stderr, "threads %u and %u of block %u don't wait together\n", before, i, blockIdx.x);
        std::abort();
      }
      before = i;
    }
  }
}

inline void Run(unsigned blocks, unsigned block_threads, void (*body)(const void*), const void* arguments) {
  threads.resize(block_threads);
  kernel_body = body;
  kernel_arguments = arguments;
  gridDim.x = blocks;
  blockDim.x = block_threads;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) RunBlock();
  std::vector<Thread>().swap(threads);
}

}  // namespace cuda_on_cpu

// As instructions give it that flush to zero.
inline float Flushed(float value) { return std::fabs(value) < 1.17549435e-38f ? std::copysign(0.0f, value) : value; }

inline void __syncthreads() { cuda_on_cpu::Wait(); }
inline void __syncwarp() { cuda_on_cpu::Wait(); }

template <typename T>
T __shfl_xor_sync(unsigned, T value, int distance) {
  auto& room = cuda_on_cpu::exchanged[cuda_on_cpu::threads[threadIdx.x].waits % 2];
  std::memcpy(room[threadIdx.x], &value, sizeof value);
  cuda_on_cpu::Wait();
  std::memcpy(&value, room[threadIdx.x ^ static_cast<unsigned>(distance)], sizeof value);
  return value;
}

inline unsigned min(unsigned x, unsigned y) { return x < y ? x : y; }

template <typename To, typename From>
To BitCast(From from) {
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
inline int __float_as_int(float value) { return BitCast<int>(value); }
inline float __int_as_float(int bits) { return BitCast<float>(bits); }
inline double __longlong_as_double(long long bits) { return BitCast<double>(bits); }
