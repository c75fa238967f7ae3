// Decides what is kept and what is computed again by each reader, for teams of a given size.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "index.h"
#include "kernels/elementwise/program.h"
#include "schedule.h"

namespace dpiframe::cuda {

struct ChosenHomes {
  std::vector<Home> homes;  // none is kScratch
  std::vector<bool> used;
  bool keeps = false;                   // anything at all
  std::map<std::string, double> costs;  // of one round of the loops of a key, on average
};

// Loops over as many elements, and reductions of the same axes of the same sizes, have the same key.
std::string LoopKey(int64_t elements);
std::string LoopKey(const ElementwiseProgram& program, const ElementwiseValue& reduction);

// Goes from the outputs to the inputs: who reads a value, and which elements how often, is known before its home is
// chosen, and what its operands are read for only then.
class HomeChooser {
 public:
  HomeChooser(const ElementwiseProgram& program, int lanes);
  ChosenHomes Choose();

 private:
  // A loop that keeps or writes something. Those of one key and depth are likely to become one.
  struct Loop {
    std::string key;
    int64_t elements;  // 0: a reduction to more than one element
    double rounds;
    int depth;
    bool operator<(const Loop& other) const;
  };
  // Equal indices in the same loop are computed once.
  struct Read {
    Loop loop;
    Index index;
    double times;  // a row
  };

  void FindDepths();
  void AddRead(int value, const Loop& loop, const Index& index, double times);
  Home HomeFor(int value);
  Home HomeOfReduction(int value, double times) const;
  bool ReadInOwnLoops(int value, std::set<Loop>* loops) const;
  bool TakeRegisters(const ElementwiseValue& value);
  void FetchEarly();
  bool PaysInMemory(int value, double times) const;
  void ReadOperands(int value, Home home);
  void ReadThrough(int value, const Read& read);
  Loop ElementLoop(int64_t elements, int depth) const;
  const ElementwiseValue& ValueAt(int value) const { return program_.values[static_cast<size_t>(value)]; }

  const ElementwiseProgram& program_;
  int lanes_;
  std::vector<double> whole_costs_;
  std::vector<int> depths_;  // reductions that a value waits for, one after the other
  bool has_reductions_ = false;
  int64_t lane_registers_ = 0;
  std::vector<std::map<std::string, Read>> reads_;
  std::map<std::string, double> instructions_;
  std::map<std::string, double> rounds_;
  ChosenHomes chosen_;
};

}  // namespace dpiframe::cuda
