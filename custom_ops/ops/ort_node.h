// A node of ONNX Runtime's own.
#pragma once

#include <string>
#include <vector>

#include "device_memory.h"
#include "node.h"

namespace dpiframe {

class OrtNodeInfo final : public NodeInfo {
 public:
  OrtNodeInfo(const OrtApi& api, const OrtKernelInfo* info, std::string op, BadIdRegistry* bad_ids)
      : api_(api), info_(info), op_(std::move(op)), bad_ids_(bad_ids) {}

  const OrtApi& api() const override { return api_; }
  const OrtKernelInfo* kernel_info() const override { return info_; }
  BadIdRegistry* bad_ids() const override { return bad_ids_; }
  std::string op() const override { return op_; }
  std::string name() const override;
  std::string program() const override;
  size_t input_count() const override;
  size_t output_count() const override;
  std::string input_name(size_t input) const override;
  ONNXTensorElementDataType input_type(size_t input) const override;
  bool Constant(size_t input, NodeTensor* tensor) const override;

 private:
  const OrtApi& api_;
  const OrtKernelInfo* info_;
  std::string op_;
  BadIdRegistry* bad_ids_;
};

class OrtNodeCall final : public NodeCall {
 public:
  // allocator: of the node's provider; null where the kernel asks for no scratch memory.
  OrtNodeCall(const OrtApi& api, OrtKernelContext* context, const DeviceAllocator* allocator)
      : api_(api), context_(context), allocator_(allocator) {}

  bool Input(size_t input, NodeTensor* tensor) override;
  bool Output(size_t output, ONNXTensorElementDataType type, const int64_t* sizes, size_t rank, void** data) override;
  void* Scratch(size_t bytes) override;
  void* stream() override;
  void ParallelFor(void (*task)(void*, size_t), size_t count, void* data) override;

 private:
  const OrtApi& api_;
  OrtKernelContext* context_;
  const DeviceAllocator* allocator_;
  std::vector<DeviceMemory> scratch_;
};

class OrtNodeShapes final : public NodeShapes {
 public:
  OrtNodeShapes(const OrtApi& api, OrtShapeInferContext* context) : api_(api), context_(context) {}

  std::string program() const override;
  size_t input_count() const override;
  InferredTensor Input(size_t input) const override;
  void SetOutput(size_t output, const InferredTensor& tensor) override;

 private:
  const OrtApi& api_;
  OrtShapeInferContext* context_;
};

}  // namespace dpiframe
