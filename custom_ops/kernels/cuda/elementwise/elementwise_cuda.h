// FusedElementwise on a GPU: the printed kernel where NVRTC compiles it, else the interpreter.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "grid.h"
#include "interpreter.h"
#include "kernels/cuda/compiler/kernel_loader.h"
#include "kernels/cuda/launch/launcher.h"
#include "kernels/elementwise/program.h"
#include "printer.h"
#include "schedule.h"

namespace dpiframe::cuda {

// An address that doesn't suit the type of what it points to.
struct MisalignedElements : std::invalid_argument {
  MisalignedElements(bool is_input, size_t index)
      : std::invalid_argument("does not start at a multiple of its elements' size"), is_input(is_input), index(index) {}
  bool is_input;
  size_t index;
};

struct ElementwiseCall {
  int64_t row_axes[2];        // sizes; the second is 1 where there is one
  const void* const* inputs;  // device memory, as all addresses here
  void* const* outputs;
  int64_t rows() const { return row_axes[0] * row_axes[1]; }
};

// How one call runs.
struct ElementwiseLaunch {
  LoadedKernel printed;  // none: the interpreter
  int registers = 0;     // that the printed kernel's grid is made for
  unsigned interpreter_blocks = 0;
  size_t scratch_bytes = 0;  // the call's until its work is done
};

class CudaElementwise {
 public:
  // Begins to compile. lanes: as of MakeSchedule, 0 for what it finds best. Throws CudaError.
  CudaElementwise(ElementwiseProgram program, int device, bool compiles = true, int lanes = 0);

  CudaElementwise(const CudaElementwise&) = delete;
  CudaElementwise& operator=(const CudaElementwise&) = delete;

  size_t device_bytes() const { return interpreter_.device_bytes(); }

  // Writes the interpreter's records into device_bytes() bytes of device memory, which stay the caller's and must
  // outlive this object. To be called once, before the first launch. Throws CudaError.
  void Upload(void* memory);

  // Waits until the kernel is compiled, at the first call; neither waits nor allocates later. Throws
  // MisalignedElements.
  ElementwiseLaunch Plan(const ElementwiseCall& call) const;

  // Launches a call's work. Any number of threads may be in here. Throws CudaError.
  void Launch(const ElementwiseCall& call, const ElementwiseLaunch& launch, void* scratch,
              const Launcher& launcher) const;

  // Waits, and says whether a printed kernel is there.
  bool is_compiled() const { return aligned_.future.valid() && aligned_.future.get().kernel != nullptr; }

 private:
  // With accesses of several elements, or of one, which suit all addresses.
  struct Variant {
    PrintedKernel printed;
    KernelFuture future;
    bool Suits(const ElementwiseCall& call) const;
  };

  void CheckAddresses(const ElementwiseCall& call) const;
  void FillWords(const ElementwiseCall& call, int64_t first_row, int64_t rows, const Grid& grid, void* scratch,
                 uint64_t* words) const;
  void LaunchRows(const ElementwiseCall& call, const ElementwiseLaunch& launch, int64_t first_row, int64_t rows,
                  void* scratch, const Launcher& launcher) const;

  ElementwiseProgram program_;
  int64_t multiprocessors_;
  ElementwiseInterpreter interpreter_;
  Schedule schedule_;
  ArgumentWords words_{};
  Variant aligned_;
  Variant any_;
};

}  // namespace dpiframe::cuda
