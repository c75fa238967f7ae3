// Shape inference of FusedElementwise.
#include "elementwise_node.h"

namespace dpiframe {
namespace {

// A row axis is as large as the inputs that have it say; a number says more than a name.
SymbolicSizes RowAxes(const NodeShapes& shapes, const ElementwiseProgram& program) {
  const size_t axes = static_cast<size_t>(program.row_axes);
  SymbolicSizes rows(axes);
  for (size_t input = 0; input < static_cast<size_t>(program.inputs); ++input) {
    const ElementwiseValue& value = program.values[input];
    if (value.row_axes == 0) continue;
    const SymbolicSizes shape = shapes.Input(input).sizes;
    for (size_t axis = 0; axis < axes; ++axis) {
      const size_t from_end = axes - axis + value.sizes.size();
      if ((value.row_axes >> axis & 1) == 0 || shape.values.size() < from_end || rows.values[axis] >= 0) continue;
      const size_t i = shape.values.size() - from_end;
      if (shape.values[i] < 0 && !rows.names[axis].empty()) continue;
      rows.values[axis] = shape.values[i];
      rows.names[axis] = shape.names[i];
    }
  }
  rows.NameUnknown();
  return rows;
}

}  // namespace

void InferElementwiseShapes(NodeShapes* shapes) {
  const ElementwiseProgram program = ParseElementwiseProgram(shapes->program());
  if (shapes->input_count() != static_cast<size_t>(program.inputs)) return;  // the kernel will say so
  const SymbolicSizes rows = RowAxes(*shapes, program);
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const ElementwiseValue& value = program.values[static_cast<size_t>(program.outputs[i])];
    SymbolicSizes sizes = rows;
    sizes.Append(value.sizes);
    shapes->SetOutput(i, {OnnxType(value.type), sizes});
  }
}

}  // namespace dpiframe
