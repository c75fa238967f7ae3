// Where a tile's columns lie, and the values of A's rows that they multiply.
#pragma once

#include <cuda_runtime.h>

#include "gemm_records.h"

namespace dpiframe::cuda {

// The tile with a number, `width` columns wide or what its run of columns has left.
struct RunColumns {
  const float* a;
  int first;
  int end;  // of the run

  __device__ __forceinline__ RunColumns(const GemmArguments& arguments, int tile, int width)
      : a(arguments.a), first(tile * width), end(arguments.n) {
    const int columns = arguments.run_columns;
    if (columns == arguments.n) return;
    const int across = (columns + width - 1) / width, run = tile / across;
    a += arguments.begins[run];
    first = run * columns + tile % across * width;
    end = (run + 1) * columns;
  }
};

}  // namespace dpiframe::cuda
