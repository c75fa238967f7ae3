// Sources to kernels: compiled by NVRTC or found in the cache, and loaded, on the compile queue. Equal sources share a
// kernel, which stays loaded until the process ends, as a linked one does.
#pragma once

#include <cuda_runtime_api.h>

#include <future>
#include <string>

namespace dpiframe::cuda {

struct LoadedKernel {
  cudaKernel_t kernel = nullptr;  // null where the source could not be compiled or loaded, which is said once on stderr
  bool waits = false;             // for earlier kernels, if its source says so: code for older GPUs can't
  int registers = 0;              // of a thread
};
using KernelFuture = std::shared_future<LoadedKernel>;

// `name`: of the source's one kernel, which is extern "C". There must be an NVRTC.
KernelFuture LoadKernel(const std::string& source, const char* name, int device);

// Compiles anew, without any cache. Throws CompileError. For tests.
std::string CompileSource(const std::string& source, int capability);

}  // namespace dpiframe::cuda
