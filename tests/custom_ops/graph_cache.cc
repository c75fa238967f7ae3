// GraphCache for Python: results are a bool, or the negative code of an error.
#include "kernels/cuda/launch/graph_cache.h"

#include "kernels/cuda/device/cuda_error.h"

using namespace dpiframe::cuda;

namespace {

GraphCache* cache = nullptr;

GraphCache::Key KeyOf(int number) { return {static_cast<uintptr_t>(number)}; }

template <typename Work>
int ResultOf(Work&& work) {
  try {
    return work();
  } catch (const CudaError& error) {
    return -static_cast<int>(error.code);
  }
}

}  // namespace

extern "C" {
void make_cache() {
  delete cache;
  cache = new GraphCache();
}
int launch(int key) {
  return ResultOf([&] { return cache->Launch(KeyOf(key), nullptr); });
}
int wants(int key) { return cache->Wants(KeyOf(key)); }
int add(int key) {
  return ResultOf([&] {
    cache->Add(KeyOf(key), nullptr);
    return true;
  });
}
void put_off() { cache->PutOff(); }
void order_failures(int at_instantiation, int at_launch) {
  fake_cuda::at_instantiation = static_cast<cudaError_t>(at_instantiation);
  fake_cuda::at_launch = static_cast<cudaError_t>(at_launch);
}
int alive() { return fake_cuda::alive; }
int launches() { return fake_cuda::launches; }
int last_error() { return cudaGetLastError(); }
}
