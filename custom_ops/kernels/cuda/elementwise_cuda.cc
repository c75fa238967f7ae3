#include "elementwise_cuda.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "cuda_error.h"
#include "device_words.h"
#include "divide_up.h"
#include "nvrtc.h"

namespace dpiframe::cuda {
namespace {

constexpr unsigned kMinBlockThreads = 64;
constexpr int64_t kBlocksOfEach = 4;         // multiprocessor, before blocks grow
constexpr int64_t kScratchBlocksOfEach = 8;  // at most, where each block has memory of its own
constexpr int64_t kMaxBlocks = std::numeric_limits<int>::max();

bool Fits(const void* address, int alignment) {
  return reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(alignment) == 0;
}

}  // namespace

CudaElementwise::CudaElementwise(ElementwiseProgram program, int device, bool compiles, int lanes)
    : program_(std::move(program)), interpreter_(program_) {
  int multiprocessors = 1;
  CheckCuda(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
            "the GPU's properties can't be read");
  multiprocessors_ = multiprocessors;
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
    launch.kernel = variant->future.get();
  }
  if (launch.kernel == nullptr) {
    CheckAddresses(call);
    launch.blocks = interpreter_.BlocksFor(call.rows(), multiprocessors_);
    launch.scratch_bytes = interpreter_.ScratchBytes(launch.blocks);
    return launch;
  }
  if (schedule_.lanes > 0) {
    SizeTeams(call.rows(), &launch);
  } else {
    SizeThreads(call.rows(), &launch);
  }
  if (words_.count > kMaxParameterWords) launch.scratch_bytes += words_.count * sizeof(uint64_t);
  return launch;
}

int64_t CudaElementwise::StageBlocks(const Stage& stage, int64_t rows, unsigned threads) const {
  return DivideUp(rows * (stage.outer / stage.width), threads);
}

void CudaElementwise::SizeThreads(int64_t rows, ElementwiseLaunch* launch) const {
  const auto blocks = [&](unsigned threads) {
    int64_t sum = 0;
    for (const Stage& stage : schedule_.stages) sum += StageBlocks(stage, rows, threads);
    return sum;
  };
  launch->threads = kMaxBlockThreads;
  while (launch->threads > kMinBlockThreads && blocks(launch->threads) < kBlocksOfEach * multiprocessors_) {
    launch->threads /= 2;
  }
  launch->blocks = static_cast<unsigned>(std::min(blocks(launch->threads), kMaxBlocks));
}

// Small blocks while there are few rows, so that all multiprocessors have some.
void CudaElementwise::SizeTeams(int64_t rows, ElementwiseLaunch* launch) const {
  const unsigned lanes = static_cast<unsigned>(schedule_.lanes);
  unsigned threads = std::max<unsigned>(kMaxBlockThreads, lanes);
  if (schedule_.lanes > kWarpLanes) threads = lanes;
  const auto shrinks = [&] {
    const int64_t teams = threads / lanes;
    return DivideUp(rows, teams) < kBlocksOfEach * multiprocessors_ ||
           static_cast<size_t>(teams) * schedule_.shared_bytes > kMaxSharedBytes;
  };
  while (threads > kMinBlockThreads && threads > lanes && shrinks()) threads /= 2;
  const unsigned teams = threads / lanes;
  int64_t blocks = std::min(DivideUp(rows, teams), kMaxBlocks);
  if (schedule_.scratch_bytes > 0) blocks = std::min(blocks, kScratchBlocksOfEach * multiprocessors_);
  launch->threads = threads;
  launch->blocks = static_cast<unsigned>(blocks);
  launch->shared_bytes = teams * schedule_.shared_bytes;
  launch->scratch_bytes = static_cast<size_t>(blocks) * teams * schedule_.scratch_bytes;
}

void CudaElementwise::FillWords(const ElementwiseCall& call, const ElementwiseLaunch& launch, void* scratch,
                                uint64_t* words) const {
  words[0] = static_cast<uint64_t>(call.rows());
  words[1] = static_cast<uint64_t>(call.row_axes[1]);
  words[2] = reinterpret_cast<uint64_t>(scratch);
  int64_t first_block = 0;
  for (size_t i = words_.first_blocks; i < words_.pointers; ++i) {
    words[i] = static_cast<uint64_t>(first_block);
    first_block += StageBlocks(schedule_.stages[i - words_.first_blocks], call.rows(), launch.threads);
  }
  uint64_t* next = words + words_.pointers;
  for (int i = 0; i < program_.inputs; ++i) *next++ = reinterpret_cast<uint64_t>(call.inputs[i]);
  for (size_t i = 0; i < program_.outputs.size(); ++i) *next++ = reinterpret_cast<uint64_t>(call.outputs[i]);
}

void CudaElementwise::Launch(const ElementwiseCall& call, const ElementwiseLaunch& launch, void* scratch,
                             cudaStream_t stream) const {
  if (call.rows() == 0) return;
  if (launch.kernel == nullptr) {
    interpreter_.Launch(call.rows(), call.row_axes[1], call.inputs, call.outputs, scratch, launch.blocks, stream);
    return;
  }
  const void* const kernel = reinterpret_cast<const void*>(launch.kernel);
  if (words_.count <= kMaxParameterWords) {
    uint64_t words[kMaxParameterWords];
    FillWords(call, launch, scratch, words);
    void* parameters[] = {words};
    CheckCuda(
        cudaLaunchKernel(kernel, dim3(launch.blocks), dim3(launch.threads), parameters, launch.shared_bytes, stream),
        "the elementwise kernel can't be launched");
    return;
  }
  // Too many for parameters: they lie at the end of the scratch memory.
  std::vector<uint64_t> words(words_.count);
  FillWords(call, launch, scratch, words.data());
  char* table = static_cast<char*>(scratch) + launch.scratch_bytes - words_.count * sizeof(uint64_t);
  WriteDeviceWords(reinterpret_cast<uint64_t*>(table), words.data(), words.size(), stream);
  void* parameters[] = {&table};
  CheckCuda(
      cudaLaunchKernel(kernel, dim3(launch.blocks), dim3(launch.threads), parameters, launch.shared_bytes, stream),
      "the elementwise kernel can't be launched");
}

}  // namespace dpiframe::cuda
