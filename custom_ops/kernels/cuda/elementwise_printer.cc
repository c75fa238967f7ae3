#include "elementwise_printer.h"

#include <algorithm>

#include "elementwise_expressions.h"
#include "elementwise_text.h"

namespace dpiframe::cuda {
namespace {

constexpr const char kDeviceText[] =
#include "elementwise_device.inc"
    ;
constexpr const char kTeamText[] =
#include "elementwise_team.inc"
    ;

constexpr int64_t kFullyUnrolled = 8;
constexpr int64_t kRunRounds = 64;  // added up before they are added to the rest

std::string Number(int64_t number) { return std::to_string(number) + "u"; }

class Printer {
 public:
  Printer(const ElementwiseProgram& program, const Schedule& schedule, bool aligned)
      : program_(program), schedule_(schedule), aligned_(aligned), body_(program, schedule, aligned) {
    for (int i = 0; i < program.inputs; ++i) {
      kernel_.input_alignments.push_back(static_cast<int>(ScalarBytes(ValueAt(i).type)));
    }
    for (const int output : program.outputs) {
      kernel_.output_alignments.push_back(static_cast<int>(ScalarBytes(ValueAt(output).type)));
    }
  }

  PrintedKernel Print() {
    const ArgumentWords words = ArgumentWordsOf(program_, schedule_);
    const bool by_table = words.count > kMaxParameterWords;
    body_.Open("extern \"C\" __global__ void __launch_bounds__(" + std::to_string(kMaxBlockThreads) + ") " +
               kElementwiseKernelName + "(" +
               (by_table ? "const Arguments* table)" : "const __grid_constant__ Arguments a)"));
    if (by_table) body_.Line("const Arguments& a = *table;");
    if (schedule_.lanes > 0) {
      PrintTeams();
    } else {
      PrintThreads();
    }
    body_.Close();
    for (const auto& [input, alignment] : body_.alignments()) {
      int& own = kernel_.input_alignments[static_cast<size_t>(input)];
      own = std::max(own, alignment);
    }
    kernel_.source = Head(words) + body_.text();
    return std::move(kernel_);
  }

 private:
  const ElementwiseValue& ValueAt(int value) const { return program_.values[static_cast<size_t>(value)]; }
  Home HomeOf(int value) const { return schedule_.homes[static_cast<size_t>(value)]; }

  std::string Head(const ArgumentWords& words) const {
    SourceText head;
    head.Line("namespace dpiframe::cuda {");
    head.Line("");
    head.Open("struct Arguments");
    head.Line("long long rows;");
    head.Line("long long inner_rows;");
    head.Line("char* scratch;");
    if (words.pointers > words.first_blocks) {
      head.Line("unsigned long long first_blocks[" + std::to_string(words.pointers - words.first_blocks) + "];");
    }
    head.Line("const void* pointers[" + std::to_string(words.count - words.pointers) + "];");
    head.Close("};");
    head.Line("");
    std::string text = std::string(kDeviceText) + kTeamText + head.text();
    for (const ElementwiseOp op : body_.operators()) text += OperatorDefinition(op);
    for (const int pick : body_.picks()) text += PickTable(pick);
    return text + "\n}  // namespace dpiframe::cuda\n\nusing namespace dpiframe::cuda;\n\n";
  }

  std::string PickTable(int number) const {
    const ElementwiseValue& value = ValueAt(number);
    const bool is_short = ValueAt(value.operands[0]).elements <= 1 << 16;
    std::string text = std::string("__device__ const unsigned ") + (is_short ? "short" : "int") + " pick" +
                       std::to_string(number) + "[] = {";
    for (size_t i = 0; i < value.indices.size(); ++i) {
      text += (i == 0 ? "" : i % 32 == 0 ? ",\n" : ",") + std::to_string(value.indices[i]);
    }
    return text + "};\n";
  }

  // Each thread computes one run of elements of one stage's outputs.
  void PrintThreads() {
    const size_t stages = schedule_.stages.size();
    for (size_t i = 0; i < stages; ++i) {
      const Stage& stage = schedule_.stages[i];
      const std::string number = std::to_string(i);
      body_.Open(i + 1 == stages ? "" : "if (blockIdx.x < a.first_blocks[" + std::to_string(i + 1) + "])");
      const std::string block = i == 0 ? "blockIdx.x" : "(blockIdx.x - a.first_blocks[" + number + "])";
      body_.Line("const Unit at = UnitOf<" + Number(stage.outer / stage.width) + ">(" + block + ");");
      body_.Line("const long long row = at.row;");
      body_.Line("const unsigned u = at.unit;");
      body_.Line("if (row >= a.rows) return;");
      PrintRow();
      body_.SetWidth(stage.width);
      PrintLoads(stage);
      PrintOutputs(stage);
      body_.Line("return;");
      body_.Close();
    }
  }

  void PrintTeams() {
    const std::string lanes = Number(schedule_.lanes);
    body_.Line("const unsigned lane = threadIdx.x % " + lanes + ";");
    body_.Line("const unsigned team = threadIdx.x / " + lanes + ";");
    body_.Line("const unsigned teams = blockDim.x / " + lanes + ";");
    if (schedule_.shared_bytes > 0) {
      body_.Line("extern __shared__ uint4 shared[];");
      body_.Line("char* const memory = reinterpret_cast<char*>(shared) + team * " + Number(SharedBytes()) + ";");
    }
    if (schedule_.scratch_bytes > 0) {
      body_.Line("char* const scratch = a.scratch + (static_cast<unsigned long long>(blockIdx.x) * teams + team) * " +
                 Number(static_cast<int64_t>(schedule_.scratch_bytes)) + ";");
    }
    for (size_t i = 0; i < program_.values.size(); ++i) {
      if (schedule_.used[i]) DeclareMemory(static_cast<int>(i));
    }
    const std::string first = "static_cast<long long>(blockIdx.x) * teams";
    const std::string step = "static_cast<long long>(gridDim.x) * teams";
    body_.Open("for (long long first = " + first + "; first < a.rows; first += " + step + ")");
    // A team without a row repeats the last one, since all lanes of a warp must take part in what is added up.
    body_.Line("const bool live = first + team < a.rows;");
    body_.Line("const long long row = live ? first + team : a.rows - 1;");
    PrintRow();
    for (size_t i = 0; i < program_.values.size(); ++i) {
      if (schedule_.used[i] && schedule_.homes[i] == Home::kLane) DeclareLane(static_cast<int>(i));
    }
    for (const Stage& stage : schedule_.stages) PrintStage(stage);
    if (schedule_.shared_bytes + schedule_.scratch_bytes > 0) PrintWait();
    body_.Close();
  }

  int64_t SharedBytes() const { return static_cast<int64_t>(schedule_.shared_bytes); }

  void DeclareMemory(int number) {
    if (HomeOf(number) != Home::kShared && HomeOf(number) != Home::kScratch) return;
    const std::string type = StoredType(ValueAt(number).type);
    body_.Line(type + "* const memory" + std::to_string(number) + " = reinterpret_cast<" + type + "*>(" +
               (HomeOf(number) == Home::kShared ? "memory" : "scratch") + " + " +
               std::to_string(schedule_.places[static_cast<size_t>(number)]) + ");");
  }

  void DeclareLane(int number) {
    const ElementwiseValue& value = ValueAt(number);
    const int width = WidthFor(program_, value.elements, schedule_.lanes);
    body_.Line(ComputedType(value.type) + " lane" + std::to_string(number) + "[" +
               std::to_string(Rounds(value.elements / width, schedule_.lanes) * width) + "];");
  }

  static int64_t Rounds(int64_t units, int lanes) { return (units + lanes - 1) / lanes; }

  void PrintWait() {
    if (schedule_.lanes > kWarpLanes) {
      body_.Line("__syncthreads();");
    } else if (schedule_.lanes > 1) {
      body_.Line("__syncwarp();");
    }
  }

  // Where the row's elements are in the inputs and outputs.
  void PrintRow() {
    const auto masks = [&](uint32_t mask) {
      return std::any_of(program_.values.begin(), program_.values.begin() + program_.inputs,
                         [&](const ElementwiseValue& input) { return input.row_axes == mask; });
    };
    if (program_.row_axes == 2 && (masks(1) || masks(2))) {
      body_.Line("const long long row0 = FirstAxis(row, a.inner_rows);");
      body_.Line("const long long row1 = row - row0 * a.inner_rows;");
    }
    for (int i = 0; i < program_.inputs; ++i) {
      const ElementwiseValue& input = ValueAt(i);
      if (!schedule_.used[static_cast<size_t>(i)]) continue;
      const std::string type = StoredType(input.type);
      std::string line = "const " + type + "* const in" + std::to_string(i) + " = static_cast<const " + type +
                         "*>(a.pointers[" + std::to_string(i) + "])";
      if (input.row_axes != 0) {
        const bool all = input.row_axes == (1u << program_.row_axes) - 1;
        line += std::string(" + ") +
                (all                   ? "row"
                 : input.row_axes == 1 ? "row0"
                                       : "row1") +
                " * " + std::to_string(input.elements);
      }
      body_.Line(line + ";");
    }
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      const ElementwiseValue& output = ValueAt(program_.outputs[i]);
      const std::string type = StoredType(output.type);
      body_.Line(type + "* const out" + std::to_string(i) + " = static_cast<" + type +
                 "*>(const_cast<void*>(a.pointers[" + std::to_string(static_cast<size_t>(program_.inputs) + i) +
                 "])) + row * " + std::to_string(output.elements) + ";");
    }
  }

  void PrintStage(const Stage& stage) {
    body_.SetWidth(stage.width);
    if (stage.waits) PrintWait();
    switch (stage.kind) {
      case StageKind::kSingles:
        for (const int value : stage.values) {
          const Parts parts = body_.PrintAnew(value, Index::Constant(0));
          body_.Line("const " + ComputedType(ValueAt(value).type) + " every" + std::to_string(value) + " = " +
                     parts[0] + ";");
        }
        return;
      case StageKind::kElements:
        PrintElements(stage);
        return;
      case StageKind::kReduction:
        PrintReduction(stage);
        return;
    }
  }

  Index ElementOf(const Stage& stage) const {
    return Index::Variable("u", stage.outer / stage.width).Times(stage.width) + Index::Place(stage.width);
  }

  void PrintLoads(const Stage& stage) {
    for (const int number : stage.values) {
      const ElementwiseValue& value = ValueAt(number);
      const int read = value.kind == ValueKind::kReduce ? value.operands[0] : number;
      if (read == number || HomeOf(read) == Home::kNowhere) body_.PrintLoads(read, ElementOf(stage));
    }
    for (const int output : stage.outputs) {
      const int number = program_.outputs[static_cast<size_t>(output)];
      if (HomeOf(number) == Home::kNowhere) body_.PrintLoads(number, ElementOf(stage));
    }
  }

  void PrintElements(const Stage& stage) {
    const int64_t units = stage.outer / stage.width;
    const int64_t rounds = Rounds(units, schedule_.lanes);
    std::vector<Parts> totals;
    for (const int value : stage.values) {
      const bool adds = ValueAt(value).kind == ValueKind::kReduce;
      totals.push_back(adds ? body_.PrintStarts(ValueAt(value), "total" + std::to_string(value)) : Parts{});
    }
    bool registers = false;
    for (size_t i = 0; i < program_.values.size(); ++i) {
      registers |= schedule_.homes[i] == Home::kLane && program_.values[i].elements == stage.outer;
    }
    const std::vector<Parts> outer_totals = OpenRounds(stage, rounds, registers, &totals);
    body_.Line("const unsigned u = k * " + Number(schedule_.lanes) + " + lane;");
    const bool guarded = units % schedule_.lanes != 0;
    if (guarded) body_.Open("if (u < " + Number(units) + ")");
    PrintLoads(stage);
    for (size_t i = 0; i < stage.values.size(); ++i) {
      const ElementwiseValue& value = ValueAt(stage.values[i]);
      if (value.kind == ValueKind::kReduce) {
        body_.PrintTotals(value, totals[i], [](const Index& own) { return own; }, ElementOf(stage));
      } else {
        Keep(stage, stage.values[i]);
      }
    }
    PrintOutputs(stage);
    if (guarded) body_.Close();
    CloseRounds(stage, outer_totals, &totals);
    for (size_t i = 0; i < stage.values.size(); ++i) {
      const ElementwiseValue& value = ValueAt(stage.values[i]);
      if (value.kind != ValueKind::kReduce) continue;
      std::string total = body_.Joined(value, totals[i]);
      const std::string rule = RuleName(value.reduce);
      if (schedule_.lanes > kWarpLanes) {
        total = "AcrossBlock<" + rule + ", " + std::to_string(schedule_.lanes) + ">(" + total + ")";
      } else {
        total = Across(value, total, schedule_.lanes, 1);
      }
      body_.Line("const " + ComputedType(value.type) + " every" + std::to_string(stage.values[i]) + " = " +
                 Rounded(value, total) + ";");
    }
  }

  // Opens the loop over a lane's rounds, k. Where there are many, totals are those of a run of rounds, and added to
  // the ones that are returned: a long chain of additions loses more than one of half as many digits.
  std::vector<Parts> OpenRounds(const Stage& stage, int64_t rounds, bool unrolled, std::vector<Parts>* totals) {
    const bool adds = std::any_of(totals->begin(), totals->end(), [](const Parts& parts) { return !parts.empty(); });
    if (!adds || rounds <= 2 * kRunRounds) {
      body_.Line(unrolled || rounds <= kFullyUnrolled ? "#pragma unroll" : "#pragma unroll 4");
      body_.Open("for (unsigned k = 0; k < " + Number(rounds) + "; ++k)");
      return {};
    }
    const std::vector<Parts> outer = *totals;
    body_.Open("for (unsigned run = 0; run < " + Number(rounds) + "; run += " + Number(kRunRounds) + ")");
    for (size_t i = 0; i < stage.values.size(); ++i) {
      if (outer[i].empty()) continue;
      (*totals)[i] = body_.PrintStarts(ValueAt(stage.values[i]), "run" + std::to_string(stage.values[i]));
    }
    body_.Line("#pragma unroll 4");
    body_.Open("for (unsigned k = run; k < min(run + " + Number(kRunRounds) + ", " + Number(rounds) + "); ++k)");
    return outer;
  }

  void CloseRounds(const Stage& stage, const std::vector<Parts>& outer, std::vector<Parts>* totals) {
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

  static std::string Across(const ElementwiseValue& value, const std::string& total, int lanes, int distance) {
    if (lanes == 1) return total;
    return "AcrossLanes<" + RuleName(value.reduce) + ", " + std::to_string(lanes) + ", " + std::to_string(distance) +
           ">(" + total + ")";
  }

  static std::string Rounded(const ElementwiseValue& value, const std::string& text) {
    return value.type == ScalarType::kFloat16 ? "Rounded<Half>(" + text + ")" : text;
  }

  void Keep(const Stage& stage, int number) {
    const Parts parts = body_.PrintAnew(number, ElementOf(stage));
    if (HomeOf(number) != Home::kLane) {
      WriteMemory(number, "u * " + Number(stage.width), parts);
      return;
    }
    for (int place = 0; place < stage.width; ++place) {
      body_.Line("lane" + std::to_string(number) + "[k * " + Number(stage.width) + " + " + Number(place) +
                 "] = " + parts[parts.size() == 1 ? 0 : static_cast<size_t>(place)] + ";");
    }
  }

  void WriteMemory(int number, const std::string& element, const Parts& parts) {
    const ScalarType type = ValueAt(number).type;
    body_.PrintWrite(type, "memory" + std::to_string(number) + " + Skewed<" + StoredType(type) + ">(" + element + ")",
                     parts, true);
  }

  void PrintOutputs(const Stage& stage) {
    for (const int output : stage.outputs) {
      const int number = program_.outputs[static_cast<size_t>(output)];
      const Parts parts = body_.Print(number, ElementOf(stage));
      const bool in_one = aligned_ && stage.width > 1;
      if (in_one) {
        int& alignment = kernel_.output_alignments[static_cast<size_t>(output)];
        alignment = std::min(16, stage.width * static_cast<int>(ScalarBytes(ValueAt(number).type)));
      }
      if (schedule_.lanes > 0) body_.Open("if (live)");
      body_.PrintWrite(ValueAt(number).type, "out" + std::to_string(output) + " + u * " + Number(stage.width), parts,
                       in_one);
      if (schedule_.lanes > 0) body_.Close();
    }
  }

  void PrintReduction(const Stage& stage) {
    const int outer_width = stage.inner_width ? 1 : stage.width;
    const int inner_width = stage.inner_width ? stage.width : 1;
    const int64_t outer_units = stage.outer / outer_width;
    const int64_t inner_units = stage.inner / inner_width;
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
    body_.Open("for (unsigned j = 0; j < " + Number(Rounds(outer_units, stage.outer_lanes)) + "; ++j)");
    body_.Line("const unsigned o = j * " + Number(stage.outer_lanes) + " + outer_lane;");
    std::vector<Parts> totals;
    for (const int value : stage.values) {
      totals.push_back(body_.PrintStarts(ValueAt(value), "total" + std::to_string(value)));
    }
    const std::string mine = outer_units % stage.outer_lanes == 0 ? "" : "o < " + Number(outer_units);
    if (!mine.empty()) body_.Open("if (" + mine + ")");
    const int64_t rounds = Rounds(inner_units, stage.inner_lanes);
    const std::vector<Parts> outer_totals = OpenRounds(stage, rounds, false, &totals);
    body_.Line("const unsigned r = k * " + Number(stage.inner_lanes) + " + inner_lane;");
    const bool guarded = inner_units % stage.inner_lanes != 0;
    if (guarded) body_.Open("if (r < " + Number(inner_units) + ")");
    const Index outer = Index::Variable("o", outer_units).Times(outer_width) + Index::Place(outer_width);
    const Index inner = Index::Variable("r", inner_units).Times(inner_width) + Index::Place(inner_width);
    for (size_t i = 0; i < stage.values.size(); ++i) {
      const ElementwiseValue& value = ValueAt(stage.values[i]);
      // The place belongs to one of the two; the map takes it along.
      const auto map = [&](const Index& own) {
        return stage.inner_width ? ReducedIndex(program_, value, outer, own)
                                 : ReducedIndex(program_, value, own, inner);
      };
      body_.PrintTotals(value, totals[i], map, stage.inner_width ? inner : outer);
    }
    if (guarded) body_.Close();
    CloseRounds(stage, outer_totals, &totals);
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
      WriteMemory(stage.values[i], "o * " + Number(outer_width), totals[i]);
    }
    if (!writes.empty()) body_.Close();
    body_.Close();
    body_.Close();
  }

  const ElementwiseProgram& program_;
  const Schedule& schedule_;
  bool aligned_;
  ExpressionPrinter body_;
  PrintedKernel kernel_;
};

}  // namespace

ArgumentWords ArgumentWordsOf(const ElementwiseProgram& program, const Schedule& schedule) {
  ArgumentWords words{};
  words.first_blocks = 3;
  words.pointers = words.first_blocks + (schedule.lanes > 0 ? 0 : schedule.stages.size());
  words.count = words.pointers + static_cast<size_t>(program.inputs) + program.outputs.size();
  return words;
}

PrintedKernel PrintKernel(const ElementwiseProgram& program, const Schedule& schedule, bool aligned) {
  return Printer(program, schedule, aligned).Print();
}

}  // namespace dpiframe::cuda
