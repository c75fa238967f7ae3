// Sources to kernels: compiled by NVRTC or found in the cache, and loaded, on the compile queue. Equal sources share a
// kernel, which stays loaded until the process ends, as a linked one does.
#pragma once

#include <cuda_runtime_api.h>

#include <future>
#include <string>

namespace dpiframe::cuda {

// What a source became; null where it could not be compiled or loaded, which is said once on stderr.
using KernelFuture = std::shared_future<cudaKernel_t>;

// `name`: of the source's one kernel, which is extern "C". There must be an NVRTC.
KernelFuture LoadKernel(const std::string& source, const char* name, int device);

// Compiles anew, without any cache. Throws CompileError. For tests.
std::string CompileSource(const std::string& source, int capability);

}  // namespace dpiframe::cuda
