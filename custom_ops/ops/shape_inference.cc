#include "shape_inference.h"

#include <atomic>
#include <memory>

namespace dpiframe {

void SymbolicSizes::Append(const std::vector<int64_t>& sizes) {
  values.insert(values.end(), sizes.begin(), sizes.end());
  names.resize(values.size());
}

void SymbolicSizes::NameUnknown() {
  static std::atomic<uint64_t> unnamed{0};
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 && names[i].empty()) names[i] = "dpiframe_rows_" + std::to_string(unnamed.fetch_add(1));
  }
}

InferredInput ReadInferredInput(const OrtApi& api, const OrtShapeInferContext* context, size_t input) {
  OrtTensorTypeAndShapeInfo* info = nullptr;
  Check(api, api.ShapeInferContext_GetInputTypeShape(context, input, &info));  // stays the context's
  InferredInput result{};
  size_t rank = 0;
  Check(api, api.GetTensorElementType(info, &result.type));
  Check(api, api.GetDimensionsCount(info, &rank));
  result.sizes = SymbolicSizes(rank);
  std::vector<const char*> names(rank);
  Check(api, api.GetDimensions(info, result.sizes.values.data(), rank));
  Check(api, api.GetSymbolicDimensions(info, names.data(), rank));
  result.sizes.names.assign(names.begin(), names.end());
  return result;
}

void SetInferredOutput(const OrtApi& api, OrtShapeInferContext* context, size_t output, ONNXTensorElementDataType type,
                       const SymbolicSizes& sizes) {
  // One description an output: ONNX Runtime keeps a longer shape's names when a description is used again.
  OrtTensorTypeAndShapeInfo* info = nullptr;
  Check(api, api.CreateTensorTypeAndShapeInfo(&info));
  const std::unique_ptr<OrtTensorTypeAndShapeInfo, decltype(api.ReleaseTensorTypeAndShapeInfo)> owner(
      info, api.ReleaseTensorTypeAndShapeInfo);
  Check(api, api.SetTensorElementType(info, type));
  std::vector<const char*> names;
  for (const std::string& name : sizes.names) names.push_back(name.c_str());
  Check(api, api.SetDimensions(info, sizes.values.data(), sizes.values.size()));
  Check(api, api.SetSymbolicDimensions(info, names.data(), names.size()));
  Check(api, api.ShapeInferContext_SetOutputTypeShape(context, output, info));
}

}  // namespace dpiframe
