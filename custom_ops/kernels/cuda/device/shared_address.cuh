// What instructions of their own take for the address of something in shared memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace dpiframe::cuda {

__device__ __forceinline__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

}  // namespace dpiframe::cuda
