// The memory of one call of a region on CUDA.
#pragma once

#include <cstddef>
#include <vector>

#include "call_array.h"
#include "kernels/region/plan.h"
#include "region_layouts.h"
#include "region_node.h"

namespace dpiframe {

// All the memory of a call whose layout is known, taken at once.
class RegionBuffers {
 public:
  RegionBuffers(const Region& region, const RegionLayout& layout, NodeCall* call)
      : layout_(layout), outputs_(layout.outputs.size()) {
    for (size_t i = 0; i < layout.outputs.size(); ++i) {
      const TensorShape& shape = layout.outputs[i];
      if (!call->Output(i, region.output_type(i), shape.sizes, shape.rank, &outputs_[i])) outputs_[i] = nullptr;
    }
    block_ = static_cast<char*>(call->Scratch(layout.scratch_bytes));
  }

  const RegionLayout& layout() const { return layout_; }
  void* output(size_t output) const { return outputs_[output]; }  // null also for one that isn't wanted
  char* block() const { return block_; }

 private:
  const RegionLayout& layout_;
  CallArray<void*> outputs_;
  char* block_;
};

// Values in one block of scratch memory if its size is known, else in blocks as they are needed.
class CudaRegionValues final : public RegionValues {
 public:
  CudaRegionValues(const Region& region, const RegionPlan& plan, NodeCall* call)
      : RegionValues(region.program(), call), plan_(plan), places_(static_cast<size_t>(region.program().values)) {}

  void PutInto(const RegionBuffers& buffers) {
    const RegionLayout& layout = buffers.layout();
    for (size_t i = 0; i < layout.outputs.size(); ++i) {
      if (buffers.output(i) != nullptr) SetOutput(i, buffers.output(i), layout.outputs[i]);
    }
    block_ = buffers.block();
    left_ = layout.scratch_bytes;
  }

  size_t used() const { return used_; }
  bool has_grown() const { return has_grown_; }  // beyond what was there at the beginning

  void* Scratch(size_t bytes) override { return Take(bytes).data; }

 protected:
  void* Allocate(int value, size_t bytes) override {
    Place& place = places_[static_cast<size_t>(value)];
    const int before = plan_.takes_over[static_cast<size_t>(value)];
    if (before >= 0 && places_[static_cast<size_t>(before)].bytes >= bytes) {
      place = places_[static_cast<size_t>(before)];
    } else {
      place = Take(bytes);
    }
    return place.data;
  }

 private:
  static constexpr size_t kAlignment = 256;

  struct Place {
    void* data = nullptr;
    size_t bytes = 0;
  };

  Place Take(size_t bytes) {
    const size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (size > left_) {
      block_ = static_cast<char*>(call()->Scratch(size));
      left_ = size;
      has_grown_ = true;
    }
    char* data = block_;
    block_ += size;
    left_ -= size;
    used_ += size;
    return {data, size};
  }

  const RegionPlan& plan_;
  std::vector<Place> places_;
  char* block_ = nullptr;
  size_t left_ = 0;
  size_t used_ = 0;
  bool has_grown_ = false;
};

}  // namespace dpiframe
