// A node as its kernel sees it: at its creation, in a call, and when shapes are inferred. ONNX Runtime is behind it
// (ort_node.h), or the region that the node is part of (region/region_node.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ort.h"
#include "tensor_shape.h"

namespace dpiframe {

class BadIdRegistry;
namespace cuda {
class GraphBranch;
}

struct NodeTensor {
  const void* data = nullptr;  // in the provider's memory
  TensorShape shape;
};

// A kernel may keep it only while it is created.
class NodeInfo {
 public:
  virtual ~NodeInfo() = default;

  virtual const OrtApi& api() const = 0;
  virtual const OrtKernelInfo* kernel_info() const = 0;  // of the node that ONNX Runtime knows
  virtual BadIdRegistry* bad_ids() const = 0;

  virtual std::string op() const = 0;
  virtual std::string name() const = 0;
  virtual std::string program() const = 0;
  virtual size_t input_count() const = 0;
  virtual size_t output_count() const = 0;
  virtual std::string input_name(size_t input) const = 0;
  virtual ONNXTensorElementDataType input_type(size_t input) const = 0;

  // Whether no call may change an input; then what it is.
  virtual bool Constant(size_t input, NodeTensor* tensor) const = 0;
};

class NodeCall {
 public:
  virtual ~NodeCall() = default;

  // False for an input that is missing.
  virtual bool Input(size_t input, NodeTensor* tensor) = 0;

  // Makes an output of this type and shape, in the provider's memory; false where the output isn't wanted.
  virtual bool Output(size_t output, ONNXTensorElementDataType type, const int64_t* sizes, size_t rank,
                      void** data) = 0;

  // Memory of the provider for the work that this call puts on its stream; null for 0 bytes.
  virtual void* Scratch(size_t bytes) = 0;

  virtual void* stream() = 0;

  // What takes the call's kernels instead of the stream; null where there is none.
  virtual cuda::GraphBranch* graph_branch() { return nullptr; }

  // Runs task(data, 0 ... count - 1) on ONNX Runtime's threads.
  virtual void ParallelFor(void (*task)(void*, size_t), size_t count, void* data) = 0;
};

// Sizes of a shape: a number, or -1 and the name of an unknown one ("" where it has none).
struct SymbolicSizes {
  std::vector<int64_t> values;
  std::vector<std::string> names;

  SymbolicSizes() = default;
  explicit SymbolicSizes(size_t rank) : values(rank, -1), names(rank) {}
  void Append(const std::vector<int64_t>& sizes);

  // Gives what is neither a number nor named a name that nothing else has: such a size can't be told to ONNX Runtime,
  // and a wrong one would let it share buffers.
  void NameUnknown();
};

struct InferredTensor {
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  SymbolicSizes sizes;
};

class NodeShapes {
 public:
  virtual ~NodeShapes() = default;
  virtual std::string program() const = 0;
  virtual size_t input_count() const = 0;
  virtual InferredTensor Input(size_t input) const = 0;
  virtual void SetOutput(size_t output, const InferredTensor& tensor) = 0;
};

}  // namespace dpiframe
