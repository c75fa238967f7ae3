// Makes the schedule of a program: each value's layout, and the steps that fill it.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "access.h"
#include "leaf.h"
#include "placement.h"
#include "program.h"
#include "schedule.h"

namespace dpiframe {

class ElementwiseBuilder {
 public:
  ElementwiseBuilder(const ElementwiseProgram& program, const std::vector<bool>& constant_inputs,
                     const LeafTable& leaves);

  // The storages and steps, without the memory they need.
  Schedule Build();

  // What the constants of the program are, by storage: to be written before the first phase runs.
  struct Constant {
    int storage;
    int value;
  };
  const std::vector<Constant>& constants() const { return constants_; }

 private:
  using Accesses = std::vector<Access>;  // the result's first

  const ElementwiseValue& Value(int value) const { return program_.values[static_cast<size_t>(value)]; }
  const ValuePlacement& Placement(int value) const { return placements_[static_cast<size_t>(value)]; }
  int PhaseOf(int value) const { return Placement(value).phase; }
  int64_t BytesOf(int value) const { return static_cast<int64_t>(StoredBytes(StoredOf(Value(value).type))); }

  int AddStorage(StorageKind kind, int index, int phase, int64_t row_bytes);
  Access NewBlock(int phase, const Sizes& sizes, int64_t bytes);
  Layout OwnLayout(int value);
  bool TargetLayout(int value, Layout* layout);
  const Layout& LayoutOf(int value);
  Layout Resolve(int value);
  Layout LayoutOfView(int value, int operand, int64_t offset, const Sizes& strides);

  // A row-major copy, of the value alone or broadcast to larger sizes; made in the value's own phase, and once.
  const Layout& DenseOf(int value, const Sizes& sizes);

  Access AccessTo(const Layout& layout, int64_t bytes, int layout_phase, int phase);
  Access Read(int value, int phase) { return AccessTo(LayoutOf(value), BytesOf(value), PhaseOf(value), phase); }
  Access Write(int value) { return Read(value, PhaseOf(value)); }
  int Repeated(int storage, int phase, int64_t bytes);

  void BuildValue(int value);
  void BuildOperator(int value);
  void BuildCast(int value);
  void BuildPick(int value);
  void BuildJoin(int value);
  void BuildReduction(int value);
  void LoadInput(int value);
  void FillOutput(size_t output);

  // An operator or cast: reads its operands in whatever way the leaf can.
  void EmitElementwise(int value, const std::vector<int>& operands, unsigned always_spread);
  Leaf ElementLeaf(int value, unsigned broadcast) const;
  bool ReadsSlowly(int operand, int value, const Axes& axes) const;
  void EmitCopy(int phase, const Access& to, const Access& from, const Sizes& sizes, int64_t bytes);
  void EmitHalves(int phase, const Access& to, const Access& from, const Sizes& sizes, Leaf leaf);
  void EmitRound(int value);
  // The factors of a product; none of another value. A square is one, however it is written.
  std::vector<int> FactorsOf(int value) const;
  ElementwiseOp OperatorOf(int value) const;
  bool FusesIntoSum(int value) const;
  int FirstOfPair(int value) const;
  bool EmitSumOfProducts(int value);
  int64_t PaddedColumns(int64_t columns, int64_t bytes) const;
  bool PadColumns(int value, const Axes& axes);
  bool EmitContraction(int value, Axes axes, Accesses accesses);
  bool EmitReduction(int value, ReduceOp op, Axes axes, Accesses accesses);
  Axes ReductionAxes(int value, const Sizes& sizes, const Accesses& accesses) const;
  void Emit(int phase, Step step, double element_cost);

  const ElementwiseProgram& program_;
  const LeafTable& leaves_;
  std::vector<ValuePlacement> placements_;
  std::vector<bool> resolved_;
  std::vector<Layout> layouts_;
  std::map<std::pair<int, Sizes>, Layout> dense_;
  std::map<int, int> repeated_;  // storages of fewer row axes, by storage
  std::vector<bool> delayed_;    // values that the one line which reads them takes in
  std::vector<int> first_;       // the operand that a line takes in as the first of two operators, -1 if none
  std::vector<Constant> constants_;
  Schedule schedule_;
};

}  // namespace dpiframe
