// How an op is described to the table that registers all of them.
//
// Every op of the library takes any number of inputs and gives any number of outputs of any types: what a node means
// stands in its attributes. A definition is for one provider; another provider's stands beside it under the same name.
#pragma once

#include "bad_id_registry.h"
#include "ort.h"

namespace dpiframe {

class Kernel {
 public:
  explicit Kernel(const OrtApi& api) : api_(api) {}
  virtual ~Kernel() = default;
  const OrtApi& api() const { return api_; }
  virtual void Compute(OrtKernelContext* context) = 0;  // entered by many threads at once

 protected:
  const OrtApi& api_;
};

struct KernelRequest {
  const OrtApi& api;
  const OrtKernelInfo* info;
  const char* op_name;
  BadIdRegistry* bad_ids;
};

struct OpDefinition {
  const char* name;
  int pool_size;         // registered as name, name_1, ..., name_<pool_size - 1>
  const char* provider;  // null: the CPU
  Kernel* (*create_kernel)(const KernelRequest& request);
  void (*infer_shapes)(const OrtApi& api, OrtShapeInferContext* context);
};

extern const OpDefinition kFusedElementwiseCpu;
extern const OpDefinition kFusedElementwiseCuda;
extern const OpDefinition kFusedMultiGatherCpu;
extern const OpDefinition kFusedMultiGatherCuda;

}  // namespace dpiframe
