#include "ort.h"

#include <memory>

namespace dpiframe {
namespace {

// Texts come in two calls: one for the size, its final zero included, and one for the bytes.
template <typename Read>
std::string ReadText(const OrtApi& api, Read&& read) {
  size_t size = 0;
  Check(api, read(nullptr, &size));
  std::string text(size, '\0');
  Check(api, read(text.data(), &size));
  text.resize(size > 0 ? size - 1 : 0);
  return text;
}

}  // namespace

void ThrowStatus(const OrtApi& api, OrtStatus* status) {
  const OrtError error(api.GetErrorMessage(status), api.GetErrorCode(status));
  api.ReleaseStatus(status);
  throw error;
}

ONNXTensorElementDataType InputType(const OrtApi& api, const OrtKernelInfo* info, size_t index) {
  OrtTypeInfo* type_info = nullptr;
  Check(api, api.KernelInfo_GetInputTypeInfo(info, index, &type_info));
  const std::unique_ptr<OrtTypeInfo, decltype(api.ReleaseTypeInfo)> owner(type_info, api.ReleaseTypeInfo);
  const OrtTensorTypeAndShapeInfo* tensor_info = nullptr;
  Check(api, api.CastTypeInfoToTensorInfo(type_info, &tensor_info));
  if (tensor_info == nullptr) throw OrtError("input '" + InputName(api, info, index) + "' is not a tensor");
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  Check(api, api.GetTensorElementType(tensor_info, &type));
  return type;
}

const void* TensorData(const OrtApi& api, const OrtValue* value) {
  void* data = nullptr;
  // The interface has no reading variant at version 18; nothing is written through this pointer.
  Check(api, api.GetTensorMutableData(const_cast<OrtValue*>(value), &data));
  return data;
}

std::string NodeName(const OrtApi& api, const OrtKernelInfo* info) {
  return ReadText(api, [&](char* out, size_t* size) { return api.KernelInfo_GetNodeName(info, out, size); });
}

std::string InputName(const OrtApi& api, const OrtKernelInfo* info, size_t index) {
  return ReadText(api, [&](char* out, size_t* size) { return api.KernelInfo_GetInputName(info, index, out, size); });
}

std::string StringAttribute(const OrtApi& api, const OrtKernelInfo* info, const char* name) {
  return ReadText(api,
                  [&](char* out, size_t* size) { return api.KernelInfoGetAttribute_string(info, name, out, size); });
}

std::string StringAttribute(const OrtApi& api, const OrtShapeInferContext* context, const char* name) {
  const OrtOpAttr* attribute = nullptr;
  Check(api, api.ShapeInferContext_GetAttribute(context, name, &attribute));
  size_t size = 0;
  // Asked with no room this fails, and tells the size.
  if (OrtStatus* status = api.ReadOpAttr(attribute, ORT_OP_ATTR_STRING, nullptr, 0, &size)) api.ReleaseStatus(status);
  std::string text(size, '\0');
  Check(api, api.ReadOpAttr(attribute, ORT_OP_ATTR_STRING, text.data(), size, &size));
  text.resize(size);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

}  // namespace dpiframe
