#include "elementwise_cuda.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cuda/compiler/nvrtc.h"
#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/device/device_attribute.h"
#include "kernels/cuda/device/device_words.h"

namespace dpiframe::cuda {
namespace {

bool Fits(const void* address, int alignment) {
  return reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(alignment) == 0;
}

}  // namespace

CudaElementwise::CudaElementwise(ElementwiseProgram program, int device, bool compiles, int lanes)
    : program_(std::move(program)),
      multiprocessors_(DeviceAttribute(cudaDevAttrMultiProcessorCount, device)),
      interpreter_(program_) {
  if (!compiles || Nvrtc::Get() == nullptr) return;
  schedule_ = lanes > 0 ? MakeSchedule(program_, lanes) : MakeSchedule(program_);
  words_ = ArgumentWordsOf(program_, schedule_);
  aligned_.printed = PrintKernel(program_, schedule_, true);
  any_.printed = PrintKernel(program_, schedule_, false);
  // In this order: the first is what nearly every call takes.
  for (Variant* variant : {&aligned_, &any_}) {
    variant->future = LoadKernel(variant->printed.source, kElementwiseKernelName, device);
    variant->printed.source.clear();
  }
}

void CudaElementwise::Upload(void* memory) { interpreter_.Upload(memory); }

bool CudaElementwise::Variant::Suits(const ElementwiseCall& call) const {
  for (size_t i = 0; i < printed.input_alignments.size(); ++i) {
    if (!Fits(call.inputs[i], printed.input_alignments[i])) return false;
  }
  for (size_t i = 0; i < printed.output_alignments.size(); ++i) {
    if (!Fits(call.outputs[i], printed.output_alignments[i])) return false;
  }
  return true;
}

void CudaElementwise::CheckAddresses(const ElementwiseCall& call) const {
  const auto bytes = [&](int value) {
    return static_cast<int>(ScalarBytes(program_.values[static_cast<size_t>(value)].type));
  };
  for (int i = 0; i < program_.inputs; ++i) {
    if (!Fits(call.inputs[i], bytes(i))) throw MisalignedElements(true, static_cast<size_t>(i));
  }
  for (size_t i = 0; i < program_.outputs.size(); ++i) {
    if (!Fits(call.outputs[i], bytes(program_.outputs[i]))) throw MisalignedElements(false, i);
  }
}

ElementwiseLaunch CudaElementwise::Plan(const ElementwiseCall& call) const {
  ElementwiseLaunch launch;
  if (aligned_.future.valid()) {
    const Variant* variant = &aligned_;
    if (!aligned_.Suits(call)) {
      CheckAddresses(call);
      variant = &any_;
    }
    launch.printed = variant->future.get();
  }
  if (launch.printed.kernel == nullptr) {
    CheckAddresses(call);
    launch.interpreter_blocks = interpreter_.BlocksFor(call.rows(), multiprocessors_);
    launch.scratch_bytes = interpreter_.ScratchBytes(launch.interpreter_blocks);
    return launch;
  }
  launch.registers = launch.printed.registers;
  if (schedule_.scratch_bytes > 0) {
    // One grid for both variants: how much memory a call takes must depend on its sizes alone, since a region takes its
    // nodes' memory by those, before it knows their addresses.
    launch.registers = std::max(aligned_.future.get().registers, any_.future.get().registers);
  }
  const int64_t rows = std::min(call.rows(), MostRows(schedule_));
  launch.scratch_bytes = GridFor(schedule_, launch.registers, rows, multiprocessors_).scratch_bytes;
  if (words_.count > kMaxParameterWords) launch.scratch_bytes += words_.count * sizeof(uint64_t);
  return launch;
}

void CudaElementwise::FillWords(const ElementwiseCall& call, int64_t first_row, int64_t rows, const Grid& grid,
                                void* scratch, uint64_t* words) const {
  words[0] = static_cast<uint64_t>(rows);
  words[1] = static_cast<uint64_t>(call.row_axes[1]);
  words[2] = reinterpret_cast<uint64_t>(scratch);
  words[3] = static_cast<uint64_t>(first_row);
  int64_t first_block = 0;
  for (size_t i = words_.first_blocks; i < words_.pointers; ++i) {
    words[i] = static_cast<uint64_t>(first_block);
    first_block += StageBlocks(schedule_.stages[i - words_.first_blocks], rows, grid.threads);
  }
  uint64_t* next = words + words_.pointers;
  const auto add = [&](const void* address, int number) {
    const ElementwiseValue& value = program_.values[static_cast<size_t>(number)];
    const bool has_rows = value.row_axes == (1u << program_.row_axes) - 1;
    const int64_t row_bytes = value.elements * static_cast<int64_t>(ScalarBytes(value.type));
    *next++ = reinterpret_cast<uint64_t>(address) + static_cast<uint64_t>(has_rows ? first_row * row_bytes : 0);
  };
  for (int i = 0; i < program_.inputs; ++i) add(call.inputs[i], i);
  for (size_t i = 0; i < program_.outputs.size(); ++i) add(call.outputs[i], program_.outputs[i]);
}

void CudaElementwise::Launch(const ElementwiseCall& call, const ElementwiseLaunch& launch, void* scratch,
                             const Launcher& launcher) const {
  if (call.rows() == 0) return;
  if (launch.printed.kernel == nullptr) {
    interpreter_.Launch(call.rows(), call.row_axes[1], call.inputs, call.outputs, scratch, launch.interpreter_blocks,
                        launcher);
    return;
  }
  const int64_t most = MostRows(schedule_);
  for (int64_t first = 0; first < call.rows(); first += most) {
    LaunchRows(call, launch, first, std::min(call.rows() - first, most), scratch, launcher);
  }
}

void CudaElementwise::LaunchRows(const ElementwiseCall& call, const ElementwiseLaunch& launch, int64_t first_row,
                                 int64_t rows, void* scratch, const Launcher& launcher) const {
  const LoadedKernel& printed = launch.printed;
  const Grid grid = GridFor(schedule_, launch.registers, rows, multiprocessors_);
  const LaunchShape shape{dim3(grid.blocks), dim3(grid.threads), grid.shared_bytes, 1, printed.waits};
  const auto run = [&](void* parameter) {
    CheckCuda(launcher.Launch(reinterpret_cast<const void*>(printed.kernel), shape, &parameter),
              "the elementwise kernel can't be launched");
  };
  if (words_.count <= kMaxParameterWords) {
    uint64_t words[kMaxParameterWords];
    FillWords(call, first_row, rows, grid, scratch, words);
    run(words);
    return;
  }
  // Too many for parameters: they lie at the end of the scratch memory.
  std::vector<uint64_t> words(words_.count);
  FillWords(call, first_row, rows, grid, scratch, words.data());
  char* table = static_cast<char*>(scratch) + launch.scratch_bytes - words_.count * sizeof(uint64_t);
  WriteDeviceWords(reinterpret_cast<uint64_t*>(table), words.data(), words.size(), launcher);
  run(&table);
}

}  // namespace dpiframe::cuda
