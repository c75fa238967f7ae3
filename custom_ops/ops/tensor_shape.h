#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "ort.h"

namespace dpiframe {

// Shape of a tensor at run time, without a heap allocation of ours.
struct TensorShape {
  static constexpr size_t kMaxRank = 16;
  int64_t sizes[kMaxRank];
  size_t rank = 0;
  size_t elements = 0;

  TensorShape() = default;
  TensorShape(const int64_t* given, size_t axes) : rank(axes), elements(1) {
    for (size_t i = 0; i < axes; ++i) elements *= static_cast<size_t>(given[i]);
    std::copy(given, given + std::min(axes, kMaxRank), sizes);
  }
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

inline std::string ShapeText(const int64_t* sizes, size_t rank) {
  std::string text = "[";
  for (size_t i = 0; i < rank; ++i) text += (i > 0 ? ", " : "") + std::to_string(sizes[i]);
  return text + "]";
}

inline std::string ShapeText(const TensorShape& shape) {
  return ShapeText(shape.sizes, std::min(shape.rank, TensorShape::kMaxRank));
}

}  // namespace dpiframe
