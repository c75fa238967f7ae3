#include "kernel.cuh"
#include "launch.h"

namespace dpiframe::cuda {
namespace {

__global__ void __launch_bounds__(kInlineWords)
    WriteWords(uint64_t* to, const __grid_constant__ Words words, uint32_t count) {
  if (threadIdx.x < count) to[threadIdx.x] = words.values[threadIdx.x];
}

template <bool kShort>
const void* PoolKernelFor(uint32_t element_bytes) {
  if (element_bytes == 4) return reinterpret_cast<const void*>(&PlainPoolKernel<kGeneralRows, float, kShort>);
  return reinterpret_cast<const void*>(&PlainPoolKernel<kGeneralRows, __half, kShort>);
}

template <int kRows>
const void* TablePoolKernelOf(uint32_t element_bytes) {
  if (element_bytes == 4) return reinterpret_cast<const void*>(&TablePoolKernel<kRows, float>);
  return reinterpret_cast<const void*>(&TablePoolKernel<kRows, __half>);
}

}  // namespace

const void* PlainLookupKernelFor(int rows) {
  if (rows == 1) return reinterpret_cast<const void*>(&PlainLookupKernel<1>);
  return reinterpret_cast<const void*>(&PlainLookupKernel<4>);
}

const void* TablePoolKernelFor(uint32_t element_bytes, int rows) {
  return rows == 1 ? TablePoolKernelOf<1>(element_bytes) : TablePoolKernelOf<4>(element_bytes);
}

const void* PlainPoolKernelFor(uint32_t element_bytes, bool short_pools) {
  return short_pools ? PoolKernelFor<true>(element_bytes) : PoolKernelFor<false>(element_bytes);
}

const void* LookupKernelFor(uint32_t element_bytes) {
  if (element_bytes == 4) return reinterpret_cast<const void*>(&LookupKernel<kGeneralRows, float>);
  return reinterpret_cast<const void*>(&LookupKernel<kGeneralRows, __half>);
}

cudaError_t LaunchLookup(const void* kernel, uint32_t blocks, const LookupArguments& arguments, const Words& words,
                         const Launcher& launcher) {
  void* parameters[] = {const_cast<LookupArguments*>(&arguments), const_cast<Words*>(&words)};
  return launcher.Launch(kernel, {dim3(blocks), dim3(kBlockThreads)}, parameters);
}

cudaError_t LaunchWriteWords(uint64_t* to, const Words& words, uint32_t count, const Launcher& launcher) {
  void* parameters[] = {&to, const_cast<Words*>(&words), &count};
  return launcher.Launch(reinterpret_cast<const void*>(&WriteWords), {dim3(1), dim3(kInlineWords)}, parameters);
}

}  // namespace dpiframe::cuda
