#include "stages.h"

#include <algorithm>
#include <set>
#include <utility>

namespace dpiframe::cuda {
namespace {

constexpr int64_t kFullyUnrolled = 8;
constexpr int64_t kUnrolledValues = 256;  // of a program whose loops are unrolled: others compile long enough
constexpr int64_t kRunRounds = 64;        // added up before they are added to the rest

std::string Rounded(const ElementwiseValue& value, const std::string& text) {
  return value.type == ScalarType::kFloat16 ? "Rounded<Half>(" + text + ")" : text;
}

std::string Across(const ElementwiseValue& value, const std::string& total, int lanes, int distance) {
  if (lanes == 1) return total;
  return "AcrossLanes<" + RuleName(value.reduce) + ", " + std::to_string(lanes) + ", " + std::to_string(distance) +
         ">(" + total + ")";
}

}  // namespace

void StagePrinter::PrintRun(const Stage& stage) {
  body_.SetWidth(stage.width);
  body_.SetRun(stage.outer);
  const Index unit = Index::Variable("u", stage.outer / stage.width);
  PrintLoads(ReadsOf(stage, unit));
  PrintOutputs(stage, unit);
}

void StagePrinter::PrintStage(size_t number) {
  const Stage& stage = schedule_.stages[number];
  body_.SetWidth(stage.width);
  if (stage.waits) PrintWait();
  switch (stage.kind) {
    case StageKind::kSingles:
      PrintSingles(stage);
      return;
    case StageKind::kElements:
      PrintElements(stage, number);
      return;
    case StageKind::kReduction:
      PrintReduction(stage);
      return;
  }
}

void StagePrinter::PrintWait() {
  if (schedule_.lanes > kWarpLanes) {
    body_.Line("__syncthreads();");
  } else if (schedule_.lanes > 1) {
    body_.Line("__syncwarp();");
  }
}

void StagePrinter::DeclareLane(int number) {
  const ElementwiseValue& value = ValueAt(number);
  const int width = WidthFor(program_, value.elements, schedule_.lanes);
  const Share share{value.elements / width, schedule_.lanes, "lane"};
  body_.Line(ComputedType(value.type) + " lane" + std::to_string(number) + "[" +
             std::to_string(share.rounds() * width) + "];");
}

Index StagePrinter::ElementOf(const Stage& stage, const Index& unit) {
  return unit.Times(stage.width) + Index::Place(stage.width);
}

bool StagePrinter::KeepsInLanes(int64_t elements) const {
  for (size_t i = 0; i < program_.values.size(); ++i) {
    if (schedule_.homes[i] == Home::kLane && program_.values[i].elements == elements) return true;
  }
  return false;
}

bool StagePrinter::IsLong() const {
  return std::count(schedule_.used.begin(), schedule_.used.end(), true) > kUnrolledValues;
}

void StagePrinter::PrintSingles(const Stage& stage) {
  for (const int value : stage.values) {
    const Parts parts = body_.PrintAnew(value, Index::Constant(0));
    body_.Line("const " + ComputedType(ValueAt(value).type) + " every" + std::to_string(value) + " = " + parts[0] +
               ";");
  }
}

std::vector<InputRead> StagePrinter::ReadsOf(const Stage& stage, const Index& unit) const {
  std::vector<InputRead> reads;
  const auto add = [&](int value) {
    const std::vector<InputRead> more = body_.ReadsOf(value, ElementOf(stage, unit));
    reads.insert(reads.end(), more.begin(), more.end());
  };
  for (const int number : stage.values) {
    const ElementwiseValue& value = ValueAt(number);
    const int read = value.kind == ValueKind::kReduce ? value.operands[0] : number;
    if (read == number || HomeOf(read) == Home::kNowhere) add(read);
  }
  for (const int output : stage.outputs) {
    const int number = program_.outputs[static_cast<size_t>(output)];
    if (HomeOf(number) == Home::kNowhere) add(number);
  }
  return Distinct(reads);
}

// What several values read is read once.
std::vector<InputRead> StagePrinter::Distinct(const std::vector<InputRead>& reads) {
  std::set<std::pair<int, std::string>> found;
  std::vector<InputRead> distinct;
  for (const InputRead& read : reads) {
    if (found.emplace(read.input, read.index.Key()).second) distinct.push_back(read);
  }
  return distinct;
}

void StagePrinter::PrintLoads(const std::vector<InputRead>& reads) {
  for (const InputRead& read : reads) body_.PrintAnew(read.input, read.index);
}

std::vector<Parts> StagePrinter::PrintReductionStarts(const Stage& stage) {
  std::vector<Parts> totals;
  for (const int value : stage.values) {
    const bool adds = ValueAt(value).kind == ValueKind::kReduce;
    totals.push_back(adds ? body_.PrintStarts(ValueAt(value), "total" + std::to_string(value)) : Parts{});
  }
  return totals;
}

void StagePrinter::PrintElements(const Stage& stage, size_t number) {
  std::vector<Parts> totals = PrintReductionStarts(stage);
  const Share share{stage.outer / stage.width, schedule_.lanes, "lane"};
  PrintShare(
      stage, share, KeepsInLanes(stage.outer), &totals, [&](const Index& unit) { return ReadsOf(stage, unit); },
      [&](const Index& unit) {
        for (size_t i = 0; i < stage.values.size(); ++i) {
          const ElementwiseValue& value = ValueAt(stage.values[i]);
          if (value.kind == ValueKind::kReduce) {
            body_.PrintTotals(value, totals[i], [](const Index& own) { return own; }, ElementOf(stage, unit));
          } else {
            Keep(stage, stage.values[i], unit);
          }
        }
        PrintOutputs(stage, unit);
      });
  PrintLoadsAhead(number + 1);
  for (size_t i = 0; i < stage.values.size(); ++i) {
    const ElementwiseValue& value = ValueAt(stage.values[i]);
    if (value.kind != ValueKind::kReduce) continue;
    std::string total = body_.Joined(value, totals[i]);
    if (schedule_.lanes > kWarpLanes) {
      total = "AcrossBlock<" + RuleName(value.reduce) + ", " + std::to_string(schedule_.lanes) + ", " +
              std::to_string(stage.values[i]) + ">(" + total + ")";
    } else {
      total = Across(value, total, schedule_.lanes, 1);
    }
    body_.Line("const " + ComputedType(value.type) + " every" + std::to_string(stage.values[i]) + " = " +
               Rounded(value, total) + ";");
  }
}

// What a later loop over elements loads is under way while lanes add up, where registers hold it.
void StagePrinter::PrintLoadsAhead(size_t number) {
  const auto& stages = schedule_.stages;
  while (number < stages.size() && stages[number].kind == StageKind::kSingles) ++number;
  if (number == stages.size() || stages[number].kind != StageKind::kElements) return;
  const Stage& stage = stages[number];
  const Share share{stage.outer / stage.width, schedule_.lanes, "lane"};
  body_.SetWidth(stage.width);
  const auto reads = [&](const Index& unit) { return ReadsOf(stage, unit); };
  if (reads(share.unit(0)).empty() || !LoadsStandApart(stage, share, reads)) return;
  DeclareLast(share);
  if (share.guarded()) lasts_.insert(share.last());
  for (const Index& unit : UnitsOf(share)) PrintLoads(reads(unit));
}

void StagePrinter::Keep(const Stage& stage, int number, const Index& unit) {
  const Parts parts = body_.PrintAnew(number, ElementOf(stage, unit));
  if (HomeOf(number) != Home::kLane) {
    const std::string mine = body_.guard();
    if (!mine.empty()) body_.Open("if (" + mine + ")");
    WriteMemory(number, unit.Times(stage.width), parts);
    if (!mine.empty()) body_.Close();
    return;
  }
  const Parts places = body_.LanePlaces(number);
  for (size_t place = 0; place < places.size(); ++place) {
    body_.Line(places[place] + " = " + parts[parts.size() == 1 ? 0 : place] + ";");
  }
}

void StagePrinter::WriteMemory(int number, const Index& element, const Parts& parts) {
  const ScalarType type = ValueAt(number).type;
  body_.PrintWrite(type,
                   "memory" + std::to_string(number) + " + Skewed<" + StoredType(type) + ">(" + element.Text() + ")",
                   parts, true);
}

void StagePrinter::PrintOutputs(const Stage& stage, const Index& unit) {
  for (const int output : stage.outputs) {
    const int number = program_.outputs[static_cast<size_t>(output)];
    const Parts parts = body_.Print(number, ElementOf(stage, unit));
    const bool in_one = aligned_ && stage.width > 1;
    if (in_one) {
      output_alignments_[static_cast<size_t>(output)] =
          std::min(16, stage.width * static_cast<int>(ScalarBytes(ValueAt(number).type)));
    }
    const std::string name = "out" + std::to_string(output) + " + ";
    if (schedule_.lanes == 0) {
      body_.PrintWrite(ValueAt(number).type, "all_" + name + ExpressionPrinter::RunElement(stage.width).AddressText(),
                       parts, in_one);
      continue;
    }
    body_.Open("if (live" + (body_.guard().empty() ? "" : " && " + body_.guard()) + ")");
    body_.PrintWrite(ValueAt(number).type, name + unit.Times(stage.width).AddressText(), parts, in_one);
    body_.Close();
  }
}

void StagePrinter::PrintReduction(const Stage& stage) {
  const int outer_width = stage.inner_width ? 1 : stage.width;
  const int inner_width = stage.inner_width ? stage.width : 1;
  const Share outer_share{stage.outer / outer_width, stage.outer_lanes, "outer_lane"};
  const Share inner_share{stage.inner / inner_width, stage.inner_lanes, "inner_lane"};
  // Lanes of a result are neighbours in a warp where what they read next to each other belongs to one result.
  const int warp = std::min(schedule_.lanes, kWarpLanes);
  const int distance = stage.inner_width ? 1 : warp / stage.inner_lanes;
  body_.Open("");
  if (stage.inner_width) {
    body_.Line("const unsigned outer_lane = lane / " + Number(stage.inner_lanes) + ";");
    body_.Line("const unsigned inner_lane = lane % " + Number(stage.inner_lanes) + ";");
  } else {
    body_.Line("const unsigned outer_lane = lane / " + Number(warp) + " * " + Number(distance) + " + lane % " +
               Number(distance) + ";");
    body_.Line("const unsigned inner_lane = lane % " + Number(warp) + " / " + Number(distance) + ";");
  }
  body_.Open("for (unsigned j = 0; j < " + Number(outer_share.rounds()) + "; ++j)");
  body_.Line("const unsigned o = j * " + Number(stage.outer_lanes) + " + outer_lane;");
  std::vector<Parts> totals = PrintReductionStarts(stage);
  const std::string mine = outer_share.guarded() ? "o < " + Number(outer_share.units) : "";
  if (!mine.empty()) body_.Open("if (" + mine + ")");
  const Index outer = Index::Variable("o", outer_share.units).Times(outer_width) + Index::Place(outer_width);
  // The place belongs to one of the two; the map takes it along.
  const auto for_each = [&](const Index& unit, const auto& print) {
    const Index inner = unit.Times(inner_width) + Index::Place(inner_width);
    for (size_t i = 0; i < stage.values.size(); ++i) {
      const ElementwiseValue& value = ValueAt(stage.values[i]);
      const auto map = [&](const Index& own) {
        return stage.inner_width ? ReducedIndex(program_, value, outer, own)
                                 : ReducedIndex(program_, value, own, inner);
      };
      print(i, value, map, stage.inner_width ? inner : outer);
    }
  };
  PrintShare(
      stage, inner_share, false, &totals,
      [&](const Index& unit) {
        std::vector<InputRead> reads;
        for_each(unit, [&](size_t, const ElementwiseValue& value, const auto& map, const Index& index) {
          const Index mapped = map(index);
          if (HomeOf(value.operands[0]) != Home::kNowhere || mapped.opaque()) return;
          const std::vector<InputRead> more = body_.ReadsOf(value.operands[0], mapped);
          reads.insert(reads.end(), more.begin(), more.end());
        });
        return Distinct(reads);
      },
      [&](const Index& unit) {
        for_each(unit, [&](size_t i, const ElementwiseValue& value, const auto& map, const Index& index) {
          body_.PrintTotals(value, totals[i], map, index);
        });
      });
  if (!mine.empty()) body_.Close();
  for (size_t i = 0; i < stage.values.size(); ++i) {
    const ElementwiseValue& value = ValueAt(stage.values[i]);
    Parts& parts = totals[i];
    if (stage.inner_width) parts = {body_.Joined(value, parts)};
    for (size_t place = 0; place < parts.size(); ++place) {
      const std::string name = "result" + std::to_string(stage.values[i]) + "_" + std::to_string(place);
      body_.Line("const " + ComputedType(value.type) + " " + name + " = " +
                 Rounded(value, Across(value, parts[place], stage.inner_lanes, distance)) + ";");
      parts[place] = name;
    }
  }
  body_.SetWidth(outer_width);
  const std::string writes = stage.inner_lanes == 1 ? mine : "inner_lane == 0u" + (mine.empty() ? "" : " && " + mine);
  if (!writes.empty()) body_.Open("if (" + writes + ")");
  for (size_t i = 0; i < stage.values.size(); ++i) {
    WriteMemory(stage.values[i], Index::Variable("o", outer_share.units).Times(outer_width), totals[i]);
  }
  if (!writes.empty()) body_.Close();
  body_.Close();
  body_.Close();
}

bool StagePrinter::LoadsStandApart(const Stage& stage, const Share& share, const UnitReads& reads) const {
  const int64_t rounds = share.rounds();
  const int64_t registers =
      static_cast<int64_t>(reads(Index::Variable("u", share.units)).size()) * stage.width * rounds;
  const bool fit = registers > 0 && registers <= kApartRegisters && rounds <= kApartRounds;
  return rounds == 1 || (fit && !IsLong());
}

std::vector<Index> StagePrinter::UnitsOf(const Share& share) {
  std::vector<Index> units;
  for (int64_t round = 0; round < share.rounds(); ++round) units.push_back(share.unit(round));
  // Lanes without a unit in the last round take another lane's, and leave it out of what is added up and written: in a
  // branch around all of it, the compiler would put the loads behind what others wait for.
  if (share.guarded()) units.back() = Index::Variable(share.last(), share.units);
  return units;
}

void StagePrinter::DeclareLast(const Share& share) {
  if (!share.guarded() || lasts_.count(share.last()) != 0) return;
  body_.Line("const unsigned " + share.last() + " = min(" + share.unit(share.rounds() - 1).Text() + ", " +
             Number(share.units - 1) + ");");
}

// Where registers hold them, the loads of all rounds stand in front, so that they are under way together: a compiler
// that unrolls a loop leaves most of them behind the computation of earlier rounds.
void StagePrinter::PrintShare(const Stage& stage, const Share& share, bool in_registers, std::vector<Parts>* totals,
                              const UnitReads& reads, const UnitPrinter& work) {
  const int64_t rounds = share.rounds();
  const Index any_unit = Index::Variable("u", share.units);
  if (LoadsStandApart(stage, share, reads)) {
    body_.Open("");
    DeclareLast(share);
    const std::vector<Index> units = UnitsOf(share);
    for (const Index& unit : units) PrintLoads(reads(unit));
    for (int64_t round = 0; round < rounds; ++round) {
      if (share.guarded() && round + 1 == rounds) {
        body_.SetGuard(share.unit(round).Text() + " < " + Number(share.units));
      }
      body_.SetRound(Number(round));
      work(units[static_cast<size_t>(round)]);
    }
    body_.SetGuard("");
    body_.SetRound("k");
    body_.Close();
    return;
  }
  const std::vector<Parts> outer_totals = OpenRounds(stage, share.rounds(), in_registers, totals);
  body_.Line("const unsigned u = k * " + Number(share.lanes) + " + " + share.lane + ";");
  if (share.guarded()) body_.Open("if (u < " + Number(share.units) + ")");
  PrintLoads(reads(any_unit));
  work(any_unit);
  if (share.guarded()) body_.Close();
  CloseRounds(stage, outer_totals, totals);
}

// Opens the loop over a lane's rounds, k. Where there are many, totals are those of a run of rounds, and added to the
// ones that are returned: a long chain of additions loses more than one of half as many digits.
std::vector<Parts> StagePrinter::OpenRounds(const Stage& stage, int64_t rounds, bool in_registers,
                                            std::vector<Parts>* totals) {
  const bool adds = std::any_of(totals->begin(), totals->end(), [](const Parts& parts) { return !parts.empty(); });
  if (!adds || rounds <= 2 * kRunRounds) {
    const bool whole = in_registers || (rounds <= kFullyUnrolled && !IsLong());
    body_.Line(whole ? "#pragma unroll" : IsLong() ? "#pragma unroll 1" : "#pragma unroll 4");
    body_.Open("for (unsigned k = 0; k < " + Number(rounds) + "; ++k)");
    return {};
  }
  const std::vector<Parts> outer = *totals;
  body_.Open("for (unsigned run = 0; run < " + Number(rounds) + "; run += " + Number(kRunRounds) + ")");
  for (size_t i = 0; i < stage.values.size(); ++i) {
    if (outer[i].empty()) continue;
    (*totals)[i] = body_.PrintStarts(ValueAt(stage.values[i]), "run" + std::to_string(stage.values[i]));
  }
  body_.Line(IsLong() ? "#pragma unroll 1" : "#pragma unroll 4");
  body_.Open("for (unsigned k = run; k < min(run + " + Number(kRunRounds) + ", " + Number(rounds) + "); ++k)");
  return outer;
}

void StagePrinter::CloseRounds(const Stage& stage, const std::vector<Parts>& outer, std::vector<Parts>* totals) {
  body_.Close();
  if (outer.empty()) return;
  for (size_t i = 0; i < outer.size(); ++i) {
    const std::string rule = outer[i].empty() ? "" : RuleName(ValueAt(stage.values[i]).reduce);
    for (size_t place = 0; place < outer[i].size(); ++place) {
      body_.Line(outer[i][place] + " = " + rule + "::Join(" + outer[i][place] + ", " + (*totals)[i][place] + ");");
    }
  }
  body_.Close();
  *totals = outer;
}

}  // namespace dpiframe::cuda
