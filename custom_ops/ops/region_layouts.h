// What calls of a region with inputs of the same shapes have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tensor_shape.h"

namespace dpiframe {

struct RegionLayout {
  std::vector<TensorShape> outputs;
  size_t scratch_bytes = 0;  // of all values and the nodes' own work
};

// The layouts of a region by its inputs' shapes; a bounded number of them.
class RegionLayouts {
 public:
  using Shapes = std::vector<uintptr_t>;  // rank and sizes of each input that calls bring

  // Null for shapes that have not come before.
  std::shared_ptr<const RegionLayout> Find(const Shapes& shapes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = layouts_.find(shapes);
    return found == layouts_.end() ? nullptr : found->second;
  }
  void Remember(const Shapes& shapes, RegionLayout layout) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (layouts_.size() >= kMost) layouts_.clear();
    layouts_[shapes] = std::make_shared<const RegionLayout>(std::move(layout));
  }

 private:
  static constexpr size_t kMost = 4096;
  std::mutex mutex_;
  std::map<Shapes, std::shared_ptr<const RegionLayout>> layouts_;
};

}  // namespace dpiframe
