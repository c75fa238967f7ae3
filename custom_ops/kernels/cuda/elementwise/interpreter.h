// Runs a program without compiling it: slower than a printed kernel, but there is nothing to wait for or to install.
// A block works on a row at a time, one value after the other, with values in memory of its own.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "kernels/cuda/launch/launcher.h"
#include "kernels/elementwise/program.h"
#include "steps.h"

namespace dpiframe::cuda {

class ElementwiseInterpreter {
 public:
  explicit ElementwiseInterpreter(const ElementwiseProgram& program) : steps_(MakeSteps(program)) {}

  size_t device_bytes() const;
  // Writes the steps into device_bytes() bytes of device memory, which must outlive this object. Throws CudaError.
  void Upload(void* memory);

  unsigned BlocksFor(int64_t rows, int64_t multiprocessors) const;
  size_t ScratchBytes(unsigned blocks) const;

  // Throws CudaError.
  void Launch(int64_t rows, int64_t inner_rows, const void* const* inputs, void* const* outputs, void* scratch,
              unsigned blocks, const Launcher& launcher) const;

 private:
  size_t AddressBytes() const { return (steps_.inputs + steps_.outputs) * sizeof(uint64_t); }

  InterpreterSteps steps_;
  InterpreterArguments arguments_{};  // as far as all launches share them
};

}  // namespace dpiframe::cuda
