// Divisors of the lookup kernels, and how many threads a launch may have.
#pragma once

#include <cstdint>

#include "records.h"

namespace dpiframe::cuda {

constexpr uint64_t kMaxThreads = (uint64_t{1} << 31) - 2 * kBlockThreads;  // of a segment in a launch

inline Divisor DivisorFor(uint32_t number) {
  uint32_t shift = 0;
  while ((uint64_t{1} << shift) < number) ++shift;
  return {static_cast<uint32_t>((uint64_t{1} << 32) * ((uint64_t{1} << shift) - number) / number + 1), shift};
}

}  // namespace dpiframe::cuda
