#include "grid.h"

#include <algorithm>

#include "kernels/cuda/device/divide_up.h"

namespace dpiframe::cuda {
namespace {

constexpr unsigned kMinThreads = 128;  // of a block without teams
constexpr unsigned kMinTeamThreads = 64;
constexpr int64_t kBlocksOfEach = 4;                     // multiprocessor, before blocks without teams grow
constexpr unsigned kRegistersOfEach = 1 << 16;           // multiprocessor
constexpr unsigned kBlocksAtOnce = 4;                    // of a multiprocessor's registers
constexpr int64_t kScratchBlocksOfEach = 8;              // at most, where each block has memory of its own,
constexpr size_t kMostScratchBytes = size_t{256} << 20;  // and no more than this of it in all, but for a single block's
constexpr int64_t kMostRuns = int64_t{1} << 30;

Grid GridOfThreads(const Schedule& schedule, int64_t rows, int64_t multiprocessors) {
  Grid grid;
  const auto blocks = [&] {
    int64_t sum = 0;
    for (const Stage& stage : schedule.stages) sum += StageBlocks(stage, rows, grid.threads);
    return sum;
  };
  grid.threads = kTeamBlockThreads;
  while (grid.threads > kMinThreads && blocks() < kBlocksOfEach * multiprocessors) grid.threads /= 2;
  grid.blocks = static_cast<unsigned>(blocks());
  return grid;
}

// Small blocks while there are few rows, so that most multiprocessors have some, and where threads have many registers:
// of a few large blocks at a time, the last threads would hold up the next block. Else large ones: a GPU starts a block
// a nanosecond.
Grid GridOfTeams(const Schedule& schedule, int registers, int64_t rows, int64_t multiprocessors) {
  const unsigned lanes = static_cast<unsigned>(schedule.lanes);
  Grid grid;
  grid.threads = schedule.lanes > kWarpLanes ? lanes : kTeamBlockThreads;
  const auto shrinks = [&] {
    const int64_t teams = grid.threads / lanes;
    return DivideUp(rows, teams) < multiprocessors * 3 / 4 ||
           grid.threads * static_cast<unsigned>(registers) > kRegistersOfEach / kBlocksAtOnce ||
           static_cast<size_t>(teams) * schedule.shared_bytes > kMaxSharedBytes;
  };
  while (grid.threads > kMinTeamThreads && grid.threads > lanes && shrinks()) grid.threads /= 2;
  const unsigned teams = grid.threads / lanes;
  int64_t blocks = DivideUp(rows, teams);
  if (schedule.scratch_bytes > 0) {
    const int64_t fit = static_cast<int64_t>(kMostScratchBytes / (teams * schedule.scratch_bytes));
    blocks = std::min({blocks, kScratchBlocksOfEach * multiprocessors, std::max<int64_t>(fit, 1)});
  }
  grid.blocks = static_cast<unsigned>(blocks);
  grid.shared_bytes = teams * schedule.shared_bytes;
  grid.scratch_bytes = static_cast<size_t>(blocks) * teams * schedule.scratch_bytes;
  return grid;
}

}  // namespace

int64_t StageBlocks(const Stage& stage, int64_t rows, unsigned threads) {
  return DivideUp(rows * (stage.outer / stage.width), threads);
}

int64_t MostRows(const Schedule& schedule) {
  int64_t runs = 1;
  if (schedule.lanes == 0) {
    for (const Stage& stage : schedule.stages) runs = std::max(runs, stage.outer / stage.width);
  }
  return kMostRuns / runs;
}

Grid GridFor(const Schedule& schedule, int registers, int64_t rows, int64_t multiprocessors) {
  return schedule.lanes > 0 ? GridOfTeams(schedule, registers, rows, multiprocessors)
                            : GridOfThreads(schedule, rows, multiprocessors);
}

}  // namespace dpiframe::cuda
