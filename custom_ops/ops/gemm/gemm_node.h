// A FusedGemm node: what it says, checked once at its kernel's creation, and its inputs and output, checked at each
// call as far as that may change them. The same on every provider.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/gemm/program.h"
#include "ops/op.h"
#include "ops/tensor_shape.h"

namespace dpiframe {

class GemmNode {
 public:
  static constexpr size_t kMaxOperands = 16;

  // What one call brings, in the provider's memory.
  struct Call {
    int64_t m = 0;
    const float* a = nullptr;
    const float* weight = nullptr;
    const float* operands[kMaxOperands] = {};
    float* y = nullptr;
  };

  // Throws OrtError with a message that names the node and the input.
  explicit GemmNode(const NodeInfo& info);

  const GemmProgram& program() const { return program_; }

  // The weight, where no call can change it, else null.
  const float* constant_weight() const { return constant_weight_; }

  // Reads the inputs and makes the output. Throws OrtError.
  Call Read(NodeCall* from) const;

  // Fails with "<op> node '<name>': <problem>", or "...: input '<input name>' <problem>".
  [[noreturn]] void Fail(const std::string& problem) const;
  [[noreturn]] void FailAtInput(size_t input, const std::string& problem) const;

 private:
  NodeTensor Input(NodeCall* from, size_t index) const;
  void CheckWeight(const TensorShape& shape) const;

  std::string op_;
  std::string name_;
  std::vector<std::string> input_names_;
  GemmProgram program_;
  const float* constant_weight_ = nullptr;
};

// Type and shape of the output, from the program and A's shape.
void InferGemmShapes(NodeShapes* shapes);

}  // namespace dpiframe
