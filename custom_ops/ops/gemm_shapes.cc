// Shape inference of FusedGemm.
#include "gemm_node.h"

namespace dpiframe {

void InferGemmShapes(NodeShapes* shapes) {
  const GemmProgram program = ParseGemmProgram(shapes->program());
  SymbolicSizes sizes = shapes->Input(0).sizes;
  if (sizes.values.empty()) return;  // nothing is known of it
  sizes.values.pop_back();
  sizes.names.pop_back();
  sizes.NameUnknown();
  sizes.Append({program.n});
  shapes->SetOutput(0, {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, sizes});
}

}  // namespace dpiframe
