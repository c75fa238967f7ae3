// As much of CUDA's runtime as GraphCache calls, with failures to order.
#pragma once

enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorLaunchFailure = 719 };
using cudaStream_t = void*;
using cudaGraph_t = void*;
using cudaGraphExec_t = void*;

namespace fake_cuda {
inline cudaError_t at_instantiation = cudaSuccess, at_launch = cudaSuccess, last = cudaSuccess;
inline int alive = 0, launches = 0;

inline cudaError_t Noted(cudaError_t code) {
  if (code != cudaSuccess) last = code;
  return code;
}
}  // namespace fake_cuda

inline const char* cudaGetErrorString(cudaError_t) { return "an error that was ordered"; }
inline cudaError_t cudaGetLastError() {
  const cudaError_t code = fake_cuda::last;
  fake_cuda::last = cudaSuccess;
  return code;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long) {
  if (fake_cuda::at_instantiation == cudaSuccess) ++fake_cuda::alive;
  return fake_cuda::Noted(fake_cuda::at_instantiation);
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) {
  --fake_cuda::alive;
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
  if (fake_cuda::at_launch == cudaSuccess) ++fake_cuda::launches;
  return fake_cuda::Noted(fake_cuda::at_launch);
}
