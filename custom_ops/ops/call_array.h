#pragma once

#include <cstddef>
#include <vector>

namespace dpiframe {

// An array that lies on the stack unless it is unusually long.
template <typename T>
class CallArray {
 public:
  explicit CallArray(size_t size) {
    if (size > kInline) heap_.resize(size);
  }
  T* data() { return heap_.empty() ? inline_ : heap_.data(); }
  const T* data() const { return heap_.empty() ? inline_ : heap_.data(); }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }

 private:
  static constexpr size_t kInline = 128;
  T inline_[kInline];
  std::vector<T> heap_;
};

}  // namespace dpiframe
