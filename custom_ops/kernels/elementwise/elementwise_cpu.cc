#include "elementwise_cpu.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "builder.h"
#include "memory.h"

namespace dpiframe {
namespace {

const LeafTable& LeavesFor([[maybe_unused]] InstructionSet instruction_set) {
#ifdef DPIFRAME_HAS_X86_FILES
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  if (avx512 && instruction_set == InstructionSet::kBestOfMachine) return Avx512Leaves();
  if (avx2 && instruction_set != InstructionSet::kBaseline) return Avx2Leaves();
#endif
  return BaselineLeaves();
}

int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

template <typename T>
void StoreConstant(T number, char* to) {
  std::memcpy(to, &number, sizeof number);
}

void WriteConstant(const ElementwiseValue& value, char* to) {
  switch (StoredOf(value.type)) {
    case Stored::kDouble:
      return StoreConstant(value.number, to);
    case Stored::kInt32:
      return StoreConstant(static_cast<int32_t>(value.integer), to);
    case Stored::kInt64:
      return StoreConstant(value.integer, to);
    case Stored::kByte:
      return StoreConstant(static_cast<uint8_t>(value.integer), to);
    default:
      return StoreConstant(static_cast<float>(value.number), to);
  }
}

// The rows of a block, where its step repeats those of fewer row axes.
struct BlockRows {
  int64_t first;
  int64_t count;
  int64_t inner;  // size of the second row axis
};

void RunRepeat(const Step& step, LeafArgs args, const BlockRows& rows) {
  const int64_t elements = args.sizes[1];
  const int64_t row_bytes = args.strides[0][0];
  const bool outer = step.repeat == Repeat::kOuterRows;
  char* const from = args.data[1];
  for (int64_t row = 0; row < rows.count;) {
    const int64_t outer_row = (rows.first + row) / rows.inner;
    const int64_t inner_row = (rows.first + row) % rows.inner;
    const int64_t run = std::min(rows.count - row, rows.inner - inner_row);
    args.data[1] = from + (outer ? outer_row : inner_row) * row_bytes;
    if (!outer) {  // a run of rows as it is
      args.sizes[0] = 1;
      args.sizes[1] = run * elements;
    } else if (elements == 1) {
      args.sizes[0] = 1;
      args.sizes[1] = run;
      args.strides[1][1] = 0;
    } else {
      args.sizes[0] = run;
      args.strides[1][0] = 0;
    }
    step.leaf(args);
    args.data[0] += run * row_bytes;
    row += run;
  }
}

void RunLoops(const Step& step, const LeafArgs& args, int64_t row_count, size_t depth) {
  if (depth == step.loops.size()) return step.leaf(args);
  const Loop& loop = step.loops[depth];
  const int64_t size = step.rows_axis == static_cast<int>(depth) ? loop.size * row_count : loop.size;
  LeafArgs inner = args;
  for (int64_t i = 0; i < size; ++i) {
    RunLoops(step, inner, row_count, depth + 1);
    for (int k = 0; k < step.operands; ++k) inner.data[k] += loop.strides[k];
  }
}

void RunStep(const Step& step, char* const* bases, const BlockRows& rows) {
  LeafArgs args = step.args;
  for (int k = 0; k < step.operands; ++k) args.data[k] = bases[step.storages[k]] + step.offsets[k];
  args.indices = step.indices.data();
  if (step.repeat != Repeat::kNone) return RunRepeat(step, args, rows);
  const int leaf_axis = step.rows_axis - static_cast<int>(step.loops.size());
  if (leaf_axis >= 0) args.sizes[leaf_axis] *= rows.count;
  RunLoops(step, args, rows.count, 0);
}

}  // namespace

struct ElementwisePlan::PhaseRun {
  const Phase& phase;
  const std::vector<Storage>& storages;
  char* const* bases;
  int64_t rows;
  int64_t inner_rows;
  std::atomic<bool> failed{false};
};

ElementwisePlan::ElementwisePlan(const ElementwiseProgram& program, const std::vector<const void*>& constant_inputs,
                                 InstructionSet instruction_set, int64_t block_rows) {
  std::vector<bool> is_constant;
  for (const void* input : constant_inputs) is_constant.push_back(input != nullptr);
  ElementwiseBuilder builder(program, is_constant, LeavesFor(instruction_set));
  schedule_ = builder.Build();
  PlanMemory(&schedule_, block_rows);
  char* const memory = static_cast<char*>(constants_.Get(static_cast<size_t>(schedule_.constant_bytes)));
  for (const ElementwiseBuilder::Constant& constant : builder.constants()) {
    WriteConstant(program.values[static_cast<size_t>(constant.value)],
                  memory + schedule_.storages[static_cast<size_t>(constant.storage)].offset);
  }
  constexpr int64_t kNoRows[kPhases] = {};
  const std::unique_ptr<CallMemory> call = TakeMemory();
  SetBases(constant_inputs.data(), nullptr, kNoRows, call.get());
  const PhaseRun run{schedule_.phases[kConstants], schedule_.storages, call->bases.data(), 1, 1};
  RunRows(run, 0, 1);
}

void ElementwisePlan::Run(const ElementwiseCall& call, const TaskRunner& runner) const {
  const int64_t rows[kPhases] = {1, 1, call.row_axes[1], call.row_axes[0], call.row_axes[0] * call.row_axes[1]};
  if (rows[kRows] == 0) return;
  std::unique_ptr<CallMemory> memory = TakeMemory();
  SetBases(call.inputs, call.outputs, rows, memory.get());
  for (int phase = kCall; phase < kPhases; ++phase) {
    if (schedule_.phases[phase].steps.empty()) continue;
    PhaseRun run{schedule_.phases[phase], schedule_.storages, memory->bases.data(), rows[phase], call.row_axes[1]};
    RunPhase(&run, runner);
  }
  GiveBack(std::move(memory));
}

void ElementwisePlan::SetBases(const void* const* inputs, void* const* outputs, const int64_t* phase_rows,
                               CallMemory* memory) const {
  int64_t bytes = schedule_.call_bytes;
  for (const Storage& storage : schedule_.storages) {
    if (storage.kind == StorageKind::kShared && HasRows(storage.phase)) {
      bytes += Aligned(storage.row_bytes * phase_rows[storage.phase]);
    }
  }
  char* const shared = static_cast<char*>(memory->shared.Get(static_cast<size_t>(bytes)));
  char* next = shared + schedule_.call_bytes;
  // Constants are written while the plan is made, and only read after.
  char* const constants = static_cast<char*>(constants_.data());
  memory->bases.resize(schedule_.storages.size());
  for (size_t i = 0; i < schedule_.storages.size(); ++i) {
    const Storage& storage = schedule_.storages[i];
    char*& base = memory->bases[i];
    switch (storage.kind) {
      case StorageKind::kInput:
        base = const_cast<char*>(static_cast<const char*>(inputs[storage.index]));
        break;
      case StorageKind::kOutput:
        base = outputs == nullptr ? nullptr : static_cast<char*>(outputs[storage.index]);
        break;
      case StorageKind::kBlock:
        base = nullptr;
        break;
      case StorageKind::kShared:
        if (!HasRows(storage.phase)) {
          base = (storage.phase == kConstants ? constants : shared) + storage.offset;
        } else {
          base = next;
          next += Aligned(storage.row_bytes * phase_rows[storage.phase]);
        }
        break;
    }
  }
}

void ElementwisePlan::RunPhase(PhaseRun* run, const TaskRunner& runner) {
  const int64_t each = run->phase.rows_per_task;
  if (run->rows <= each) return RunRows(*run, 0, run->rows);
  const auto task = [](void* data, size_t index) {
    PhaseRun& run = *static_cast<PhaseRun*>(data);
    const int64_t each = run.phase.rows_per_task;
    const int64_t begin = static_cast<int64_t>(index) * each;
    try {
      RunRows(run, begin, std::min(begin + each, run.rows));
    } catch (const std::bad_alloc&) {
      run.failed = true;
    }
  };
  runner.run(runner.runner, task, static_cast<size_t>((run->rows + each - 1) / each), run);
  if (run->failed) throw std::bad_alloc();
}

void ElementwisePlan::RunRows(const PhaseRun& run, int64_t begin, int64_t end) {
  static thread_local Scratch scratch;
  const Phase& phase = run.phase;
  const size_t table_bytes = static_cast<size_t>(Aligned(static_cast<int64_t>(run.storages.size() * sizeof(char*))));
  char* const memory = static_cast<char*>(scratch.Get(table_bytes + static_cast<size_t>(phase.block_bytes)));
  char** const bases = reinterpret_cast<char**>(memory);
  for (int64_t first = begin; first < end; first += phase.block_rows) {
    for (const Base& base : phase.bases) {
      const Storage& storage = run.storages[static_cast<size_t>(base.storage)];
      bases[base.storage] = storage.kind == StorageKind::kBlock ? memory + table_bytes + storage.offset
                                                                : run.bases[base.storage] + first * base.bytes_per_row;
    }
    const BlockRows rows{first, std::min(phase.block_rows, end - first), run.inner_rows};
    for (const Step& step : phase.steps) RunStep(step, bases, rows);
  }
}

std::unique_ptr<ElementwisePlan::CallMemory> ElementwisePlan::TakeMemory() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (free_memory_.empty()) return std::make_unique<CallMemory>();
  std::unique_ptr<CallMemory> memory = std::move(free_memory_.back());
  free_memory_.pop_back();
  return memory;
}

void ElementwisePlan::GiveBack(std::unique_ptr<CallMemory> memory) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  free_memory_.push_back(std::move(memory));
}

}  // namespace dpiframe
