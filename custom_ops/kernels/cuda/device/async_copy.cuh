// Copies of a few bytes into shared memory that run beside the threads (compute capability 8.0). `bytes`: those that
// are read, all or 0; the others become zeros.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace dpiframe::cuda {

__device__ __forceinline__ void CopyAsync16(uint32_t to, const void* from, uint32_t bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void CopyAsync4(uint32_t to, const void* from, uint32_t bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace dpiframe::cuda
