// What values cost to compute, in instructions, roughly.
#pragma once

#include <vector>

#include "kernels/elementwise/program.h"

namespace dpiframe::cuda {

// One element of a value, its operands being there.
double OwnCost(const ElementwiseValue& value);

// One element of each value with all that it's made of, down to inputs and reductions.
std::vector<double> WholeCosts(const ElementwiseProgram& program);

}  // namespace dpiframe::cuda
