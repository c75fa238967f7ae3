// Launches of the kernels in launch.cu, for files that a C++ compiler compiles.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/launch/launcher.h"
#include "records.h"

namespace dpiframe::cuda {

// Rows of a chunk of 16 bytes that a thread of the kernels with pools fills.
constexpr int kGeneralRows = 4;

// The kernel for plain chunks and copies whose threads fill `rows` rows of a chunk of 16 bytes: 1 or 4.
const void* PlainLookupKernelFor(int rows);

// The same for these and pools of tables, whose elements have 2 or 4 bytes.
const void* TablePoolKernelFor(uint32_t element_bytes, int rows);

// The kernel for plain chunks, copies and plain pools, of kShortPool terms at most or of any number, for tables of
// elements of 2 or 4 bytes.
const void* PlainPoolKernelFor(uint32_t element_bytes, bool short_pools);

// The kernel for everything, for tables of elements of 2 or 4 bytes.
const void* LookupKernelFor(uint32_t element_bytes);

// The kernels for bags and for plain bags, for tables of elements of 2 or 4 bytes.
const void* BagKernelFor(uint32_t element_bytes);
const void* PlainBagKernelFor(uint32_t element_bytes, bool short_bags);

// The same for many plain bags, of chunks of 16 bytes.
const void* ManyBagsKernelFor(uint32_t element_bytes);

cudaError_t LaunchLookup(const void* kernel, uint32_t blocks, const LookupArguments& arguments, const Words& words,
                         const Launcher& launcher);

// Writes the first `count` values to device memory.
cudaError_t LaunchWriteWords(uint64_t* to, const Words& words, uint32_t count, const Launcher& launcher);

}  // namespace dpiframe::cuda
