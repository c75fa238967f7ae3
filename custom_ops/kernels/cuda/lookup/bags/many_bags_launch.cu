#include "kernels/cuda/lookup/launch.h"
#include "many_bags.cuh"

namespace dpiframe::cuda {

const void* ManyBagsKernelFor(uint32_t element_bytes) {
  if (element_bytes == 4) return reinterpret_cast<const void*>(&ManyBagsKernel<float>);
  return reinterpret_cast<const void*>(&ManyBagsKernel<__half>);
}

}  // namespace dpiframe::cuda
