// What a GPU has.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda_error.h"

namespace dpiframe::cuda {

// Throws CudaError.
inline int DeviceAttribute(cudaDeviceAttr attribute, int device) {
  int value = 0;
  CheckCuda(cudaDeviceGetAttribute(&value, attribute, device), "the GPU's properties can't be read");
  return value;
}

}  // namespace dpiframe::cuda
