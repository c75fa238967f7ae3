// Which values of a program need no step of their own, and which are best written where they are needed.
#pragma once

#include <cstdint>
#include <vector>

#include "access.h"
#include "program.h"

namespace dpiframe {

// Where a value is written: into an output, or into a part of a joined value.
struct Target {
  int output = -1;
  int joined = -1;    // a value
  int64_t first = 0;  // of the joined value's elements along its axis
  int part = -1;      // the operand of the join, of which this value is an alias
};

struct ValuePlacement {
  bool needed = false;  // for an output
  int phase = kRows;
  int alias_of = -1;  // the value whose elements, in the same order and of the same bits, these are
  int uses = 0;       // needed lines and outputs that name it or an alias of it
  Target target;
};

// constant_inputs: whether no call may change an input.
std::vector<ValuePlacement> PlaceValues(const ElementwiseProgram& program, const std::vector<bool>& constant_inputs);

// A view's strides; of a pick too, where it goes from element to element in equal steps.
bool ViewStrides(const ElementwiseValue& value, int64_t* offset, Sizes* strides);

// The value at the end of the chain of aliases.
int Owner(const std::vector<ValuePlacement>& values, int value);

}  // namespace dpiframe
