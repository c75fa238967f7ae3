// Work on a device outside of a run: at a kernel's creation, and for reading its counters.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace dpiframe::cuda {

// Makes a device this thread's current one and gives a stream on it. What happens here neither waits for nor disturbs
// other threads, one of which may be capturing a CUDA graph. Throws CudaError.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  // Waits for what the default stream has still to do: a copy from ordinary memory to the GPU returns before its last
  // bytes are there, and this scope's stream waits for none. To be called before anything else reads what others wrote.
  void WaitForUploads() const;

  // Each returns when it is done.
  void CopyToDevice(void* to, const void* from, size_t bytes) const;
  void CopyFromDevice(void* to, const void* from, size_t bytes) const;
  void SetZero(void* to, size_t bytes) const;

  // For work of other kinds; Wait returns when it is done.
  cudaStream_t stream() const { return stream_; }
  void Wait() const;

 private:
  void Restore() const;
  void Finish(cudaError_t code, const char* what) const;

  cudaStreamCaptureMode capture_mode_ = cudaStreamCaptureModeRelaxed;
  int previous_device_ = 0;
  cudaStream_t stream_ = nullptr;
};

// The device that holds an address.
int DeviceOf(const void* address);

}  // namespace dpiframe::cuda
