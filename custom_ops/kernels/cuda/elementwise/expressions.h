// Prints what computes single values, down to the inputs and to what is kept.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "index.h"
#include "kernels/elementwise/program.h"
#include "maps.h"
#include "schedule.h"
#include "text.h"

namespace dpiframe::cuda {

// Expressions in the printed language: one for an index that is the same at each place of a vector, else one a place.
using Parts = std::vector<std::string>;

struct InputRead {
  int input;
  Index index;
};

class ExpressionPrinter {
 public:
  // `aligned`: whether addresses suit accesses of up to 16 bytes.
  ExpressionPrinter(const ElementwiseProgram& program, const Schedule& schedule, bool aligned);

  // A block of lines; what is computed inside is unknown outside.
  void Open(const std::string& text);
  void Close(const std::string& text = "}");
  void Line(const std::string& text) { text_.Line(text); }

  // Elements that a lane works on at once, from here on.
  void SetWidth(int width) { width_ = lane_width_ = width; }
  // From here on run `u` of a row of so many elements is run `n` of all rows': values of such rows are read by that.
  void SetRun(int64_t elements) { run_ = elements; }
  // The number of a lane's round, as the printed language has it.
  void SetRound(const std::string& round) { round_ = round; }
  // The element of all rows at which run `n` begins, and the place.
  static Index RunElement(int width);
  // A condition for what is added to totals from here on; none if empty.
  void SetGuard(const std::string& guard) { guard_ = guard; }
  const std::string& guard() const { return guard_; }
  // Where the places of a value are that lanes keep.
  Parts LanePlaces(int value) const;

  // A value's elements, from where they are kept. Lines that compute them are printed unless they have been.
  Parts Print(int value, const Index& index);
  // The same for one that is about to be kept.
  Parts PrintAnew(int value, const Index& index);

  // The inputs that a value is made of and where they are read, as far as no branch or loop decides about it.
  std::vector<InputRead> ReadsOf(int value, const Index& index) const;

  // Prints how the elements at an index of a reduction's operand are added to `totals`, one a place.
  void PrintTotals(const ElementwiseValue& reduction, const Parts& totals,
                   const std::function<Index(const Index&)>& map, const Index& index);
  // Prints variables that hold a reduction's start, one a place.
  Parts PrintStarts(const ElementwiseValue& reduction, const std::string& name);
  // Prints the result of several totals.
  std::string Joined(const ElementwiseValue& reduction, const Parts& totals);

  // Prints the write of a run of stored elements, from place 0 of a vector on.
  void PrintWrite(ScalarType type, const std::string& address, const Parts& parts, bool in_one);

  const std::string& text() const { return text_.text(); }
  const std::set<ElementwiseOp>& operators() const { return operators_; }
  const std::set<int>& picks() const { return picks_; }
  // Bytes that the address of an input must be a multiple of.
  const std::map<int, int>& alignments() const { return alignments_; }

 private:
  const ElementwiseValue& ValueAt(int value) const { return program_.values[static_cast<size_t>(value)]; }
  std::string NewName(const char* kind) { return kind + std::to_string(++names_); }
  void FindReads(int value, const Index& index, std::set<std::string>* visited, std::vector<InputRead>* reads) const;
  Parts PrintOperator(int value, const Index& index);
  Parts PrintDivision(const ElementwiseValue& value, const std::vector<Parts>& operands);
  Parts PrintInput(int value, const Index& index);
  Parts PrintKept(int value, const Index& index, Home home);
  Parts PrintPick(int value, const Index& index);
  Parts PrintJoin(int value, const Index& index);
  void PrintJoinParts(int value, const JoinShape& shape, const std::string& inside, size_t first, size_t last,
                      const Index& index, const Parts& names);
  void PrintTotal(const std::string& total, const std::string& next);
  Parts PrintLoop(int value, const Index& index);
  Parts PrintLoad(ScalarType type, const std::string& array, bool in_one, const char* function, bool skewed,
                  const Index& index);
  Parts PrintMapped(int value, const Index& index, const std::function<Index(const Index&)>& map);
  Parts PrintPlaces(const Index& index, const std::function<std::string(const Index&)>& print) const;
  std::string Rounded(ScalarType type, const std::string& text) const;

  const ElementwiseProgram& program_;
  const Schedule& schedule_;
  bool aligned_;
  int width_ = 1;       // also of a loop that a reader of a reduction has for itself
  int lane_width_ = 1;  // outside of such loops
  int64_t run_ = 0;
  std::string round_ = "k";
  std::string guard_;
  int names_ = 0;
  SourceText text_;
  std::vector<std::map<std::string, Parts>> known_{{}};
  std::set<ElementwiseOp> operators_;
  std::set<int> picks_;
  std::map<int, int> alignments_;
};

}  // namespace dpiframe::cuda
