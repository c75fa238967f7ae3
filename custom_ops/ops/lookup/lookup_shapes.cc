// Shape inference of FusedMultiGather.
#include "lookup_node.h"

namespace dpiframe {
namespace {

// The row axes as the first source's shape gives them.
SymbolicSizes RowAxes(const NodeShapes& shapes, const LookupProgram& program) {
  const SymbolicSizes source = shapes.Input(0).sizes;
  const size_t axes = static_cast<size_t>(program.row_axes);
  SymbolicSizes rows(axes);
  if (source.values.size() >= axes) {
    const Layout layout = program.sources[0].layout;
    const size_t first = layout == Layout::kRow ? 0 : source.values.size() - 1;
    for (size_t i = 0; i < axes; ++i) {
      rows.values[i] = source.values[first + i];
      rows.names[i] = source.names[first + i];
    }
    if (layout == Layout::kBounds) {
      rows.values[0] -= rows.values[0] > 0 ? 1 : 0;
      rows.names[0].clear();
    }
  }
  rows.NameUnknown();
  return rows;
}

}  // namespace

void InferLookupShapes(NodeShapes* shapes) {
  const LookupProgram program = ParseLookupProgram(shapes->program());
  if (shapes->input_count() != program.sources.size() + program.tables.size()) return;  // the kernel will say so
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  if (!program.tables.empty()) type = shapes->Input(program.sources.size()).type;
  const SymbolicSizes rows = RowAxes(*shapes, program);
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    SymbolicSizes sizes = rows;
    sizes.Append(program.outputs[i].trailing_shape);
    shapes->SetOutput(i, {type, sizes});
  }
}

}  // namespace dpiframe
