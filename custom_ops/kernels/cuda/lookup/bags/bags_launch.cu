#include "bags.cuh"
#include "kernels/cuda/lookup/launch.h"
#include "plain_bags.cuh"

namespace dpiframe::cuda {
namespace {

template <int kBatch>
const void* PlainBagKernelOf(uint32_t element_bytes) {
  if (element_bytes == 4) return reinterpret_cast<const void*>(&PlainBagKernel<float, kBatch>);
  return reinterpret_cast<const void*>(&PlainBagKernel<__half, kBatch>);
}

}  // namespace

const void* BagKernelFor(uint32_t element_bytes) {
  if (element_bytes == 4) return reinterpret_cast<const void*>(&BagKernel<float>);
  return reinterpret_cast<const void*>(&BagKernel<__half>);
}

const void* PlainBagKernelFor(uint32_t element_bytes, bool short_bags) {
  return short_bags ? PlainBagKernelOf<kShortBagBatch>(element_bytes) : PlainBagKernelOf<kPlainBagBatch>(element_bytes);
}

}  // namespace dpiframe::cuda
