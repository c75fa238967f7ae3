#include "schedule.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "costs.h"
#include "homes.h"
#include "kernels/cuda/device/divide_up.h"
#include "maps.h"

namespace dpiframe::cuda {
namespace {

constexpr size_t kAlignment = 16;

int Log2(int number) {
  int log = 0;
  while ((1 << log) < number) ++log;
  return log;
}

// The largest power of two up to `most` that divides a number.
int Divisor(int64_t number, int most) {
  while (number % most != 0) most /= 2;
  return most;
}

// 8 elements at once make 16 bytes of halves; of wider types, 4.
int MaxWidth(const ElementwiseProgram& program) {
  size_t bytes = 1;
  for (int i = 0; i < program.inputs; ++i) {
    bytes = std::max(bytes, ScalarBytes(program.values[static_cast<size_t>(i)].type));
  }
  for (const int output : program.outputs) {
    bytes = std::max(bytes, ScalarBytes(program.values[static_cast<size_t>(output)].type));
  }
  return bytes <= 2 ? 8 : 4;
}

class Scheduler {
 public:
  Scheduler(const ElementwiseProgram& program, int lanes) : program_(program) {
    HomeChooser chooser(program, lanes);
    homes_ = chooser.Choose();
    schedule_.homes = homes_.homes;
    schedule_.used = homes_.used;
    schedule_.places.resize(program.values.size());
    schedule_.lanes = homes_.keeps ? lanes : 0;
  }

  Schedule Make() {
    FindLevels();
    MakeStages();
    for (Stage& stage : schedule_.stages) {
      if (stage.kind == StageKind::kReduction) MapReduction(&stage);
      if (stage.kind == StageKind::kElements) stage.width = WidthFor(program_, stage.outer, schedule_.lanes);
    }
    if (schedule_.lanes > 0) PlaceMemory();
    schedule_.cost = Cost();
    return std::move(schedule_);
  }

 private:
  const ElementwiseValue& ValueAt(int value) const { return program_.values[static_cast<size_t>(value)]; }
  Home& HomeOf(int value) { return schedule_.homes[static_cast<size_t>(value)]; }

  // The first stage that may compute a value, and the first that may read it.
  void FindLevels() {
    levels_.resize(program_.values.size());
    ready_.resize(program_.values.size());
    for (size_t i = 0; i < program_.values.size(); ++i) {
      const ElementwiseValue& value = program_.values[i];
      for (const int operand : value.operands) {
        levels_[i] = std::max(levels_[i], ready_[static_cast<size_t>(operand)]);
      }
      const Home home = schedule_.homes[i];
      const bool loop = home == Home::kShared || (home == Home::kEvery && value.kind == ValueKind::kReduce);
      ready_[i] = levels_[i] + (loop ? 1 : 0);
    }
  }

  void MakeStages() {
    // Stages of a level stand in the order of their keys: singles first.
    using Key = std::tuple<int, StageKind, int64_t, std::vector<int64_t>, std::vector<int>>;
    std::map<Key, Stage> stages;
    const auto elements_at = [&](int level, int64_t elements) -> Stage& {
      Stage& stage = stages[{level, StageKind::kElements, elements, {}, {}}];
      stage.kind = StageKind::kElements;
      stage.outer = elements;
      return stage;
    };
    for (size_t i = 0; i < program_.values.size(); ++i) {
      if (!schedule_.used[i] || schedule_.homes[i] == Home::kNowhere) continue;
      const ElementwiseValue& value = program_.values[i];
      Stage* stage = nullptr;
      if (value.kind == ValueKind::kReduce) {
        const ElementwiseValue& operand = ValueAt(value.operands[0]);
        if (value.elements == 1) {
          stage = &elements_at(levels_[i], operand.elements);
        } else {
          stage = &stages[{levels_[i], StageKind::kReduction, value.elements, operand.sizes, value.axes}];
          stage->kind = StageKind::kReduction;
          stage->outer = value.elements;
          stage->inner = operand.elements / value.elements;
        }
      } else if (schedule_.homes[i] == Home::kEvery) {
        stage = &stages[{levels_[i], StageKind::kSingles, 1, {}, {}}];
        stage->kind = StageKind::kSingles;
      } else {
        stage = &elements_at(levels_[i], value.elements);
      }
      stage->values.push_back(static_cast<int>(i));
    }
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      const size_t output = static_cast<size_t>(program_.outputs[i]);
      elements_at(ready_[output], program_.values[output].elements).outputs.push_back(static_cast<int>(i));
    }
    bool written = false;
    int level = 0;
    for (auto& [key, stage] : stages) {
      // What a level reads, lanes wrote on levels before it.
      if (std::get<0>(key) != level && written) {
        stage.waits = true;
        written = false;
      }
      level = std::get<0>(key);
      for (const int value : stage.values) written |= HomeOf(value) == Home::kShared;
      schedule_.stages.push_back(std::move(stage));
    }
  }

  // Shares the lanes out between results and what each is made of.
  void MapReduction(Stage* stage) const {
    const ReducedRun run = LastRun(program_, ValueAt(stage->values[0]));
    double best = 0;
    for (int outer_lanes = 1; outer_lanes <= schedule_.lanes; outer_lanes *= 2) {
      const int inner_lanes = schedule_.lanes / outer_lanes;
      if (inner_lanes > kWarpLanes) continue;
      for (int width = Divisor(run.length, MaxWidth(program_)); width >= 1; width /= 2) {
        const int64_t outer = Rounds(stage->outer, run.kept ? width : 1, outer_lanes);
        const int64_t inner = Rounds(stage->inner, run.kept ? 1 : width, inner_lanes);
        const double adding = 12.0 * Log2(inner_lanes) * (run.kept ? width : 1);
        const double cost = static_cast<double>(outer) * (static_cast<double>(inner) * (2 * width + 6) + adding + 4);
        if (best != 0 && cost >= best) continue;
        best = cost;
        stage->outer_lanes = outer_lanes;
        stage->inner_lanes = inner_lanes;
        stage->width = width;
        stage->inner_width = !run.kept;
      }
    }
  }

  static int64_t Rounds(int64_t elements, int width, int lanes) {
    const int64_t units = elements / width;
    return (units + lanes - 1) / lanes;
  }

  // Places what is kept in memory; the largest values give way to the others where shared memory doesn't hold all.
  void PlaceMemory() {
    std::vector<int> shared;
    for (size_t i = 0; i < schedule_.homes.size(); ++i) {
      if (schedule_.used[i] && schedule_.homes[i] == Home::kShared) shared.push_back(static_cast<int>(i));
    }
    const auto bytes_of = [&](int value) {
      const size_t bytes = static_cast<size_t>(ValueAt(value).elements) * ScalarBytes(ValueAt(value).type);
      const size_t skewed = bytes + bytes / 128 * 16;
      return (skewed + kAlignment - 1) / kAlignment * kAlignment;
    };
    std::stable_sort(shared.begin(), shared.end(), [&](int a, int b) { return bytes_of(a) < bytes_of(b); });
    // The smallest block has 64 threads.
    const size_t left = kMaxSharedBytes - std::min(kMaxSharedBytes, BytesOfTotals());
    const size_t most = left / static_cast<size_t>(std::max(1, 64 / schedule_.lanes));
    for (const int value : shared) {
      size_t* total = &schedule_.shared_bytes;
      if (*total + bytes_of(value) > most) {
        HomeOf(value) = Home::kScratch;
        total = &schedule_.scratch_bytes;
      }
      schedule_.places[static_cast<size_t>(value)] = *total;
      *total += bytes_of(value);
    }
  }

  // Shared memory in which a whole block's warps add up what reduces a row to one element: see AcrossBlock.
  size_t BytesOfTotals() const {
    if (schedule_.lanes <= kWarpLanes) return 0;
    size_t bytes = 0;
    for (size_t i = 0; i < schedule_.homes.size(); ++i) {
      const bool adds_up =
          ValueAt(static_cast<int>(i)).kind == ValueKind::kReduce && schedule_.homes[i] == Home::kEvery;
      if (schedule_.used[i] && adds_up) bytes += sizeof(double) * static_cast<size_t>(schedule_.lanes / kWarpLanes);
    }
    return bytes;
  }

  // Cycles for a batch that is common when models are served: the instructions that the warps of a quarter of a
  // multiprocessor issue in turn, and what a single one waits for.
  double Cost() const {
    constexpr double kRows = 2048, kQuarters = 528, kLoadLatency = 500, kWaitLatency = 30, kShuffleLatency = 25;
    constexpr double kShortLoop = 128;
    const int lanes = std::max(schedule_.lanes, 1);
    double issued = 0;
    double latency = 0;
    for (const Stage& stage : schedule_.stages) {
      double rounds = 1;
      double shuffles = 0;
      if (stage.kind == StageKind::kElements) {
        rounds = static_cast<double>(Rounds(stage.outer, stage.width, lanes));
        for (const int value : stage.values) {
          if (ValueAt(value).kind == ValueKind::kReduce) shuffles = Log2(lanes) + (lanes > kWarpLanes ? 4 : 0);
        }
      } else if (stage.kind == StageKind::kReduction) {
        const int64_t outer = Rounds(stage.outer, stage.inner_width ? 1 : stage.width, stage.outer_lanes);
        rounds =
            static_cast<double>(outer * Rounds(stage.inner, stage.inner_width ? stage.width : 1, stage.inner_lanes));
        shuffles = static_cast<double>(outer) * Log2(stage.inner_lanes);
      }
      const double body = homes_.costs.count(KeyOf(stage)) != 0 ? homes_.costs.at(KeyOf(stage)) : 1;
      issued += rounds * (stage.width * body + 2) + 2 * shuffles;
      const bool apart =
          rounds * body <= kShortLoop && rounds <= kApartRounds && rounds * stage.width <= kApartRegisters;
      latency += kLoadLatency * (apart ? 1 : 1 + (rounds - 1) / 8) + kShuffleLatency * shuffles;
      latency += stage.waits ? kWaitLatency : 0;
    }
    const double warps = kRows * lanes / kWarpLanes / kQuarters;
    // Rows that neighbouring lanes read far from each other come in pieces of 16 bytes.
    const double scattered = lanes < 8 ? 1 + 0.5 * (3 - Log2(lanes)) : 1;
    // A multiprocessor's threads share its memory.
    const double crowded = std::max(1.0, static_cast<double>(schedule_.shared_bytes) / lanes / 200);
    const double spilled = schedule_.scratch_bytes > 0 ? 4 : 1;
    return (latency + std::max(1.0, warps) * issued * scattered) * crowded * spilled;
  }

  std::string KeyOf(const Stage& stage) const {
    if (stage.kind != StageKind::kReduction) return LoopKey(stage.outer);
    return LoopKey(program_, ValueAt(stage.values[0]));
  }

  const ElementwiseProgram& program_;
  ChosenHomes homes_;
  std::vector<int> levels_;
  std::vector<int> ready_;
  Schedule schedule_;
};

}  // namespace

int WidthFor(const ElementwiseProgram& program, int64_t elements, int lanes) {
  const int most = Divisor(elements, MaxWidth(program));
  if (lanes == 0) return most;
  // As many lanes take part as there are elements for; of widths that leave a lane with about as many, the largest.
  const auto share = [&](int width) { return DivideUp(elements / width, lanes) * width; };
  int best = most;
  for (int width = most / 2; width >= 1; width /= 2) {
    if (share(width) < share(best) - share(best) / 16) best = width;
  }
  return best;
}

Schedule MakeSchedule(const ElementwiseProgram& program, int lanes) { return Scheduler(program, lanes).Make(); }

Schedule MakeSchedule(const ElementwiseProgram& program) {
  Schedule best;
  for (const int lanes : {1, 2, 4, 8, 16, 32, 128, 256, 512}) {
    Schedule schedule = MakeSchedule(program, lanes);
    if (best.stages.empty() || schedule.cost < best.cost) best = std::move(schedule);
    if (best.lanes == 0) break;
  }
  return best;
}

}  // namespace dpiframe::cuda
