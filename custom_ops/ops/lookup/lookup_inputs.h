// The inputs and outputs of a FusedMultiGather node, read and checked once at its kernel's creation and again as far as
// each call may change them: the same on every provider.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/lookup/lookup_cpu.h"
#include "lookup_node.h"
#include "ops/call_array.h"
#include "ops/op.h"
#include "ops/tensor_shape.h"

namespace dpiframe {

class LookupInputs {
 public:
  // What one call brings, in the provider's memory.
  struct Call {
    explicit Call(const LookupInputs& inputs);
    int64_t rows = 0;
    CallArray<const void*> sources;
    CallArray<int64_t> columns;  // K of each source
    CallArray<const void*> tables;
    CallArray<void*> outputs;
  };

  // Throws OrtError.
  explicit LookupInputs(const NodeInfo& info);

  const LookupNode& node() const { return node_; }
  const LookupPlan& plan() const { return *plan_; }
  const std::vector<std::string>& labels() const { return labels_; }  // of the plan's lines

  // Addresses of the tables' rows, null for those that calls may change.
  const std::vector<const void*>& constant_tables() const { return constant_tables_; }

  // Reads sources and tables and makes the outputs. Throws OrtError.
  void Read(NodeCall* from, Call* call) const;

 private:
  std::unique_ptr<LookupPlan> MakePlan() const;
  const void* ConstantTable(const NodeInfo& info, size_t table) const;
  NodeTensor Input(NodeCall* from, size_t index) const;
  void ReadSources(NodeCall* from, int64_t* row_axes, Call* call) const;
  int64_t ReadRowAxes(const TensorShape& shape, int64_t* row_axes) const;
  void CheckRows(size_t source, const TensorShape& shape, const int64_t* row_axes) const;
  int64_t ReadColumns(size_t source, size_t elements, int64_t rows) const;
  void ReadTables(NodeCall* from, Call* call) const;
  void MakeOutputs(NodeCall* to, const int64_t* row_axes, Call* call) const;

  LookupNode node_;
  std::unique_ptr<LookupPlan> plan_;
  std::vector<std::string> labels_;
  std::vector<const void*> constant_tables_;
};

}  // namespace dpiframe
