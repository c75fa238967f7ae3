// What all bags have in common: where one begins in its list, how its terms are joined and what it gives in the end.
#pragma once

#include "kernels/cuda/lookup/pool_totals.cuh"
#include "kernels/cuda/lookup/records.h"

namespace dpiframe::cuda {

// As Slice takes an offset: below 0 it counts from the end, and what lies outside the list is moved to its nearest end.
__device__ __forceinline__ int64_t ToListPosition(int64_t offset, int64_t length) {
  if (offset < 0) offset += length;
  return offset < 0 ? 0 : offset > length ? length : offset;
}

// A mean is a sum that is divided in the end.
__device__ __forceinline__ Pooling BagPooling(PoolRule rule) {
  return {rule == PoolRule::kMax ? PoolRule::kMax : PoolRule::kSum, false, 0.0f};
}

// `lowest`: a bag without ids gives -inf.
template <typename Element, int kBytes>
__device__ __forceinline__ Vector<kBytes> BagResult(PoolRule rule, bool lowest, int64_t count,
                                                    Totals<Element, kBytes>* totals) {
  if (count == 0) {
    totals->Set(lowest ? -INFINITY : 0.0f);
  } else if (rule == PoolRule::kMean) {
    totals->DivideBy(static_cast<float>(count));
  }
  return totals->Result(BagPooling(rule));
}

}  // namespace dpiframe::cuda
