#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace dpiframe::cuda {

// Writes numbers to device memory as work on a stream, in as many launches as their parameters take: unlike a copy, a
// captured graph then holds the numbers themselves. Throws CudaError.
void WriteDeviceWords(uint64_t* to, const uint64_t* words, size_t count, cudaStream_t stream);

}  // namespace dpiframe::cuda
