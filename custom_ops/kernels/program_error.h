#pragma once

#include <stdexcept>

namespace dpiframe {

// What is wrong with a program: "line 7, field 4 (table): ...".
struct ProgramError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

}  // namespace dpiframe
