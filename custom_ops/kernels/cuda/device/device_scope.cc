#include "device_scope.h"

#include "cuda_error.h"

namespace dpiframe::cuda {

DeviceScope::DeviceScope(int device) {
  CheckCuda(cudaThreadExchangeStreamCaptureMode(&capture_mode_), "the thread's capture mode can't be set");
  CheckCuda(cudaGetDevice(&previous_device_), "the current GPU can't be read");
  cudaError_t code = cudaSetDevice(device);
  if (code == cudaSuccess) code = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
  if (code != cudaSuccess) {
    Restore();
    throw CudaError("a stream can't be made", code);
  }
}

DeviceScope::~DeviceScope() {
  cudaStreamDestroy(stream_);
  Restore();
}

void DeviceScope::Restore() const {
  cudaSetDevice(previous_device_);
  cudaStreamCaptureMode mode = capture_mode_;
  cudaThreadExchangeStreamCaptureMode(&mode);
}

void DeviceScope::WaitForUploads() const {
  CheckCuda(cudaStreamSynchronize(cudaStreamLegacy), "earlier work on the GPU failed");
}

void DeviceScope::CopyToDevice(void* to, const void* from, size_t bytes) const {
  Finish(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "a copy to the GPU failed");
}

void DeviceScope::CopyFromDevice(void* to, const void* from, size_t bytes) const {
  Finish(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "a copy from the GPU failed");
}

void DeviceScope::SetZero(void* to, size_t bytes) const {
  Finish(cudaMemsetAsync(to, 0, bytes, stream_), "memory of the GPU can't be set");
}

void DeviceScope::Wait() const { Finish(cudaSuccess, "work on the GPU failed"); }

void DeviceScope::Finish(cudaError_t code, const char* what) const {
  CheckCuda(code, what);
  CheckCuda(cudaStreamSynchronize(stream_), what);
}

int DeviceOf(const void* address) {
  cudaPointerAttributes attributes{};
  CheckCuda(cudaPointerGetAttributes(&attributes, address), "an address can't be looked up");
  return attributes.device;
}

}  // namespace dpiframe::cuda
