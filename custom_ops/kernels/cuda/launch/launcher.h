// The one way in which kernels are launched.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace dpiframe::cuda {

class GraphBranch;

struct LaunchShape {
  dim3 blocks;
  dim3 threads;
  size_t shared_bytes = 0;
  int cluster = 1;       // blocks along z that share a cluster
  bool overlap = false;  // it may start while earlier kernels still run: it waits for them itself
};

// Where kernels are launched: on a stream, or into a CUDA graph under construction.
class Launcher {
 public:
  // Implicit, so that a stream can stand for the launches on it.
  Launcher(cudaStream_t stream) : stream_(stream) {}
  explicit Launcher(GraphBranch* branch) : branch_(branch) {}

  // kernel: a kernel's address or a cudaKernel_t. What the parameters point to is copied.
  cudaError_t Launch(const void* kernel, const LaunchShape& shape, void** parameters) const;

 private:
  cudaStream_t stream_ = nullptr;
  GraphBranch* branch_ = nullptr;
};

}  // namespace dpiframe::cuda
