// The C interface of ONNX Runtime, held at one version, with errors as exceptions inside the library.
#pragma once

#include <onnxruntime_c_api.h>

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace dpiframe {

// Every runtime from 1.18 on has this version, whatever newer one the header describes.
constexpr uint32_t kOrtApiVersion = 18;
static_assert(ORT_API_VERSION >= kOrtApiVersion, "The header of ONNX Runtime is older than 1.18");

struct OrtError : std::runtime_error {
  explicit OrtError(const std::string& message, OrtErrorCode code = ORT_INVALID_ARGUMENT)
      : std::runtime_error(message), code(code) {}
  OrtErrorCode code;
};

[[noreturn]] void ThrowStatus(const OrtApi& api, OrtStatus* status);

inline void Check(const OrtApi& api, OrtStatus* status) {
  if (status != nullptr) ThrowStatus(api, status);
}

// Runs a callback's work; what it throws becomes the status that ONNX Runtime reports.
template <typename Work>
OrtStatus* StatusOf(const OrtApi& api, Work&& work) noexcept {
  try {
    work();
    return nullptr;
  } catch (const OrtError& error) {
    return api.CreateStatus(error.code, error.what());
  } catch (const std::exception& error) {
    return api.CreateStatus(ORT_FAIL, error.what());
  }
}

ONNXTensorElementDataType InputType(const OrtApi& api, const OrtKernelInfo* info, size_t index);

const void* TensorData(const OrtApi& api, const OrtValue* value);

std::string NodeName(const OrtApi& api, const OrtKernelInfo* info);
std::string InputName(const OrtApi& api, const OrtKernelInfo* info, size_t index);
std::string StringAttribute(const OrtApi& api, const OrtKernelInfo* info, const char* name);
std::string StringAttribute(const OrtApi& api, const OrtShapeInferContext* context, const char* name);

}  // namespace dpiframe
