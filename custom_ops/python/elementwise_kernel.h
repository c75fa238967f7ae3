#pragma once

#include <pybind11/pybind11.h>

// The CPU kernel of FusedElementwise on numpy arrays.
void BindElementwise(pybind11::module_* module);
