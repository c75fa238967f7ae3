// What calls of a region with inputs of the same shapes have in common.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ops/tensor_shape.h"

namespace dpiframe {

// Scratch memory of a call. Large blocks are taken one by one, as a first call takes them: ONNX Runtime has blocks of
// these sizes then, and would keep them beside one for all. Small ones lie in one, which takes less time.
struct RegionBlocks {
  static constexpr size_t kLarge = size_t{16} << 20;

  std::vector<size_t> large;  // bytes, in the order in which they are taken
  size_t small = 0;           // of all others

  void Add(size_t bytes) {
    if (bytes >= kLarge) {
      large.push_back(bytes);
    } else {
      small += bytes;
    }
  }

  // Makes them enough for others, too.
  void Cover(const RegionBlocks& others) {
    large.resize(std::max(large.size(), others.large.size()));
    for (size_t i = 0; i < others.large.size(); ++i) large[i] = std::max(large[i], others.large[i]);
    small = std::max(small, others.small);
  }
};

struct RegionLayout {
  std::vector<TensorShape> outputs;
  RegionBlocks blocks;  // for all values and the nodes' own work
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
