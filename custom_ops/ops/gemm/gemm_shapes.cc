// Shape inference of FusedGemm.
#include "gemm_node.h"

namespace dpiframe {

void InferGemmShapes(NodeShapes* shapes) {
  const GemmProgram program = ParseGemmProgram(shapes->program());
  SymbolicSizes sizes = shapes->Input(0).sizes;
  const size_t left_axes = static_cast<size_t>(program.left_axes);
  if (sizes.values.size() < left_axes) return;  // nothing is known of it
  sizes.values.resize(sizes.values.size() - left_axes);
  sizes.names.resize(sizes.values.size());
  sizes.NameUnknown();
  sizes.Append({program.n});
  shapes->SetOutput(0, {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, sizes});
}

}  // namespace dpiframe
