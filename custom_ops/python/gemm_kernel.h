#pragma once

#include <pybind11/pybind11.h>

// The CPU kernel of FusedGemm on numpy arrays.
void BindGemm(pybind11::module_* module);
