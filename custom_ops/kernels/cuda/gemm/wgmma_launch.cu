// Compiled for compute capability 9.0a alone, whose instructions no other GPU has.
#include "launch.h"
#include "presplit.cuh"
#include "tiles.cuh"
#include "wgmma.cuh"

namespace dpiframe::cuda {
namespace {

template <class Three, class One>
GemmKernel Entry(const char* name, const void* three_products, const void* one_product) {
  constexpr int kShared = Three::kSharedBytes > One::kSharedBytes ? Three::kSharedBytes : One::kSharedBytes;
  return {name,
          true,
          Three::kPresplit,
          Three::kAlone,
          Three::kRows,
          Three::kColumns,
          Three::kBlocks,
          Three::kThreads,
          kShared,
          three_products,
          one_product};
}

// 64 rows, in turns of two warpgroups.
template <int kColumns, int kBlocks>
GemmKernel SmallEntry(const char* name) {
  using Three = WgmmaTile<1, 2, kColumns, 3, kBlocks, false>;
  using One = WgmmaTile<1, 2, kColumns, 1, kBlocks, false>;
  return Entry<Three, One>(name, reinterpret_cast<const void*>(&WgmmaGemm<Three>),
                           reinterpret_cast<const void*>(&WgmmaGemm<One>));
}

template <int kColumns, bool kPresplit>
GemmKernel TilesEntry(const char* name) {
  using Three = WgmmaTile<2, 1, kColumns, 3, 1, kPresplit>;
  using One = WgmmaTile<2, 1, kColumns, 1, 1, kPresplit>;
  return Entry<Three, One>(name, reinterpret_cast<const void*>(&TilesGemm<Three>),
                           reinterpret_cast<const void*>(&TilesGemm<One>));
}

}  // namespace

GemmKernels WgmmaKernels() {
  static const GemmKernel kernels[] = {
      SmallEntry<64, 1>("64x64"),
      SmallEntry<64, 2>("64x64 by 2 blocks"),
      SmallEntry<64, 4>("64x64 by 4 blocks"),
      SmallEntry<64, 8>("64x64 by 8 blocks"),
      TilesEntry<80, false>("128x80"),
      TilesEntry<128, false>("128x128"),
      TilesEntry<160, false>("128x160"),
      TilesEntry<80, true>("presplit 128x80"),
      TilesEntry<128, true>("presplit 128x128"),
      TilesEntry<160, true>("presplit 128x160"),
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
