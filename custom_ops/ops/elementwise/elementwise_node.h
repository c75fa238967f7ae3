// A FusedElementwise node, whichever provider runs it: what it says, and what a call brings.
#pragma once

#include <string>
#include <vector>

#include "kernels/elementwise/program.h"
#include "ops/call_array.h"
#include "ops/op.h"
#include "ops/tensor_shape.h"

namespace dpiframe {

class ElementwiseNode {
 public:
  // What one call brings, in the provider's memory.
  struct Call {
    explicit Call(const ElementwiseNode& node);
    int64_t row_axes[2] = {1, 1};  // sizes of the row axes; the second is 1 where there is one
    CallArray<const void*> inputs;
    CallArray<void*> outputs;
    int64_t rows() const { return row_axes[0] * row_axes[1]; }
  };

  // Reads and checks a node. Throws OrtError with a message that names the node and the input.
  explicit ElementwiseNode(const NodeInfo& info);

  const std::string& name() const { return name_; }
  const ElementwiseProgram& program() const { return program_; }

  // Addresses of the inputs that no call may change, null for the others.
  const std::vector<const void*>& constant_inputs() const { return constant_inputs_; }

  // Reads the inputs and makes the outputs. Throws OrtError.
  void Read(NodeCall* from, Call* call) const;

  // Fails with "<op> node '<name>': <problem>", or "...: input '<input name>' <problem>".
  [[noreturn]] void Fail(const std::string& problem) const;
  [[noreturn]] void FailAtInput(size_t input, const std::string& problem) const;

 private:
  void CheckType(size_t input, ONNXTensorElementDataType type) const;
  const void* ConstantInput(const NodeInfo& info, size_t input) const;
  void ReadShape(size_t input, const int64_t* sizes, size_t rank, int* row_axis_inputs, int64_t* row_axes) const;
  [[noreturn]] void FailAtShape(size_t input, const int64_t* sizes, size_t rank) const;
  void MakeOutputs(NodeCall* to, Call* call) const;

  std::string op_;
  std::string name_;
  std::vector<std::string> input_names_;
  ElementwiseProgram program_;
  std::vector<const void*> constant_inputs_;
};

ONNXTensorElementDataType OnnxType(ScalarType type);

// Type and shape of every output, from the program and the inputs that have the row axes.
void InferElementwiseShapes(NodeShapes* shapes);

}  // namespace dpiframe
