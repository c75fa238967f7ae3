// What a FusedMultiGather node says, whichever provider runs it.
#pragma once

#include <string>
#include <vector>

#include "kernels/lookup/lookup_cpu.h"
#include "kernels/lookup/program.h"
#include "ops/op.h"

namespace dpiframe {

class LookupNode {
 public:
  // Reads and checks a node. Throws OrtError with a message that names the node and the input.
  explicit LookupNode(const NodeInfo& info);

  const std::string& name() const { return name_; }
  const LookupProgram& program() const { return program_; }
  const std::vector<ElementType>& source_types() const { return source_types_; }
  ElementType table_type() const { return table_type_; }
  size_t source_count() const { return program_.sources.size(); }
  size_t table_count() const { return program_.tables.size(); }
  size_t table_input(size_t table) const { return source_count() + table; }

  // "ids[3] -> table" for an id, "ids" and "table" being the names of the node's inputs.
  std::string Label(const IdExpression& id, int table) const;

  void CheckTableShape(size_t table, const TensorShape& shape) const;

  // Fails with "<op> node '<name>': <problem>", or "...: input '<input name>' <problem>".
  [[noreturn]] void Fail(const std::string& problem) const;
  [[noreturn]] void FailAtInput(size_t input, const std::string& problem) const;

  // The failure that an id outside its table is where the policy is `error`.
  [[noreturn]] void FailAtId(const LookupLine& line, const BadIds::First& bad) const;

 private:
  ElementType ReadType(const NodeInfo& info, size_t input) const;

  std::string op_;
  std::string name_;
  std::vector<std::string> input_names_;
  LookupProgram program_;
  std::vector<ElementType> source_types_;
  ElementType table_type_ = ElementType::kFloat32;
};

// Type and shape of every output, from the program and the first source's shape.
void InferLookupShapes(NodeShapes* shapes);

}  // namespace dpiframe
