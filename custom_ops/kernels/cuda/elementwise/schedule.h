// How a program of FusedElementwise runs on a GPU: what is computed once and kept, where, in which loops, and by how
// many threads. Nothing here needs a GPU.
//
// Without anything to keep, each thread computes a few neighbouring elements of an output from the inputs. Else a team
// of threads, its lanes, computes a row in stages: loops over elements or reductions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/elementwise/program.h"

namespace dpiframe::cuda {

constexpr int kWarpLanes = 32;
constexpr int kTeamBlockThreads = 256;        // of teams that are no blocks
constexpr size_t kMaxSharedBytes = 48 << 10;  // of a block, without asking for more

// The loads of so many rounds of a loop stand in front of all computation, where they fill no more than so many
// registers.
constexpr int64_t kApartRounds = 16;
constexpr int64_t kApartRegisters = 64;

// Where a value is kept.
enum class Home {
  kNowhere,  // computed again by each reader, a reduction as a loop of its own
  kEvery,    // a single element, in a register of every lane
  kLane,     // in registers of the lane whose elements they are in all loops over as many elements
  kShared,   // in shared memory, behind the next wait
  kScratch,  // likewise in global memory
};

enum class StageKind {
  kSingles,    // values of a single element, by every lane
  kElements,   // a loop over `outer` elements; also adds up what reduces all of them to one
  kReduction,  // `outer` results, each from `inner` elements
};

struct Stage {
  StageKind kind;
  int64_t outer = 1;
  int64_t inner = 1;
  std::vector<int> values;   // that it computes and keeps, in order
  std::vector<int> outputs;  // positions in the program's list, of values that it writes
  bool waits = false;        // for the memory that lanes wrote before
  int width = 1;             // elements a lane works on at once
  bool inner_width = false;  // kReduction: they are neighbours in the inner direction
  int outer_lanes = 1;       // kReduction: these times those below are a team
  int inner_lanes = 1;
};

struct Schedule {
  int lanes = 0;  // of a team; 0: no teams, and each stage is a kElements loop of its own threads
  std::vector<Home> homes;
  std::vector<size_t> places;  // kShared, kScratch: bytes from the start of the row's memory
  std::vector<bool> used;      // an output needs it
  std::vector<Stage> stages;
  size_t shared_bytes = 0;  // of a row
  size_t scratch_bytes = 0;
  double cost = 0;  // by the model; only good for comparing schedules of one program
};

// The fastest schedule that the cost model finds.
Schedule MakeSchedule(const ElementwiseProgram& program);

// The schedule for teams of this many lanes: 1, 2, 4, ..., 32, or a whole block's 128, 256 or 512.
Schedule MakeSchedule(const ElementwiseProgram& program, int lanes);

// Elements that a lane works on at once in loops over `elements` elements.
int WidthFor(const ElementwiseProgram& program, int64_t elements, int lanes);

}  // namespace dpiframe::cuda
