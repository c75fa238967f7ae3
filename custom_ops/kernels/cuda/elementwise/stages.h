// Prints the stages of a schedule: loops over a row's elements, by the lanes of a team or by single threads.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "expressions.h"
#include "kernels/elementwise/program.h"
#include "schedule.h"

namespace dpiframe::cuda {

class StagePrinter {
 public:
  // Expressions are printed to `body`, which is aligned or not. output_alignments: bytes that addresses of outputs must
  // be a multiple of; raised by writes of several elements.
  StagePrinter(const ElementwiseProgram& program, const Schedule& schedule, bool aligned, ExpressionPrinter* body,
               std::vector<int>* output_alignments)
      : program_(program),
        schedule_(schedule),
        aligned_(aligned),
        body_(*body),
        output_alignments_(*output_alignments) {}

  // The outputs' elements in run `u` of a row, without teams.
  void PrintRun(const Stage& stage);

  // A stage of a team's lanes, by its number.
  void PrintStage(size_t number);

  void PrintWait();
  void DeclareLane(int value);

 private:
  // Prints lines for the elements of a unit, as many as are worked on at once.
  using UnitPrinter = std::function<void(const Index& unit)>;
  // The inputs that these lines read.
  using UnitReads = std::function<std::vector<InputRead>(const Index& unit)>;

  const ElementwiseValue& ValueAt(int value) const { return program_.values[static_cast<size_t>(value)]; }
  Home HomeOf(int value) const { return schedule_.homes[static_cast<size_t>(value)]; }
  static Index ElementOf(const Stage& stage, const Index& unit);
  bool KeepsInLanes(int64_t elements) const;
  bool IsLong() const;

  void PrintSingles(const Stage& stage);
  void PrintElements(const Stage& stage, size_t number);
  void PrintLoadsAhead(size_t number);
  std::vector<InputRead> ReadsOf(const Stage& stage, const Index& unit) const;
  static std::vector<InputRead> Distinct(const std::vector<InputRead>& reads);
  void PrintLoads(const std::vector<InputRead>& reads);
  void PrintReduction(const Stage& stage);
  std::vector<Parts> PrintReductionStarts(const Stage& stage);
  void PrintOutputs(const Stage& stage, const Index& unit);
  void Keep(const Stage& stage, int value, const Index& unit);
  void WriteMemory(int value, const Index& element, const Parts& parts);

  // What one of `lanes` lanes does of `units`, this one being number `lane`.
  struct Share {
    int64_t units;
    int lanes;
    const char* lane;
    int64_t rounds() const { return (units + lanes - 1) / lanes; }
    bool guarded() const { return units % lanes != 0; }
    Index unit(int64_t round) const { return Index::Variable(lane, lanes) + Index::Constant(round * lanes); }
    std::string last() const { return "last_" + std::string(lane) + std::to_string(units); }  // the last round's unit
  };
  bool LoadsStandApart(const Stage& stage, const Share& share, const UnitReads& reads) const;
  static std::vector<Index> UnitsOf(const Share& share);
  void DeclareLast(const Share& share);
  void PrintShare(const Stage& stage, const Share& share, bool in_registers, std::vector<Parts>* totals,
                  const UnitReads& reads, const UnitPrinter& work);
  std::vector<Parts> OpenRounds(const Stage& stage, int64_t rounds, bool in_registers, std::vector<Parts>* totals);
  void CloseRounds(const Stage& stage, const std::vector<Parts>& outer, std::vector<Parts>* totals);

  const ElementwiseProgram& program_;
  const Schedule& schedule_;
  bool aligned_;
  ExpressionPrinter& body_;
  std::vector<int>& output_alignments_;
  std::set<std::string> lasts_;  // of shares, declared for all of the row
};

}  // namespace dpiframe::cuda
