// The nodes of a region: what they see of the region around them, and the kernels that run them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/region/program.h"
#include "ops/node.h"
#include "ops/op.h"

namespace dpiframe {

// A ParallelRegion node as its program says, with a kernel for each node in it.
class Region {
 public:
  // provider: of the kernels; null for the CPU. Throws OrtError.
  Region(const NodeInfo& info, const char* provider);

  const std::string& name() const { return name_; }
  const RegionProgram& program() const { return program_; }
  const RegionNode& node(size_t index) const { return program_.nodes[index]; }
  Kernel& kernel(size_t index) const { return *kernels_[index]; }
  ONNXTensorElementDataType output_type(size_t output) const {
    return types_[static_cast<size_t>(program_.outputs[output])];
  }

 private:
  std::string name_;
  RegionProgram program_;
  std::vector<ONNXTensorElementDataType> types_;  // by value
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

// The values of one call of a region: its inputs, its outputs, and what lies between.
class RegionValues {
 public:
  RegionValues(const RegionProgram& program, NodeCall* call);
  virtual ~RegionValues() = default;

  // A value that is there.
  const NodeTensor& Get(int value);

  // Tells of an output of the region that was made before the node that computes it runs.
  void SetOutput(size_t output, void* data, const TensorShape& shape);

  // Memory for a value that a node is about to make.
  void* Make(int value, ONNXTensorElementDataType type, const int64_t* sizes, size_t rank);

  // Memory for a node's own work.
  virtual void* Scratch(size_t bytes) = 0;

  NodeCall* call() const { return call_; }
  const NodeTensor& output(size_t output) const { return tensors_[static_cast<size_t>(program_.outputs[output])]; }

 protected:
  // Memory for a value that doesn't leave the region, until the last node that reads it is done.
  virtual void* Allocate(int value, size_t bytes) = 0;

 private:
  NodeCall* call_;
  const RegionProgram& program_;
  std::vector<NodeTensor> tensors_;
  std::vector<bool> there_;
  std::vector<int> outputs_;  // by value: which of the region's outputs it is, or -1
};

// One node's part of a call of the region.
class RegionNodeCall final : public NodeCall {
 public:
  RegionNodeCall(const RegionNode& node, RegionValues* values, void* stream, cuda::GraphBranch* branch = nullptr)
      : node_(node), values_(values), stream_(stream), branch_(branch) {}

  bool Input(size_t input, NodeTensor* tensor) override {
    *tensor = values_->Get(node_.operands[input]);
    return true;
  }
  bool Output(size_t output, ONNXTensorElementDataType type, const int64_t* sizes, size_t rank, void** data) override {
    *data = values_->Make(node_.results[output], type, sizes, rank);
    return true;
  }
  void* Scratch(size_t bytes) override { return bytes == 0 ? nullptr : values_->Scratch(bytes); }
  void* stream() override { return stream_; }
  cuda::GraphBranch* graph_branch() override { return branch_; }
  void ParallelFor(void (*task)(void*, size_t), size_t count, void* data) override {
    values_->call()->ParallelFor(task, count, data);
  }

 private:
  const RegionNode& node_;
  RegionValues* values_;
  void* stream_;
  cuda::GraphBranch* branch_;
};

size_t ElementBytes(ONNXTensorElementDataType type);

void InferRegionShapes(NodeShapes* shapes);

}  // namespace dpiframe
