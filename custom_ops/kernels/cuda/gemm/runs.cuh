// Where a tile's columns lie, and the values of A's rows that they multiply.
#pragma once

#include <cuda_runtime.h>

#include "records.h"

namespace dpiframe::cuda {

// Tiles are numbered along the rows first: those that are computed at the same time share as few rows of A as there can
// be, so that all of A is read from memory once. This is how many lie side by side.
__device__ __forceinline__ int TilesAcross(const GemmArguments& arguments, int width) {
  const int columns = arguments.run_columns;
  return arguments.n / columns * ((columns + width - 1) / width);
}

// The tile with a number, `width` columns wide or what its run of columns has left. (What a run multiplies is a number
// and no address: nvcc 13.0 loses what is added to an address of the arguments in a branch.)
struct RunColumns {
  int begin;  // in a row of A
  int first;
  int end;  // of the run

  __device__ __forceinline__ RunColumns(const GemmArguments& arguments, int tile, int width)
      : begin(0), first(tile * width), end(arguments.n) {
    const int columns = arguments.run_columns;
    if (columns == arguments.n) return;
    const int across = (columns + width - 1) / width, run = tile / across;
    begin = arguments.begins[run];
    first = run * columns + tile % across * width;
    end = (run + 1) * columns;
  }
};

}  // namespace dpiframe::cuda
