// The memory of one call of a region on CUDA.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "call_array.h"
#include "kernels/region/memory.h"
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

// Values and the nodes' own work in one block of scratch memory if its size is known, else in blocks as they are
// needed.
class CudaRegionValues final : public RegionValues {
 public:
  CudaRegionValues(const Region& region, const RegionPlan& plan, NodeCall* call)
      : RegionValues(region.program(), call),
        memory_(plan, static_cast<size_t>(region.program().values), [this](size_t bytes) { return NewBlock(bytes); }) {}

  void PutInto(const RegionBuffers& buffers) {
    const RegionLayout& layout = buffers.layout();
    for (size_t i = 0; i < layout.outputs.size(); ++i) {
      if (buffers.output(i) != nullptr) SetOutput(i, buffers.output(i), layout.outputs[i]);
    }
    room_ = buffers.block();
    left_ = layout.scratch_bytes;
  }

  // then: called after ONNX Runtime has given more memory than there was at the beginning.
  void AtGrowth(std::function<void()> then) { at_growth_ = std::move(then); }

  // To be called when a step is launched.
  void EndStep() { memory_.EndStep(); }

  size_t used() const { return memory_.used(); }
  bool has_grown() const { return has_grown_; }  // beyond what was there at the beginning

  void* Scratch(size_t bytes) override { return memory_.ForStep(bytes); }

 protected:
  void* Allocate(int value, size_t bytes) override { return memory_.ForValue(value, bytes); }

 private:
  char* NewBlock(size_t bytes) {
    if (bytes > left_) {
      has_grown_ = true;
      char* const block = static_cast<char*>(call()->Scratch(bytes));
      if (at_growth_) at_growth_();
      return block;
    }
    char* const block = room_;
    room_ += bytes;
    left_ -= bytes;
    return block;
  }

  RegionMemory memory_;
  std::function<void()> at_growth_;
  char* room_ = nullptr;
  size_t left_ = 0;
  bool has_grown_ = false;
};

}  // namespace dpiframe
