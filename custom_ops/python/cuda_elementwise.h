#pragma once

#include <pybind11/pybind11.h>

namespace dpiframe::cuda {

// Adds what belongs to FusedElementwise to the module of the CUDA kernels.
void AddElementwise(pybind11::module_* module);

}  // namespace dpiframe::cuda
