// How many pieces of a size it takes to hold something.
#pragma once

#include <type_traits>

namespace dpiframe::cuda {

template <typename T>
constexpr T DivideUp(T a, std::common_type_t<T> b) {
  return (a + b - 1) / b;
}

}  // namespace dpiframe::cuda
