#pragma once

#include <pybind11/pybind11.h>

namespace dpiframe::cuda {

// Adds what belongs to FusedGemm to the module of the CUDA kernels.
void AddGemm(pybind11::module_* module);

}  // namespace dpiframe::cuda
