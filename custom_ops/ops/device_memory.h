// Memory of a kernel's provider, from ONNX Runtime's own allocator, so that a session's limits hold for it too.
#pragma once

#include <cstddef>

#include "ort.h"

namespace dpiframe {

// The allocator of the provider's default memory; it lives as long as this object.
class DeviceAllocator {
 public:
  DeviceAllocator(const OrtApi& api, const OrtKernelInfo* info) : api_(api) {
    Check(api_, api_.KernelInfoGetAllocator(info, OrtMemTypeDefault, &allocator_));
  }
  ~DeviceAllocator() { api_.ReleaseAllocator(allocator_); }
  DeviceAllocator(const DeviceAllocator&) = delete;
  DeviceAllocator& operator=(const DeviceAllocator&) = delete;

  OrtAllocator* get() const { return allocator_; }

  const OrtMemoryInfo* memory_info() const {
    const OrtMemoryInfo* info = nullptr;
    Check(api_, api_.AllocatorGetInfo(allocator_, &info));
    return info;
  }

 private:
  const OrtApi& api_;
  OrtAllocator* allocator_ = nullptr;
};

// Bytes from an allocator, given back at the end of its life.
class DeviceMemory {
 public:
  // For the life of a kernel.
  static DeviceMemory Lasting(const OrtApi& api, const DeviceAllocator& allocator, size_t bytes) {
    DeviceMemory memory(api, allocator);
    Check(api, api.AllocatorAlloc(allocator.get(), bytes, &memory.data_));
    if (memory.data_ == nullptr) throw OrtError("there is no memory left on the device", ORT_FAIL);
    return memory;
  }

  // For a call's work on its stream: ONNX Runtime gives the memory to others only behind that work. None for 0 bytes.
  static DeviceMemory Scratch(const OrtApi& api, const DeviceAllocator& allocator, const OrtKernelContext* context,
                              size_t bytes) {
    DeviceMemory memory(api, allocator);
    if (bytes > 0) {
      Check(api, api.KernelContext_GetScratchBuffer(context, allocator.memory_info(), bytes, &memory.data_));
    }
    return memory;
  }

  DeviceMemory(DeviceMemory&& other) noexcept : api_(other.api_), allocator_(other.allocator_), data_(other.data_) {
    other.data_ = nullptr;
  }
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory() {
    if (data_ == nullptr) return;
    if (OrtStatus* status = api_.AllocatorFree(allocator_, data_)) api_.ReleaseStatus(status);
  }

  void* data() const { return data_; }

 private:
  DeviceMemory(const OrtApi& api, const DeviceAllocator& allocator) : api_(api), allocator_(allocator.get()) {}

  const OrtApi& api_;
  OrtAllocator* allocator_;
  void* data_ = nullptr;
};

}  // namespace dpiframe
