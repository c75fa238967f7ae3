#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/cuda/device/cuda_error.h"

namespace dpiframe::cuda {

// Memory of the current GPU.
class DeviceBytes {
 public:
  explicit DeviceBytes(size_t bytes) {
    if (bytes > 0) CheckCuda(cudaMalloc(&data_, bytes), "memory can't be had");
  }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

}  // namespace dpiframe::cuda
