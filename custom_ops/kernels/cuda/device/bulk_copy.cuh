// Copies that run beside the threads, and the barriers in shared memory that tell of them (compute capability 9.0).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "shared_address.cuh"

namespace dpiframe::cuda {

__device__ __forceinline__ void InitBarrier(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialized barriers visible to copies.
__device__ __forceinline__ void FenceBarriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Arrives, and lets the barrier wait for so many bytes of copies.
__device__ __forceinline__ void ArriveExpecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void Arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Until the barrier's phase of this parity is over.
__device__ __forceinline__ void WaitFor(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\nbra again;\nover:\n}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Orders what this thread has read and written in shared memory before bulk copies to it, which take another way there
// (PTX: another proxy): before it arrives at the barrier that whoever starts them waits for.
__device__ __forceinline__ void FenceBeforeCopies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Copies to shared memory; the barrier hears of it.
__device__ __forceinline__ void CopyToShared(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

// The blocks of a cluster.
__device__ __forceinline__ uint32_t BlockInCluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void SyncCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// What another block of the cluster has at this address of its shared memory.
template <typename T>
__device__ __forceinline__ T* InBlock(T* pointer, uint32_t block) {
  uint64_t address;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(address) : "l"(pointer), "r"(block));
  return reinterpret_cast<T*>(address);
}

// A barrier of some of a block's threads.
__device__ __forceinline__ void SyncThreads(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void ArriveAtThreads(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// A kernel that was launched with programmatic stream serialization starts while earlier ones still run: it may read
// and write memory that they use only behind this.
__device__ __forceinline__ void WaitForEarlierKernels() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void LetLaterKernelsStart() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace dpiframe::cuda
