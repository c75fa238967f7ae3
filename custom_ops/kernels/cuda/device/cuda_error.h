// Failures of CUDA as exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace dpiframe::cuda {

struct CudaError : std::runtime_error {
  CudaError(const std::string& what, cudaError_t code)
      : std::runtime_error(what + ": " + cudaGetErrorString(code)), code(code) {}
  cudaError_t code;
};

inline void CheckCuda(cudaError_t code, const char* what) {
  if (code != cudaSuccess) throw CudaError(what, code);
}

}  // namespace dpiframe::cuda
