#include <algorithm>

#include "kernels/cuda/device/divide_up.h"
#include "launch.h"
#include "mma.cuh"
#include "short.cuh"
#include "skinny.cuh"

namespace dpiframe::cuda {
namespace {

template <int kWarpsDown, int kWarpsAcross, int kColumns>
GemmKernel MmaEntry(const char* name) {
  using Three = MmaTile<kWarpsDown, kWarpsAcross, kColumns, 3>;
  using One = MmaTile<kWarpsDown, kWarpsAcross, kColumns, 1>;
  return {name,
          false,
          false,
          false,
          Three::kRows,
          Three::kColumns,
          1,
          Three::kThreads,
          Three::kSharedBytes,
          reinterpret_cast<const void*>(&MmaGemm<Three>),
          reinterpret_cast<const void*>(&MmaGemm<One>)};
}

int ColumnTiles(const GemmArguments& arguments, int columns) {
  return arguments.n / arguments.run_columns * ((arguments.run_columns + columns - 1) / columns);
}

template <int kRows, int kColumns>
cudaError_t LaunchSkinny(const GemmArguments& arguments, bool overlap, const Launcher& launcher) {
  const int64_t warps = (arguments.m + kRows - 1) / kRows * ColumnTiles(arguments, kColumns);
  const dim3 blocks(static_cast<unsigned>((warps + kSkinnyWarps - 1) / kSkinnyWarps));
  return LaunchKernel(reinterpret_cast<const void*>(&SkinnyGemm<kRows, kColumns>),
                      {blocks, dim3(32 * kSkinnyWarps), 0, 1, overlap}, arguments, launcher);
}

}  // namespace

GemmKernels MmaKernels() {
  static const GemmKernel kernels[] = {MmaEntry<2, 2, 64>("mma 64x64"), MmaEntry<4, 2, 128>("mma 128x128")};
  return {kernels, kernels + sizeof kernels / sizeof kernels[0]};
}

cudaError_t PrepareGemmKernel(const GemmKernel& kernel, int products) {
  return cudaFuncSetAttribute(products == 3 ? kernel.three_products : kernel.one_product,
                              cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared_bytes);
}

cudaError_t LaunchGemm(const GemmKernel& kernel, int products, int multiprocessors, const GemmArguments& arguments,
                       const Launcher& launcher) {
  int64_t tiles = DivideUp(arguments.m, kernel.rows) * ColumnTiles(arguments, kernel.columns);
  if (kernel.goes_on) tiles = std::min<int64_t>(tiles, multiprocessors);
  const dim3 blocks(static_cast<unsigned>(tiles), 1, static_cast<unsigned>(kernel.blocks));
  const LaunchShape shape{blocks, dim3(static_cast<unsigned>(kernel.threads)), static_cast<size_t>(kernel.shared_bytes),
                          kernel.blocks, kernel.wgmma};
  return LaunchKernel(products == 3 ? kernel.three_products : kernel.one_product, shape, arguments, launcher);
}

cudaError_t PlainGemmsWait(bool* waits) {
  *waits = true;
  for (const void* kernel :
       {reinterpret_cast<const void*>(&SkinnyGemm<4, 4>), reinterpret_cast<const void*>(&SkinnyGemm<4, 2>),
        reinterpret_cast<const void*>(&SkinnyGemm<4, 1>), reinterpret_cast<const void*>(&SkinnyGemm<2, 1>),
        reinterpret_cast<const void*>(&SkinnyGemm<1, 1>), reinterpret_cast<const void*>(&ShortGemm<16>),
        reinterpret_cast<const void*>(&ShortGemm<64>)}) {
    cudaFuncAttributes attributes{};
    const cudaError_t code = cudaFuncGetAttributes(&attributes, kernel);
    if (code != cudaSuccess) return code;
    *waits = *waits && attributes.ptxVersion >= 90;
  }
  return cudaSuccess;
}

cudaError_t LaunchSkinnyGemm(const GemmArguments& arguments, bool overlap, const Launcher& launcher) {
  const int rows = arguments.m >= 4 ? 4 : static_cast<int>(arguments.m);
  if (arguments.n == 1) {
    // One column: as many rows as keep the GPU's loads in flight.
    if (rows == 4) return LaunchSkinny<4, 1>(arguments, overlap, launcher);
    return LaunchSkinny<1, 1>(arguments, overlap, launcher);
  }
  if (rows == 1) return LaunchSkinny<1, 1>(arguments, overlap, launcher);
  if (rows == 2) return LaunchSkinny<2, 1>(arguments, overlap, launcher);
  if (arguments.run_columns >= 4 && arguments.m > 8) return LaunchSkinny<4, 4>(arguments, overlap, launcher);
  if (arguments.m > 8) return LaunchSkinny<4, 2>(arguments, overlap, launcher);
  return LaunchSkinny<4, 1>(arguments, overlap, launcher);
}

cudaError_t LaunchShortGemm(const GemmArguments& arguments, bool overlap, const Launcher& launcher) {
  const int columns = arguments.run_columns <= 16 ? 16 : 64, rows = 16 * kShortThreads / columns;
  const void* kernel =
      columns == 16 ? reinterpret_cast<const void*>(&ShortGemm<16>) : reinterpret_cast<const void*>(&ShortGemm<64>);
  const dim3 blocks(static_cast<unsigned>((arguments.m + rows - 1) / rows),
                    static_cast<unsigned>(ColumnTiles(arguments, columns)));
  return LaunchKernel(kernel, {blocks, dim3(kShortThreads), 0, 1, overlap}, arguments, launcher);
}

}  // namespace dpiframe::cuda
