// How an op is described to the table that registers all of them.
//
// Every op of the library takes any number of inputs and gives any number of outputs of any types: what a node means
// stands in its attributes. A definition is for one provider; another provider's stands beside it under the same name.
#pragma once

#include <string>

#include "bad_id_registry.h"
#include "node.h"

namespace dpiframe {

class DeviceAllocator;

class Kernel {
 public:
  explicit Kernel(const OrtApi& api) : api_(api) {}
  virtual ~Kernel() = default;
  const OrtApi& api() const { return api_; }
  virtual void Compute(NodeCall* call) = 0;  // entered by many threads at once

  // Where its scratch memory comes from; null where it needs none.
  virtual const DeviceAllocator* allocator() const { return nullptr; }

 protected:
  const OrtApi& api_;
};

struct OpDefinition {
  const char* name;
  int pool_size;         // registered as name, name_1, ..., name_<pool_size - 1>
  const char* provider;  // null: the CPU
  Kernel* (*create_kernel)(const NodeInfo& info);
  void (*infer_shapes)(NodeShapes* shapes);
};

extern const OpDefinition kFusedElementwiseCuda;
extern const OpDefinition kFusedElementwiseCpu;
extern const OpDefinition kFusedGemmCpu;
extern const OpDefinition kFusedGemmCuda;
extern const OpDefinition kFusedMultiGatherCpu;
extern const OpDefinition kFusedMultiGatherCuda;
extern const OpDefinition kParallelRegionCpu;
extern const OpDefinition kParallelRegionCuda;

// An op by its name, for a provider; null where there is none.
const OpDefinition* FindOp(const std::string& name, const char* provider);

}  // namespace dpiframe
