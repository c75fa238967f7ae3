// FusedElementwise on the CPU: a program becomes a plan, which fills outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/instruction_set.h"
#include "kernels/scratch.h"
#include "program.h"
#include "schedule.h"

namespace dpiframe {

struct ElementwiseCall {
  int64_t row_axes[2];  // the second is 1 where there is one
  const void* const* inputs;
  void* const* outputs;
};

// Runs task(data, 0) ... task(data, count - 1), on whatever threads, and returns when all have returned.
struct TaskRunner {
  void (*run)(void* runner, void (*task)(void* data, size_t index), size_t count, void* data);
  void* runner;
};

class ElementwisePlan {
 public:
  // constant_inputs: the addresses of inputs that no call may change, null for the others.
  // block_rows: rows that are worked on at a time, 0 for what suits the caches.
  ElementwisePlan(const ElementwiseProgram& program, const std::vector<const void*>& constant_inputs,
                  InstructionSet instruction_set = InstructionSet::kBestOfMachine, int64_t block_rows = 0);

  ElementwisePlan(const ElementwisePlan&) = delete;
  ElementwisePlan& operator=(const ElementwisePlan&) = delete;

  // Fills the outputs. Any number of threads may be in here.
  void Run(const ElementwiseCall& call, const TaskRunner& runner) const;

 private:
  // What one call needs beside its threads' blocks.
  struct CallMemory {
    Scratch shared;
    std::vector<char*> bases;  // of the storages' first rows
  };
  struct PhaseRun;

  std::unique_ptr<CallMemory> TakeMemory() const;
  void GiveBack(std::unique_ptr<CallMemory> memory) const;
  void SetBases(const void* const* inputs, void* const* outputs, const int64_t* phase_rows, CallMemory* memory) const;
  static void RunPhase(PhaseRun* run, const TaskRunner& runner);
  static void RunRows(const PhaseRun& run, int64_t begin, int64_t end);

  Schedule schedule_;
  Scratch constants_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<CallMemory>> free_memory_;
};

}  // namespace dpiframe
