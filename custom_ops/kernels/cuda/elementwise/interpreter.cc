#include "interpreter.h"

#include <algorithm>

#include "interpreter_launch.h"
#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/device/device_scope.h"
#include "kernels/cuda/device/device_words.h"

namespace dpiframe::cuda {
namespace {

constexpr size_t kSectionAlignment = 256;
constexpr int64_t kBlocksOfEach = 8;  // multiprocessor
constexpr uint64_t kMaxMemory = uint64_t{256} << 20;

size_t Aligned(size_t bytes) { return (bytes + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment; }

template <typename Record>
size_t BytesOf(const std::vector<Record>& records) {
  return Aligned(records.size() * sizeof(Record));
}

}  // namespace

size_t ElementwiseInterpreter::device_bytes() const {
  return BytesOf(steps_.steps) + BytesOf(steps_.operands) + BytesOf(steps_.tables) + kSectionAlignment;
}

void ElementwiseInterpreter::Upload(void* memory) {
  const int device = DeviceOf(memory);
  const DeviceScope scope(device);
  char* next = reinterpret_cast<char*>(Aligned(reinterpret_cast<size_t>(memory)));
  const auto place = [&](const auto& records) {
    using Record = typename std::decay_t<decltype(records)>::value_type;
    if (!records.empty()) scope.CopyToDevice(next, records.data(), records.size() * sizeof(Record));
    const Record* const at = reinterpret_cast<const Record*>(next);
    next += BytesOf(records);
    return at;
  };
  arguments_.steps = place(steps_.steps);
  arguments_.operands = place(steps_.operands);
  arguments_.tables = place(steps_.tables);
  arguments_.step_count = static_cast<uint32_t>(steps_.steps.size());
  arguments_.input_count = static_cast<uint32_t>(steps_.inputs);
  arguments_.memory_bytes = Aligned(steps_.memory_bytes);
  CheckCuda(LoadInterpreter(), "the elementwise interpreter can't be loaded");
}

unsigned ElementwiseInterpreter::BlocksFor(int64_t rows, int64_t multiprocessors) const {
  const int64_t fit = static_cast<int64_t>(kMaxMemory / std::max<uint64_t>(Aligned(steps_.memory_bytes), 1));
  return static_cast<unsigned>(
      std::clamp<int64_t>(std::min({rows, fit, kBlocksOfEach * multiprocessors}), 1, INT32_MAX));
}

size_t ElementwiseInterpreter::ScratchBytes(unsigned blocks) const {
  return Aligned(AddressBytes()) + blocks * Aligned(steps_.memory_bytes);
}

void ElementwiseInterpreter::Launch(int64_t rows, int64_t inner_rows, const void* const* inputs, void* const* outputs,
                                    void* scratch, unsigned blocks, const Launcher& launcher) const {
  std::vector<uint64_t> addresses;
  for (size_t i = 0; i < steps_.inputs; ++i) addresses.push_back(reinterpret_cast<uint64_t>(inputs[i]));
  for (size_t i = 0; i < steps_.outputs; ++i) addresses.push_back(reinterpret_cast<uint64_t>(outputs[i]));
  uint64_t* const table = static_cast<uint64_t*>(scratch);
  WriteDeviceWords(table, addresses.data(), addresses.size(), launcher);
  InterpreterArguments arguments = arguments_;
  arguments.rows = rows;
  arguments.inner_rows = inner_rows;
  arguments.memory = static_cast<char*>(scratch) + Aligned(AddressBytes());
  arguments.addresses = table;
  CheckCuda(LaunchInterpreter(blocks, arguments, launcher), "the elementwise interpreter can't be launched");
}

}  // namespace dpiframe::cuda
