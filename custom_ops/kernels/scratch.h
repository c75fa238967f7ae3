#pragma once

#include <cstddef>
#include <new>

namespace dpiframe {

// Memory that starts on a cache line, grows, and is kept.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { ::operator delete(data_, kAlignment); }

  void* Get(size_t bytes) {
    if (bytes > bytes_) {
      ::operator delete(data_, kAlignment);
      data_ = nullptr;
      bytes_ = 0;
      data_ = ::operator new(bytes, kAlignment);
      bytes_ = bytes;
    }
    return data_;
  }

  void* data() const { return data_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace dpiframe
