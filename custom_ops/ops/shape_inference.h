// What shape inference of every op needs.
#pragma once

#include <string>
#include <vector>

#include "ort.h"

namespace dpiframe {

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

struct InferredInput {
  ONNXTensorElementDataType type;
  SymbolicSizes sizes;
};

InferredInput ReadInferredInput(const OrtApi& api, const OrtShapeInferContext* context, size_t input);

void SetInferredOutput(const OrtApi& api, OrtShapeInferContext* context, size_t output, ONNXTensorElementDataType type,
                       const SymbolicSizes& sizes);

}  // namespace dpiframe
