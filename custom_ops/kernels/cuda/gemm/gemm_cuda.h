// FusedGemm on a GPU: chooses a kernel for each size, prepares the weight, launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/gemm/program.h"
#include "launch.h"
#include "prepare.h"
#include "records.h"

namespace dpiframe::cuda {

struct CudaGemmCall {
  int64_t m;
  const float* a;                // device memory, as all addresses here
  const float* weight;           // read where it wasn't given at creation
  const float* const* operands;  // inputs 2, 3, ...
  float* y;
  void* scratch;    // scratch_bytes(m) bytes, this call's until its work is done
  int kernel = -1;  // one of kernel_names(); -1: what suits the size
};

class CudaGemm {
 public:
  // `weight`: memory of the device, or null where each call brings one. `multiprocessors`: to use no more than these;
  // 0: all. Throws CudaError.
  CudaGemm(const GemmProgram& program, const float* weight, int device, int multiprocessors = 0);

  CudaGemm(const CudaGemm&) = delete;
  CudaGemm& operator=(const CudaGemm&) = delete;

  size_t device_bytes() const { return weight_ != nullptr ? layout_.bytes() : 0; }

  // Prepares the weight in device_bytes() bytes of device memory, which stay the caller's and must outlive this object.
  // Waits until that is done, but for nothing else. Throws CudaError.
  void Prepare(void* memory);

  size_t scratch_bytes(int64_t m, int kernel = -1) const;

  // Launches the work and returns. Any number of threads may call it at once. Throws CudaError.
  void Launch(const CudaGemmCall& call, const Launcher& launcher) const;

  // The kernels that this GPU can run, in the order of CudaGemmCall::kernel; and the one for a size.
  std::vector<std::string> kernel_names() const;
  int KernelFor(int64_t m) const;

 private:
  bool IsSkinny() const;  // whatever the number of rows
  int64_t TilesAcross(int columns) const;
  int SmallTiles(int64_t m) const;
  int LargeTiles(int64_t m) const;
  int Find(const char* name) const;
  size_t SplitBytes(int64_t m) const;
  SplitActivation SplitIn(int64_t m, void* memory) const;

  GemmProgram program_;
  int products_;
  const float* weight_;
  int device_;
  void* prepared_ = nullptr;
  int multiprocessors_ = 0;
  bool overlap_ = false;  // whether kernels can start while earlier ones run
  std::vector<GemmKernel> kernels_;
  WeightLayout layout_;
};

}  // namespace dpiframe::cuda
