#include "ort_node.h"

#include <atomic>
#include <memory>

namespace dpiframe {
namespace {

constexpr const char* kProgram = "program";

}  // namespace

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

std::string OrtNodeInfo::name() const { return NodeName(api_, info_); }

std::string OrtNodeInfo::program() const { return StringAttribute(api_, info_, kProgram); }

size_t OrtNodeInfo::input_count() const {
  size_t count = 0;
  Check(api_, api_.KernelInfo_GetInputCount(info_, &count));
  return count;
}

size_t OrtNodeInfo::output_count() const {
  size_t count = 0;
  Check(api_, api_.KernelInfo_GetOutputCount(info_, &count));
  return count;
}

std::string OrtNodeInfo::input_name(size_t input) const { return InputName(api_, info_, input); }

ONNXTensorElementDataType OrtNodeInfo::input_type(size_t input) const { return InputType(api_, info_, input); }

bool OrtNodeInfo::Constant(size_t input, NodeTensor* tensor) const {
  int is_constant = 0;
  const OrtValue* value = nullptr;
  Check(api_, api_.KernelInfoGetConstantInput_tensor(info_, input, &is_constant, &value));
  if (is_constant == 0 || value == nullptr) return false;
  tensor->data = TensorData(api_, value);
  tensor->shape = TensorShape(api_, value);
  return true;
}

bool OrtNodeCall::Input(size_t input, NodeTensor* tensor) {
  const OrtValue* value = nullptr;
  Check(api_, api_.KernelContext_GetInput(context_, input, &value));
  if (value == nullptr) return false;
  tensor->data = TensorData(api_, value);
  tensor->shape = TensorShape(api_, value);
  return true;
}

bool OrtNodeCall::Output(size_t output, ONNXTensorElementDataType, const int64_t* sizes, size_t rank, void** data) {
  OrtValue* value = nullptr;
  Check(api_, api_.KernelContext_GetOutput(context_, output, sizes, rank, &value));
  if (value == nullptr) return false;
  Check(api_, api_.GetTensorMutableData(value, data));
  return true;
}

void* OrtNodeCall::Scratch(size_t bytes) {
  if (bytes == 0) return nullptr;
  scratch_.push_back(DeviceMemory::Scratch(api_, *allocator_, context_, bytes));
  return scratch_.back().data();
}

void* OrtNodeCall::stream() {
  void* stream = nullptr;
  Check(api_, api_.KernelContext_GetGPUComputeStream(context_, &stream));
  return stream;
}

void OrtNodeCall::ParallelFor(void (*task)(void*, size_t), size_t count, void* data) {
  Check(api_, api_.KernelContext_ParallelFor(context_, task, count, 0, data));
}

std::string OrtNodeShapes::program() const { return StringAttribute(api_, context_, kProgram); }

size_t OrtNodeShapes::input_count() const {
  size_t count = 0;
  Check(api_, api_.ShapeInferContext_GetInputCount(context_, &count));
  return count;
}

InferredTensor OrtNodeShapes::Input(size_t input) const {
  OrtTensorTypeAndShapeInfo* info = nullptr;
  Check(api_, api_.ShapeInferContext_GetInputTypeShape(context_, input, &info));  // stays the context's
  InferredTensor result;
  size_t rank = 0;
  Check(api_, api_.GetTensorElementType(info, &result.type));
  Check(api_, api_.GetDimensionsCount(info, &rank));
  result.sizes = SymbolicSizes(rank);
  std::vector<const char*> names(rank);
  Check(api_, api_.GetDimensions(info, result.sizes.values.data(), rank));
  Check(api_, api_.GetSymbolicDimensions(info, names.data(), rank));
  result.sizes.names.assign(names.begin(), names.end());
  return result;
}

void OrtNodeShapes::SetOutput(size_t output, const InferredTensor& tensor) {
  // One description an output: ONNX Runtime keeps a longer shape's names when a description is used again.
  OrtTensorTypeAndShapeInfo* info = nullptr;
  Check(api_, api_.CreateTensorTypeAndShapeInfo(&info));
  const std::unique_ptr<OrtTensorTypeAndShapeInfo, decltype(api_.ReleaseTensorTypeAndShapeInfo)> owner(
      info, api_.ReleaseTensorTypeAndShapeInfo);
  Check(api_, api_.SetTensorElementType(info, tensor.type));
  std::vector<const char*> names;
  for (const std::string& name : tensor.sizes.names) names.push_back(name.c_str());
  Check(api_, api_.SetDimensions(info, tensor.sizes.values.data(), tensor.sizes.values.size()));
  Check(api_, api_.SetSymbolicDimensions(info, names.data(), names.size()));
  Check(api_, api_.ShapeInferContext_SetOutputTypeShape(context_, output, info));
}

}  // namespace dpiframe
