// Launches of FusedGemm's kernels, for files that a C++ compiler compiles.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/launch/launcher.h"
#include "records.h"

namespace dpiframe::cuda {

// How a product is computed.
struct GemmKernel {
  const char* name;
  bool wgmma;     // needs compute capability 9.0
  bool presplit;  // A is split by a kernel before
  bool goes_on;   // a block goes on to further tiles: one for each multiprocessor is enough
  int rows;       // of a tile
  int columns;
  int blocks;  // that share a tile
  int threads;
  int shared_bytes;
  const void* three_products;  // the kernel with both parts, and with rounded values alone
  const void* one_product;
};

struct GemmKernels {
  const GemmKernel* begin;
  const GemmKernel* end;
};

GemmKernels MmaKernels();
GemmKernels WgmmaKernels();  // none in a build without code for compute capability 9.0

// Lets the kernels have the shared memory that they need, on the current device.
cudaError_t PrepareGemmKernel(const GemmKernel& kernel, int products);

cudaError_t LaunchGemm(const GemmKernel& kernel, int products, int multiprocessors, const GemmArguments& arguments,
                       const Launcher& launcher);

// Splits A into arguments.split.
cudaError_t LaunchPresplit(int products, const GemmArguments& arguments, const Launcher& launcher);

// Loads the kernels for few rows or few columns, on the current device. `waits`: whether their code waits for earlier
// kernels itself; that for older GPUs doesn't, also where the driver has compiled it for a newer one.
cudaError_t PlainGemmsWait(bool* waits);

// For few rows or few columns. `overlap`: see LaunchShape.
cudaError_t LaunchSkinnyGemm(const GemmArguments& arguments, bool overlap, const Launcher& launcher);

// For K up to 32, on the same terms.
cudaError_t LaunchShortGemm(const GemmArguments& arguments, bool overlap, const Launcher& launcher);

inline cudaError_t LaunchKernel(const void* kernel, const LaunchShape& shape, const GemmArguments& arguments,
                                const Launcher& launcher) {
  void* parameters[] = {const_cast<GemmArguments*>(&arguments)};
  return launcher.Launch(kernel, shape, parameters);
}

}  // namespace dpiframe::cuda
