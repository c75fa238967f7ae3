#pragma once

namespace dpiframe {

// kBestOfMachine is what a kernel should use; the others are for tests and machines to compare.
enum class InstructionSet { kBestOfMachine, kBaseline, kAvx2 };

}  // namespace dpiframe
