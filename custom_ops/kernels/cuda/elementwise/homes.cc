#include "homes.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "costs.h"
#include "maps.h"

namespace dpiframe::cuda {
namespace {

constexpr const char* kElement = "i";
constexpr int64_t kShortReduction = 4;     // computed by each reader
constexpr int64_t kLoopReduction = 64;     // the longest that a reader computes where it is the only one
constexpr int64_t kFewResults = 64;        // so many keep all lanes busy without sharing a result's elements
constexpr int64_t kMaxLaneRegisters = 32;  // of a value
constexpr int64_t kMaxAllRegisters = 96;   // of all
constexpr int64_t kMaxStagedBytes = 8192;  // of an input
constexpr size_t kManyReads = 48;
constexpr double kReadCost = 3, kWriteCost = 2, kWaitCost = 64;
constexpr double kFar = 1.5;

}  // namespace

std::string LoopKey(int64_t elements) { return "e" + std::to_string(elements); }

std::string LoopKey(const ElementwiseProgram& program, const ElementwiseValue& reduction) {
  const ElementwiseValue& operand = program.values[static_cast<size_t>(reduction.operands[0])];
  if (reduction.elements == 1) return LoopKey(operand.elements);
  std::string key = "r";
  for (const int64_t size : operand.sizes) key += std::to_string(size) + ",";
  for (const int axis : reduction.axes) key += "/" + std::to_string(axis);
  return key;
}

bool HomeChooser::Loop::operator<(const Loop& other) const {
  return std::tie(key, depth) < std::tie(other.key, other.depth);
}

HomeChooser::HomeChooser(const ElementwiseProgram& program, int lanes)
    : program_(program), lanes_(lanes), whole_costs_(WholeCosts(program)), reads_(program.values.size()) {
  chosen_.homes.resize(program.values.size(), Home::kNowhere);
  chosen_.used.resize(program.values.size());
}

ChosenHomes HomeChooser::Choose() {
  FindDepths();
  for (const int output : program_.outputs) {
    const int64_t elements = ValueAt(output).elements;
    const Loop loop = ElementLoop(elements, depths_[static_cast<size_t>(output)]);
    AddRead(output, loop, Index::Variable(kElement, elements), static_cast<double>(elements));
  }
  for (size_t i = program_.values.size(); i-- > 0;) {
    if (reads_[i].empty()) continue;
    const int value = static_cast<int>(i);
    const Home home = HomeFor(value);
    chosen_.used[i] = true;
    chosen_.homes[i] = home;
    chosen_.keeps |= home != Home::kNowhere && (value >= program_.inputs || home != Home::kEvery);
    ReadOperands(value, home);
    if (value >= program_.inputs) reads_[i].clear();
  }
  if (chosen_.keeps) {
    FetchEarly();
  } else {
    std::fill(chosen_.homes.begin(), chosen_.homes.end(), Home::kNowhere);
  }
  for (const auto& [key, instructions] : instructions_) chosen_.costs[key] = instructions / rounds_[key];
  return std::move(chosen_);
}

void HomeChooser::FindDepths() {
  for (const ElementwiseValue& value : program_.values) {
    int depth = 0;
    for (const int operand : value.operands) depth = std::max(depth, depths_[static_cast<size_t>(operand)]);
    if (value.kind == ValueKind::kReduce) {
      ++depth;
      has_reductions_ = true;
    }
    depths_.push_back(depth);
  }
}

HomeChooser::Loop HomeChooser::ElementLoop(int64_t elements, int depth) const {
  return {LoopKey(elements), elements, static_cast<double>(elements), depth};
}

void HomeChooser::AddRead(int value, const Loop& loop, const Index& index, double times) {
  std::map<std::string, Read>& reads = reads_[static_cast<size_t>(value)];
  const std::string key = loop.key + "@" + std::to_string(loop.depth) + ":" + index.Key();
  const auto found = reads.find(key);
  if (found == reads.end() && reads.size() <= kManyReads) {
    reads.emplace(key, Read{loop, index, times});
  } else if (found == reads.end()) {
    reads.begin()->second.times += times;
  } else {
    found->second.times = std::max(found->second.times, times);
  }
}

Home HomeChooser::HomeFor(int number) {
  const ElementwiseValue& value = ValueAt(number);
  if (value.kind == ValueKind::kConst) return Home::kNowhere;
  double times = 0;
  for (const auto& [key, read] : reads_[static_cast<size_t>(number)]) times += read.times;
  if (value.kind == ValueKind::kReduce) return HomeOfReduction(number, times);
  if (value.kind == ValueKind::kView || value.kind == ValueKind::kPick) return Home::kNowhere;
  if (value.elements == 1) {
    const auto& reads = reads_[static_cast<size_t>(number)];
    const bool in_loops = reads.size() > 1 || reads.begin()->second.loop.elements != 1;
    // An input is under way while reductions add up.
    const bool keeps = value.kind == ValueKind::kInput || (value.kind != ValueKind::kJoin && in_loops);
    return keeps && has_reductions_ ? Home::kEvery : Home::kNowhere;
  }
  std::set<Loop> loops;
  if (has_reductions_ && ReadInOwnLoops(number, &loops) && loops.size() > 1 && TakeRegisters(value)) return Home::kLane;
  return PaysInMemory(number, times) ? Home::kShared : Home::kNowhere;
}

Home HomeChooser::HomeOfReduction(int number, double times) const {
  const ElementwiseValue& value = ValueAt(number);
  const int64_t inner = ValueAt(value.operands[0]).elements / value.elements;
  const double elements = static_cast<double>(value.elements);
  if (inner <= kShortReduction && times <= 2 * elements * lanes_) return Home::kNowhere;
  if (value.elements == 1) return Home::kEvery;
  const bool read_once = reads_[static_cast<size_t>(number)].size() == 1 && times <= elements;
  if (read_once && inner <= kLoopReduction && times >= static_cast<double>(kFewResults)) return Home::kNowhere;
  return Home::kShared;
}

// Whether all readers are loops over the value's own elements, and which.
bool HomeChooser::ReadInOwnLoops(int number, std::set<Loop>* loops) const {
  const ElementwiseValue& value = ValueAt(number);
  for (const auto& [key, read] : reads_[static_cast<size_t>(number)]) {
    if (read.loop.elements != value.elements || !read.index.IsVariable(kElement, value.elements, 1)) return false;
    loops->insert(read.loop);
  }
  return true;
}

bool HomeChooser::TakeRegisters(const ElementwiseValue& value) {
  const int width = WidthFor(program_, value.elements, lanes_);
  const int64_t rounds = (value.elements / width + lanes_ - 1) / lanes_;
  const int64_t registers = rounds * width * (ScalarBytes(value.type) == 8 ? 2 : 1);
  if (registers > kMaxLaneRegisters || lane_registers_ + registers > kMaxAllRegisters) return false;
  lane_registers_ += registers;
  return true;
}

// Inputs that are first read behind a reduction: loads that wait for nothing are under way while it adds up.
void HomeChooser::FetchEarly() {
  for (int i = 0; i < program_.inputs; ++i) {
    const size_t number = static_cast<size_t>(i);
    if (!chosen_.used[number] || chosen_.homes[number] != Home::kNowhere || ValueAt(i).elements == 1) continue;
    const auto& reads = reads_[number];
    if (std::any_of(reads.begin(), reads.end(), [](const auto& read) { return read.second.loop.depth == 0; })) continue;
    std::set<Loop> loops;
    if (ReadInOwnLoops(i, &loops) && TakeRegisters(ValueAt(i))) chosen_.homes[number] = Home::kLane;
  }
}

bool HomeChooser::PaysInMemory(int number, double times) const {
  const ElementwiseValue& value = ValueAt(number);
  const double elements = static_cast<double>(value.elements);
  const auto& reads = reads_[static_cast<size_t>(number)];
  if (value.kind == ValueKind::kInput) {
    // Worth its while where lanes have loops of their own over it; else each read is one access of all lanes.
    const int64_t bytes = value.elements * static_cast<int64_t>(ScalarBytes(value.type));
    const bool in_own_loops = std::any_of(reads.begin(), reads.end(),
                                          [](const auto& read) { return read.second.times > read.second.loop.rounds; });
    return in_own_loops && value.row_axes != 0 && bytes <= kMaxStagedBytes && times >= 3 * elements;
  }
  if (reads.size() > kManyReads) return true;
  const double cost = whole_costs_[static_cast<size_t>(number)];
  // Shared memory doesn't hold it: the L2 cache does, at best.
  const bool far = elements * static_cast<double>(ScalarBytes(value.type)) > static_cast<double>(kMaxSharedBytes);
  return cost * (times - elements) > (kReadCost * times + kWriteCost * elements) * (far ? kFar : 1) + kWaitCost;
}

void HomeChooser::ReadOperands(int number, Home home) {
  const ElementwiseValue& value = ValueAt(number);
  const double own = OwnCost(value);
  if (home == Home::kNowhere) {
    for (const auto& [key, read] : reads_[static_cast<size_t>(number)]) {
      instructions_[read.loop.key] += own * read.times;
      rounds_[read.loop.key] = read.loop.rounds;
      ReadThrough(number, read);
    }
    return;
  }
  if (home == Home::kShared) {
    for (const auto& [key, read] : reads_[static_cast<size_t>(number)]) {
      instructions_[read.loop.key] += kReadCost / 2 * read.times;
    }
  }
  const int depth = depths_[static_cast<size_t>(number)];
  if (value.kind != ValueKind::kReduce) {
    const Loop loop = ElementLoop(value.elements, depth);
    const double times = static_cast<double>(value.elements);
    instructions_[loop.key] += own * times;
    rounds_[loop.key] = loop.rounds;
    ReadThrough(number, {loop, Index::Variable(kElement, value.elements), times});
    return;
  }
  const ElementwiseValue& operand = ValueAt(value.operands[0]);
  Loop loop = ElementLoop(operand.elements, depth - 1);
  Index index = Index::Variable(kElement, operand.elements);
  if (value.elements > 1) {
    loop.key = LoopKey(program_, value);
    loop.elements = 0;
    index = ReducedIndex(program_, value, Index::Variable("o", value.elements),
                         Index::Variable("r", operand.elements / value.elements));
  }
  instructions_[loop.key] += own * loop.rounds;
  rounds_[loop.key] = loop.rounds;
  AddRead(value.operands[0], loop, index, loop.rounds);
}

// What a reader of a value that is computed there reads of the value's operands.
void HomeChooser::ReadThrough(int number, const Read& read) {
  const ElementwiseValue& value = ValueAt(number);
  const std::string name = std::to_string(number);
  switch (value.kind) {
    case ValueKind::kInput:
    case ValueKind::kConst:
      return;
    case ValueKind::kOperator:
    case ValueKind::kCast:
    case ValueKind::kView:
      for (size_t i = 0; i < value.operands.size(); ++i) {
        AddRead(value.operands[i], read.loop, OperandIndex(program_, value, static_cast<int>(i), read.index),
                read.times);
      }
      return;
    case ValueKind::kPick: {
      const int64_t bound = ValueAt(value.operands[0]).elements;
      AddRead(value.operands[0], read.loop, Index::Variable("p" + name + "[" + read.index.Text() + "]", bound),
              read.times);
      return;
    }
    case ValueKind::kJoin: {
      const JoinShape shape = ShapeOfJoin(program_, value);
      for (size_t i = 0; i < value.operands.size(); ++i) {
        const double share = static_cast<double>(shape.firsts[i + 1] - shape.firsts[i]);
        AddRead(value.operands[i], read.loop, PartIndex(shape, i, read.index),
                read.times * share / static_cast<double>(shape.joined));
      }
      return;
    }
    case ValueKind::kReduce: {
      const int64_t inner = ValueAt(value.operands[0]).elements / value.elements;
      AddRead(value.operands[0], read.loop,
              ReducedIndex(program_, value, read.index, Index::Variable("s" + name, inner)),
              read.times * static_cast<double>(inner));
      return;
    }
  }
}

}  // namespace dpiframe::cuda
