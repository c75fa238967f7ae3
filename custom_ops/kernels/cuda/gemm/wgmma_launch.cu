// Compiled for compute capability 9.0a alone, whose instructions no other GPU has.
#include "launch.h"
#include "presplit.cuh"
#include "wgmma.cuh"

namespace dpiframe::cuda {
namespace {

template <int kRowGroups, int kSlices, int kColumns, int kBlocks, bool kPresplit>
GemmKernel WgmmaEntry(const char* name) {
  using Three = WgmmaTile<kRowGroups, kSlices, kColumns, 3, kBlocks, kPresplit>;
  using One = WgmmaTile<kRowGroups, kSlices, kColumns, 1, kBlocks, kPresplit>;
  constexpr int kShared = Three::kSharedBytes > One::kSharedBytes ? Three::kSharedBytes : One::kSharedBytes;
  return {name,
          true,
          kPresplit,
          Three::kRows,
          Three::kColumns,
          kBlocks,
          Three::kThreads,
          kShared,
          reinterpret_cast<const void*>(&WgmmaGemm<Three>),
          reinterpret_cast<const void*>(&WgmmaGemm<One>)};
}

}  // namespace

GemmKernels WgmmaKernels() {
  static const GemmKernel kernels[] = {
      WgmmaEntry<1, 2, 64, 1, false>("64x64"),
      WgmmaEntry<1, 2, 64, 2, false>("64x64 by 2 blocks"),
      WgmmaEntry<1, 2, 64, 4, false>("64x64 by 4 blocks"),
      WgmmaEntry<1, 2, 64, 8, false>("64x64 by 8 blocks"),
      WgmmaEntry<2, 1, 80, 1, false>("128x80"),
      WgmmaEntry<2, 1, 128, 1, false>("128x128"),
      WgmmaEntry<2, 1, 160, 1, false>("128x160"),
      WgmmaEntry<2, 1, 80, 1, true>("presplit 128x80"),
      WgmmaEntry<2, 1, 128, 1, true>("presplit 128x128"),
      WgmmaEntry<2, 1, 160, 1, true>("presplit 128x160"),
  };
  return {kernels, kernels + sizeof kernels / sizeof kernels[0]};
}

cudaError_t LaunchPresplit(int products, const GemmArguments& arguments, const Launcher& launcher) {
  constexpr int kRows = kPresplitWarps * kPresplitRows;
  const dim3 blocks(static_cast<unsigned>((arguments.split.rows + kRows - 1) / kRows),
                    static_cast<unsigned>((arguments.k + kChunk - 1) / kChunk));
  const void* kernel =
      products == 3 ? reinterpret_cast<const void*>(&PresplitRows<2>) : reinterpret_cast<const void*>(&PresplitRows<1>);
  return LaunchKernel(kernel, {blocks, dim3(32 * kPresplitWarps), 0, 1, true}, arguments, launcher);
}

}  // namespace dpiframe::cuda
