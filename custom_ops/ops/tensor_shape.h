#pragma once

#include <algorithm>
#include <memory>

#include "ort.h"

namespace dpiframe {

// Shape of a tensor at run time, without a heap allocation of ours.
struct TensorShape {
  static constexpr size_t kMaxRank = 16;
  int64_t sizes[kMaxRank];
  size_t rank;
  size_t elements;

  TensorShape(const OrtApi& api, const OrtValue* value) {
    OrtTensorTypeAndShapeInfo* info = nullptr;
    Check(api, api.GetTensorTypeAndShape(value, &info));
    const std::unique_ptr<OrtTensorTypeAndShapeInfo, decltype(api.ReleaseTensorTypeAndShapeInfo)> owner(
        info, api.ReleaseTensorTypeAndShapeInfo);
    Check(api, api.GetDimensionsCount(info, &rank));
    Check(api, api.GetDimensions(info, sizes, std::min(rank, kMaxRank)));
    Check(api, api.GetTensorShapeElementCount(info, &elements));
  }
};

}  // namespace dpiframe
