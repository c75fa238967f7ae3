// Launches of the kernel in interpreter_launch.cu, for files that a C++ compiler compiles.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/launch/launcher.h"
#include "steps.h"

namespace dpiframe::cuda {

// Brings the kernel to the current device.
cudaError_t LoadInterpreter();

cudaError_t LaunchInterpreter(unsigned blocks, const InterpreterArguments& arguments, const Launcher& launcher);

}  // namespace dpiframe::cuda
