// The memory of one call of a region, parts of which are used more than once.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "plan.h"

namespace dpiframe {

// What a step no longer needs goes to later steps on its stream, and to no other's. They need not wait for it: of two
// kernels on a stream, or in a branch of a graph, the later one touches memory only when the earlier one has ended.
// Where kernels start early (programmatic dependent launch) that is less plain. Such a kernel waits for the end of the
// one right before it only; but that one does not end either before a thread of it has waited so, or else was not
// launched before the end of the one before it. So all that came before has ended, however many started early.
class RegionMemory {
 public:
  static constexpr size_t kAlignment = 256;

  // new_block: memory of a size that is a multiple of kAlignment, for the rest of the call. The same steps and sizes
  // ask for the same blocks, wherever those lie.
  RegionMemory(const RegionPlan& plan, size_t values, std::function<char*(size_t)> new_block)
      : plan_(plan), new_block_(std::move(new_block)), values_(values) {}

  // For a value that the step makes, and for work of its own.
  char* ForValue(int value, size_t bytes);
  char* ForStep(size_t bytes);

  // To be called when all of a step is launched; the first one begins by itself.
  void EndStep();

 private:
  struct Piece {
    char* data = nullptr;
    size_t bytes = 0;
    int block = 0;  // pieces are put together again within one alone
  };
  struct Free {
    int stream;
    Piece piece;
  };

  Piece Take(size_t bytes);
  Piece TakeFree(int stream, size_t bytes);
  void Give(int stream, Piece piece);

  const RegionPlan& plan_;
  std::function<char*(size_t)> new_block_;
  std::vector<Piece> values_;
  std::vector<Piece> of_step_;
  std::vector<Free> free_;
  size_t step_ = 0;
  int blocks_ = 0;
};

}  // namespace dpiframe
