#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch/launcher.h"

namespace dpiframe::cuda {

// Writes numbers to device memory, in as many launches as their parameters take: unlike with a copy, a CUDA graph then
// holds the numbers themselves. Throws CudaError.
void WriteDeviceWords(uint64_t* to, const uint64_t* words, size_t count, const Launcher& launcher);

}  // namespace dpiframe::cuda
