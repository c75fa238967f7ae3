// The memory of one call of a region on CUDA.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "kernels/region/memory.h"
#include "kernels/region/plan.h"
#include "ops/call_array.h"
#include "region_layouts.h"
#include "region_node.h"

namespace dpiframe {

// All the memory of a call whose layout is known, taken at once.
class RegionBuffers {
 public:
  RegionBuffers(const Region& region, const RegionLayout& layout, NodeCall* call)
      : layout_(layout), outputs_(layout.outputs.size()), large_(layout.blocks.large.size()) {
    for (size_t i = 0; i < layout.outputs.size(); ++i) {
      const TensorShape& shape = layout.outputs[i];
      if (!call->Output(i, region.output_type(i), shape.sizes, shape.rank, &outputs_[i])) outputs_[i] = nullptr;
    }
    for (size_t i = 0; i < layout.blocks.large.size(); ++i) {
      large_[i] = static_cast<char*>(call->Scratch(layout.blocks.large[i]));
    }
    small_ = static_cast<char*>(call->Scratch(layout.blocks.small));
  }

  const RegionLayout& layout() const { return layout_; }
  void* output(size_t output) const { return outputs_[output]; }  // null also for one that isn't wanted
  char* large(size_t block) const { return large_[block]; }
  char* small() const { return small_; }

 private:
  const RegionLayout& layout_;
  CallArray<void*> outputs_;
  CallArray<char*> large_;
  char* small_;
};

// Values and the nodes' own work in one block of scratch memory if its size is known, else in blocks as they are
// needed.
class CudaRegionValues final : public RegionValues {
 public:
  CudaRegionValues(const Region& region, const RegionPlan& plan, NodeCall* call)
      : RegionValues(region.program(), call),
        memory_(plan, static_cast<size_t>(region.program().values), [this](size_t bytes) { return NewBlock(bytes); }) {}

  // The buffers must outlive this object.
  void PutInto(const RegionBuffers& buffers) {
    const RegionLayout& layout = buffers.layout();
    for (size_t i = 0; i < layout.outputs.size(); ++i) {
      if (buffers.output(i) != nullptr) SetOutput(i, buffers.output(i), layout.outputs[i]);
    }
    buffers_ = &buffers;
  }

  // then: called after ONNX Runtime has given more memory than there was at the beginning.
  void AtGrowth(std::function<void()> then) { at_growth_ = std::move(then); }

  // To be called when a step is launched.
  void EndStep() { memory_.EndStep(); }

  const RegionBlocks& taken() const { return taken_; }
  bool has_grown() const { return has_grown_; }  // beyond what was there at the beginning

  void* Scratch(size_t bytes) override { return memory_.ForStep(bytes); }

 protected:
  void* Allocate(int value, size_t bytes) override { return memory_.ForValue(value, bytes); }

 private:
  char* NewBlock(size_t bytes) {
    const size_t large = taken_.large.size(), small = taken_.small;
    taken_.Add(bytes);
    if (buffers_ != nullptr) {
      const RegionBlocks& there = buffers_->layout().blocks;
      if (bytes < RegionBlocks::kLarge) {
        if (small + bytes <= there.small) return buffers_->small() + small;
      } else if (large < there.large.size() && bytes <= there.large[large]) {
        return buffers_->large(large);
      }
    }
    has_grown_ = true;
    char* const block = static_cast<char*>(call()->Scratch(bytes));
    if (at_growth_) at_growth_();
    return block;
  }

  RegionMemory memory_;
  std::function<void()> at_growth_;
  const RegionBuffers* buffers_ = nullptr;
  RegionBlocks taken_;
  bool has_grown_ = false;
};

}  // namespace dpiframe
