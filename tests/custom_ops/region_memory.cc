// Goes through the steps of a region as a call does, with a stand-in for its memory.
#include <cstdint>
#include <map>

#include "kernels/region/memory.h"
#include "kernels/region/program.h"

// sizes: of each value, then of the work of each node, in bytes. begins: where they lie, in the same order; -1 for what
// takes no memory of its own. gap: between blocks. Returns the bytes of all blocks.
extern "C" size_t place_region(const char* text, const size_t* sizes, int64_t* begins, size_t gap) {
  using namespace dpiframe;
  const RegionProgram program = ParseRegionProgram(text);
  const RegionPlan plan = PlanRegion(program);
  char* const start = reinterpret_cast<char*>(uintptr_t{1} << 40);
  char* next = start;
  size_t used = 0;
  RegionMemory memory(plan, static_cast<size_t>(program.values), [&](size_t bytes) {
    char* const block = next;
    next += bytes + gap;
    used += bytes;
    return block;
  });
  for (size_t step = 0; step < program.nodes.size(); ++step) {
    for (const int value : program.nodes[step].results) {
      bool leaves = false;
      for (const int output : program.outputs) leaves = leaves || output == value;
      if (!leaves && sizes[value] > 0) begins[value] = memory.ForValue(value, sizes[value]) - start;
    }
    const size_t own = static_cast<size_t>(program.values) + step;
    if (sizes[own] > 0) begins[own] = memory.ForStep(sizes[own]) - start;
    memory.EndStep();
  }
  return used;
}
