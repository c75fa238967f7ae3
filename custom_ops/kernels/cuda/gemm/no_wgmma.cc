// Stands for wgmma_launch.cu in builds without code for compute capability 9.0.
#include "launch.h"

namespace dpiframe::cuda {

GemmKernels WgmmaKernels() { return {nullptr, nullptr}; }

cudaError_t LaunchPresplit(int, const GemmArguments&, const Launcher&) { return cudaErrorNoKernelImageForDevice; }

}  // namespace dpiframe::cuda
