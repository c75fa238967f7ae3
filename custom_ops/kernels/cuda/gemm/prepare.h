// Brings a weight into the form that the kernels of FusedGemm take.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch/launcher.h"
#include "records.h"

namespace dpiframe::cuda {

// Where the forms of a weight lie in one block of memory.
class WeightLayout {
 public:
  // `parts`: 1 (rounded values) or 2 (also their rests), 0 for neither: then there is only [N, K] in float32.
  WeightLayout(int n, int k, int parts, bool transposed);

  size_t bytes() const { return bytes_; }

  // `weight`: [N, K], or [K, N] where it is transposed; it must outlive the work and, as [N, K], what is prepared.
  PreparedWeight At(const float* weight, void* memory) const;

  // Launches what fills the memory.
  cudaError_t Prepare(const float* weight, void* memory, const Launcher& launcher) const;

 private:
  int n_, k_, parts_, rows_;
  bool transposed_;
  size_t plain_ = 0, unscale_ = 0, flags_ = 0, bytes_ = 0;
};

}  // namespace dpiframe::cuda
