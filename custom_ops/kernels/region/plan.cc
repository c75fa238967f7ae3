#include "plan.h"

#include <algorithm>

namespace dpiframe {
namespace {

constexpr int kNone = -1;

// For each stream, up to which step of each other stream it is known to be done whatever runs next on it.
class Progress {
 public:
  Progress(size_t streams, size_t steps) : streams_(streams), known_(streams, Row(streams)), at_(steps) {}

  bool Covers(int stream, int other, int step) const { return known_[Index(stream)].done[Index(other)] >= step; }
  bool forked(int stream) const { return known_[Index(stream)].forked; }

  void WaitFor(int stream, int step) {
    Row& mine = known_[Index(stream)];
    const Row& theirs = at_[Index(step)];
    for (size_t i = 0; i < streams_; ++i) mine.done[i] = std::max(mine.done[i], theirs.done[i]);
    mine.forked = mine.forked || theirs.forked;
  }
  void WaitForFork(int stream) { known_[Index(stream)].forked = true; }
  void Run(int stream, int step) {
    known_[Index(stream)].done[Index(stream)] = step;
    at_[Index(step)] = known_[Index(stream)];
  }

 private:
  struct Row {
    Row() = default;
    explicit Row(size_t streams) : done(streams, kNone) {}
    std::vector<int> done;
    bool forked = false;
  };
  static size_t Index(int i) { return static_cast<size_t>(i); }

  size_t streams_;
  std::vector<Row> known_;  // by stream: now
  std::vector<Row> at_;     // by step: at its end
};

// Values whose makers and readers are all on one stream end with the last of them.
void PlanMemory(const RegionProgram& program, const std::vector<int>& maker, std::vector<RegionStep>* steps) {
  std::vector<int> last = maker;
  std::vector<bool> stays(maker.size());  // on its maker's stream
  for (size_t value = 0; value < maker.size(); ++value) stays[value] = maker[value] != kNone;
  for (size_t step = 0; step < program.nodes.size(); ++step) {
    for (const int value : program.nodes[step].operands) {
      const size_t index = static_cast<size_t>(value);
      if (!stays[index]) continue;
      last[index] = static_cast<int>(step);
      stays[index] = program.nodes[static_cast<size_t>(maker[index])].stream == program.nodes[step].stream;
    }
  }
  for (const int value : program.outputs) stays[static_cast<size_t>(value)] = false;
  for (size_t value = 0; value < maker.size(); ++value) {
    if (stays[value]) (*steps)[static_cast<size_t>(last[value])].done.push_back(static_cast<int>(value));
  }
}

}  // namespace

RegionPlan PlanRegion(const RegionProgram& program) {
  RegionPlan plan;
  plan.streams = program.streams;
  std::vector<int> maker(static_cast<size_t>(program.values), kNone);
  Progress progress(static_cast<size_t>(program.streams), program.nodes.size());
  progress.WaitForFork(0);  // the caller's own stream
  std::vector<int> last(static_cast<size_t>(program.streams), kNone);
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const RegionNode& node = program.nodes[i];
    RegionStep step{node.stream, {}, false, false, {}};
    std::vector<int> makers;
    for (const int value : node.operands) {
      if (maker[static_cast<size_t>(value)] != kNone) makers.push_back(maker[static_cast<size_t>(value)]);
    }
    // The latest first: what it waited for needs no waiting of its own.
    std::sort(makers.rbegin(), makers.rend());
    for (const int before : makers) {
      const int other = program.nodes[static_cast<size_t>(before)].stream;
      if (other == node.stream || progress.Covers(node.stream, other, before)) continue;
      step.waits.push_back(before);
      plan.steps[static_cast<size_t>(before)].is_awaited = true;
      progress.WaitFor(node.stream, before);
    }
    if (!progress.forked(node.stream)) {
      step.waits_for_fork = plan.forks = true;
      progress.WaitForFork(node.stream);
    }
    progress.Run(node.stream, static_cast<int>(i));
    last[static_cast<size_t>(node.stream)] = static_cast<int>(i);
    for (const int value : node.results) maker[static_cast<size_t>(value)] = static_cast<int>(i);
    plan.steps.push_back(step);
  }
  for (int stream = 1; stream < program.streams; ++stream) {
    const int end = last[static_cast<size_t>(stream)];
    if (end == kNone || progress.Covers(0, stream, end)) continue;
    plan.ends.push_back(end);
    plan.steps[static_cast<size_t>(end)].is_awaited = true;
  }
  PlanMemory(program, maker, &plan.steps);
  return plan;
}

}  // namespace dpiframe
