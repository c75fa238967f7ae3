#include "steps.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "kernels/half.h"
#include "maps.h"

namespace dpiframe::cuda {
namespace {

constexpr uint64_t kAlignment = 16;

// Memory of a block, given out and taken back as values come and go.
class Memory {
 public:
  uint64_t Take(uint64_t bytes) {
    bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    for (auto free = free_.begin(); free != free_.end(); ++free) {
      if (free->second < bytes) continue;
      const uint64_t place = free->first;
      const uint64_t left = free->second - bytes;
      free_.erase(free);
      if (left > 0) free_[place + bytes] = left;
      taken_[place] = bytes;
      return place;
    }
    const uint64_t place = end_;
    end_ += bytes;
    taken_[place] = bytes;
    return place;
  }

  void GiveBack(uint64_t place) {
    auto own = free_.emplace(place, taken_.at(place)).first;
    taken_.erase(place);
    const auto next = std::next(own);
    if (next != free_.end() && own->first + own->second == next->first) {
      own->second += next->second;
      free_.erase(next);
    }
    if (own == free_.begin()) return;
    const auto before = std::prev(own);
    if (before->first + before->second == own->first) {
      before->second += own->second;
      free_.erase(own);
    }
  }

  uint64_t end() const { return end_; }

 private:
  std::map<uint64_t, uint64_t> free_;
  std::map<uint64_t, uint64_t> taken_;
  uint64_t end_ = 0;
};

uint64_t ConstBits(const ElementwiseValue& value) {
  uint64_t bits = 0;
  const auto copy = [&](auto number) { std::memcpy(&bits, &number, sizeof number); };
  switch (value.type) {
    case ScalarType::kFloat32:
      copy(static_cast<float>(value.number));
      break;
    case ScalarType::kFloat16:
      copy(FloatToHalf(static_cast<float>(value.number)));
      break;
    case ScalarType::kFloat64:
      copy(value.number);
      break;
    case ScalarType::kInt32:
      copy(static_cast<int32_t>(value.integer));
      break;
    case ScalarType::kInt64:
      copy(value.integer);
      break;
    case ScalarType::kBool:
      copy(static_cast<uint8_t>(value.integer));
      break;
  }
  return bits;
}

class Builder {
 public:
  explicit Builder(const ElementwiseProgram& program) : program_(program), last_(program.values.size(), -1) {}

  InterpreterSteps Build() {
    made_.inputs = static_cast<size_t>(program_.inputs);
    made_.outputs = program_.outputs.size();
    FindLastReaders();
    places_.resize(program_.values.size());
    for (int i = program_.inputs; i < Count(); ++i) {
      if (last_[static_cast<size_t>(i)] < 0) continue;
      AddValue(i);
      // An operand's memory is free only behind the step, which reads it while it writes.
      std::vector<int> operands = ValueAt(i).operands;
      std::sort(operands.begin(), operands.end());
      operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
      for (const int operand : operands) {
        if (operand >= program_.inputs && last_[static_cast<size_t>(operand)] == i) {
          memory_.GiveBack(places_[static_cast<size_t>(operand)]);
        }
      }
    }
    for (size_t i = 0; i < program_.outputs.size(); ++i) AddOutput(i);
    made_.memory_bytes = memory_.end();
    return std::move(made_);
  }

 private:
  int Count() const { return static_cast<int>(program_.values.size()); }
  const ElementwiseValue& ValueAt(int value) const { return program_.values[static_cast<size_t>(value)]; }

  // The last line that reads each value: Count() for outputs, which are written at the end, and -1 for what no output
  // needs.
  void FindLastReaders() {
    for (const int output : program_.outputs) last_[static_cast<size_t>(output)] = Count();
    for (int i = Count() - 1; i >= 0; --i) {
      if (last_[static_cast<size_t>(i)] < 0) continue;
      for (const int operand : ValueAt(i).operands) {
        int& last = last_[static_cast<size_t>(operand)];
        last = std::max(last, i);
      }
    }
  }

  InterpreterStep NewStep(StepKind kind, int number) {
    const ElementwiseValue& value = ValueAt(number);
    InterpreterStep step{};
    step.kind = kind;
    step.type = value.type;
    step.from = value.type;
    step.rank = static_cast<int32_t>(value.sizes.size());
    for (size_t i = 0; i < value.sizes.size(); ++i) step.sizes[i] = static_cast<int32_t>(value.sizes[i]);
    step.elements = static_cast<uint32_t>(value.elements);
    step.first_operand = static_cast<uint32_t>(made_.operands.size());
    return step;
  }

  StepOperand& AddOperand(InterpreterStep* step, int number) {
    const ElementwiseValue& value = ValueAt(number);
    StepOperand operand{};
    operand.input = number < program_.inputs ? number : -1;
    operand.mask = value.row_axes;
    operand.place = number < program_.inputs ? static_cast<uint64_t>(value.elements) * ScalarBytes(value.type)
                                             : places_[static_cast<size_t>(number)];
    step->from = value.type;
    ++step->operands;
    made_.operands.push_back(operand);
    return made_.operands.back();
  }

  void AddValue(int number) {
    const ElementwiseValue& value = ValueAt(number);
    static constexpr StepKind kKinds[] = {StepKind::kConst,   StepKind::kConst, StepKind::kOperator, StepKind::kCast,
                                          StepKind::kStrided, StepKind::kPick,  StepKind::kJoin,     StepKind::kReduce};
    InterpreterStep step = NewStep(kKinds[static_cast<int>(value.kind)], number);
    step.result = memory_.Take(static_cast<uint64_t>(value.elements) * ScalarBytes(value.type));
    places_[static_cast<size_t>(number)] = step.result;
    switch (value.kind) {
      case ValueKind::kInput:
        break;
      case ValueKind::kConst:
        step.bits = ConstBits(value);
        break;
      case ValueKind::kOperator:
        step.rule = static_cast<uint8_t>(value.op);
        for (const int operand : value.operands) SetBroadcast(value, operand, &AddOperand(&step, operand));
        break;
      case ValueKind::kCast:
        SetBroadcast(value, value.operands[0], &AddOperand(&step, value.operands[0]));
        break;
      case ValueKind::kView: {
        step.offset = static_cast<int32_t>(value.offset);
        StepOperand& operand = AddOperand(&step, value.operands[0]);
        for (size_t i = 0; i < value.strides.size(); ++i) operand.strides[i] = static_cast<int32_t>(value.strides[i]);
        break;
      }
      case ValueKind::kPick:
        AddOperand(&step, value.operands[0]);
        step.table = static_cast<uint32_t>(made_.tables.size());
        for (const int64_t index : value.indices) made_.tables.push_back(static_cast<int32_t>(index));
        break;
      case ValueKind::kJoin:
        SetJoin(value, &step);
        break;
      case ValueKind::kReduce:
        SetReduction(value, &step);
        break;
    }
    made_.steps.push_back(step);
  }

  void SetBroadcast(const ElementwiseValue& value, int number, StepOperand* operand) const {
    const std::vector<int64_t>& sizes = ValueAt(number).sizes;
    const size_t missing = value.sizes.size() - sizes.size();
    int64_t stride = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
      operand->strides[missing + i] = sizes[i] == 1 ? 0 : static_cast<int32_t>(stride);
      stride *= sizes[i];
    }
  }

  void SetJoin(const ElementwiseValue& value, InterpreterStep* step) {
    for (const int operand : value.operands) AddOperand(step, operand);
    const JoinShape shape = ShapeOfJoin(program_, value);
    step->behind = static_cast<uint32_t>(shape.behind);
    step->table = static_cast<uint32_t>(made_.tables.size());
    for (const int64_t first : shape.firsts) made_.tables.push_back(static_cast<int32_t>(first * shape.behind));
  }

  // Axes that stay, then axes that are reduced, each with their steps in the operand.
  void SetReduction(const ElementwiseValue& value, InterpreterStep* step) {
    const ElementwiseValue& operand = ValueAt(value.operands[0]);
    step->rule = static_cast<uint8_t>(value.reduce);
    step->rank = 0;
    step->inner = static_cast<uint32_t>(operand.elements / value.elements);
    AddOperand(step, value.operands[0]);
    AddOperand(step, value.operands[0]);
    StepOperand* const kept = &made_.operands[step->first_operand];
    StepOperand* const reduced = kept + 1;
    std::vector<int64_t> strides(operand.sizes.size(), 1);
    for (size_t i = strides.size(); i-- > 1;) strides[i - 1] = strides[i] * operand.sizes[i];
    for (size_t i = 0; i < operand.sizes.size(); ++i) {
      const bool is_reduced = std::binary_search(value.axes.begin(), value.axes.end(), static_cast<int>(i));
      int32_t& rank = is_reduced ? step->inner_rank : step->rank;
      (is_reduced ? step->inner_sizes : step->sizes)[rank] = static_cast<int32_t>(operand.sizes[i]);
      (is_reduced ? reduced : kept)->strides[rank] = static_cast<int32_t>(strides[i]);
      ++rank;
    }
  }

  void AddOutput(size_t output) {
    const int number = program_.outputs[output];
    InterpreterStep step = NewStep(StepKind::kOutput, number);
    AddOperand(&step, number);
    step.result = output;
    made_.steps.push_back(step);
  }

  const ElementwiseProgram& program_;
  std::vector<int> last_;
  std::vector<uint64_t> places_;
  Memory memory_;
  InterpreterSteps made_;
};

}  // namespace

InterpreterSteps MakeSteps(const ElementwiseProgram& program) { return Builder(program).Build(); }

}  // namespace dpiframe::cuda
