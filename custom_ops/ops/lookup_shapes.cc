// Shape inference of FusedMultiGather.
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "lookup_node.h"

namespace dpiframe {
namespace {

// Sizes of a shape: a number, or the name of an unknown one.
struct Sizes {
  std::vector<int64_t> values;
  std::vector<std::string> names;
};

Sizes ReadSizes(const OrtApi& api, const OrtTensorTypeAndShapeInfo* info) {
  Sizes sizes;
  size_t rank = 0;
  Check(api, api.GetDimensionsCount(info, &rank));
  std::vector<const char*> names(rank);
  sizes.values.resize(rank);
  Check(api, api.GetDimensions(info, sizes.values.data(), rank));
  Check(api, api.GetSymbolicDimensions(info, names.data(), rank));
  sizes.names.assign(names.begin(), names.end());
  return sizes;
}

// The row axes as the first source's shape gives them. What it leaves open gets a name that nothing else has: a size
// that is neither a number nor a name can't be told to ONNX Runtime, and a wrong one would let it share buffers.
Sizes RowAxes(const OrtApi& api, const OrtShapeInferContext* context, const LookupProgram& program) {
  OrtTensorTypeAndShapeInfo* info = nullptr;
  Check(api, api.ShapeInferContext_GetInputTypeShape(context, 0, &info));  // stays the context's
  const Sizes source = ReadSizes(api, info);
  const size_t axes = static_cast<size_t>(program.row_axes);
  Sizes rows{std::vector<int64_t>(axes, -1), std::vector<std::string>(axes)};
  const bool known = source.values.size() >= axes;
  const size_t first = program.sources[0].column_layout && known ? source.values.size() - 1 : 0;
  for (size_t i = 0; i < axes; ++i) {
    if (known) {
      rows.values[i] = source.values[first + i];
      rows.names[i] = source.names[first + i];
    }
    if (rows.values[i] < 0 && rows.names[i].empty()) {
      static std::atomic<uint64_t> unnamed{0};
      rows.names[i] = "dpiframe_rows_" + std::to_string(unnamed.fetch_add(1));
    }
  }
  return rows;
}

ONNXTensorElementDataType TableType(const OrtApi& api, const OrtShapeInferContext* context,
                                    const LookupProgram& program) {
  if (program.tables.empty()) return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  OrtTensorTypeAndShapeInfo* info = nullptr;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  Check(api, api.ShapeInferContext_GetInputTypeShape(context, program.sources.size(), &info));
  Check(api, api.GetTensorElementType(info, &type));
  return type;
}

}  // namespace

void InferLookupShapes(const OrtApi& api, OrtShapeInferContext* context) {
  const LookupProgram program = ParseLookupProgram(StringAttribute(api, context, "program"));
  size_t inputs = 0;
  Check(api, api.ShapeInferContext_GetInputCount(context, &inputs));
  if (inputs != program.sources.size() + program.tables.size()) return;  // the kernel will say so
  const ONNXTensorElementDataType type = TableType(api, context, program);
  const Sizes rows = RowAxes(api, context, program);
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    // One description an output: ONNX Runtime keeps a longer shape's names when a description is used again.
    OrtTensorTypeAndShapeInfo* info = nullptr;
    Check(api, api.CreateTensorTypeAndShapeInfo(&info));
    const std::unique_ptr<OrtTensorTypeAndShapeInfo, decltype(api.ReleaseTensorTypeAndShapeInfo)> owner(
        info, api.ReleaseTensorTypeAndShapeInfo);
    Check(api, api.SetTensorElementType(info, type));
    const std::vector<int64_t>& trailing = program.outputs[i].trailing_shape;
    std::vector<int64_t> values = rows.values;
    values.insert(values.end(), trailing.begin(), trailing.end());
    std::vector<const char*> names(values.size(), "");
    for (size_t axis = 0; axis < rows.names.size(); ++axis) names[axis] = rows.names[axis].c_str();
    Check(api, api.SetDimensions(info, values.data(), values.size()));
    Check(api, api.SetSymbolicDimensions(info, names.data(), names.size()));
    Check(api, api.ShapeInferContext_SetOutputTypeShape(context, i, info));
  }
}

}  // namespace dpiframe
