// Prints a program as CUDA C++, for NVRTC or nvcc.
#pragma once

#include <string>
#include <vector>

#include "kernels/elementwise/program.h"
#include "schedule.h"

namespace dpiframe::cuda {

constexpr const char* kElementwiseKernelName = "dpiframe_elementwise";

// What the printed kernel reads before anything else, as 64-bit words: the launch's rows, rows along the second axis,
// scratch memory, the number of the launch's first row, without teams the first block of each stage, then the addresses
// of inputs and outputs. Those of inputs that have all row axes and of outputs are the first row's.
struct ArgumentWords {
  size_t first_blocks;
  size_t pointers;
  size_t count;
};
ArgumentWords ArgumentWordsOf(const ElementwiseProgram& program, const Schedule& schedule);

// So many words are the kernel's parameter; of more, its parameter is the address.
constexpr size_t kMaxParameterWords = 500;

struct PrintedKernel {
  std::string source;
  // Bytes that each address must be a multiple of; at least its element's size.
  std::vector<int> input_alignments;
  std::vector<int> output_alignments;
};

// `aligned`: with accesses of several elements where sizes and maps allow them, which ask for more of the addresses.
PrintedKernel PrintKernel(const ElementwiseProgram& program, const Schedule& schedule, bool aligned);

}  // namespace dpiframe::cuda
