#include "printer.h"

#include <algorithm>

#include "expressions.h"
#include "stages.h"
#include "text.h"

namespace dpiframe::cuda {
namespace {

constexpr const char kDeviceText[] =
#include "elementwise_device.inc"
    ;
constexpr const char kTeamText[] =
#include "elementwise_team.inc"
    ;

class Printer {
 public:
  Printer(const ElementwiseProgram& program, const Schedule& schedule, bool aligned)
      : program_(program),
        schedule_(schedule),
        body_(program, schedule, aligned),
        stages_(program, schedule, aligned, &body_, &kernel_.output_alignments) {
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
    const int threads = schedule_.lanes > kWarpLanes ? schedule_.lanes : kTeamBlockThreads;
    // One block a multiprocessor is enough: the compiler would rather have more, and few registers, and so few loads
    // under way.
    body_.Open("extern \"C\" __global__ void __launch_bounds__(" + std::to_string(threads) + ", 1) " +
               kElementwiseKernelName + "(" +
               (by_table ? "const Arguments* table)" : "const __grid_constant__ Arguments a)"));
    body_.Line("LetLaterKernelsStart();");
    if (schedule_.lanes > 0 || by_table) body_.Line("WaitForEarlierKernels();");
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
    head.Line("unsigned long long rows;");
    head.Line("long long inner_rows;");
    head.Line("char* scratch;");
    head.Line("long long first_row;");
    if (words.pointers > words.first_blocks) {
      head.Line("unsigned long long first_blocks[" + std::to_string(words.pointers - words.first_blocks) + "];");
    }
    head.Line("void* pointers[" + std::to_string(words.count - words.pointers) + "];");
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
      const std::string first = "static_cast<unsigned>(a.first_blocks[" + number + "])";
      const std::string block = i == 0 ? "blockIdx.x" : "(blockIdx.x - " + first + ")";
      const std::string units = Number(stage.outer / stage.width);
      // Rows and runs are counted in 32 bits: a launch has no more.
      body_.Line("const unsigned n = " + block + " * blockDim.x + threadIdx.x;");
      body_.Line("if (n >= static_cast<unsigned>(a.rows) * " + units + ") return;");
      body_.Line("const unsigned row = n / " + units + ";");
      body_.Line("const unsigned u = n % " + units + ";");
      PrintRow();
      // Threads without a run needn't wait: the kernel isn't done before the others are.
      body_.Line("WaitForEarlierKernels();");
      stages_.PrintRun(stage);
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
    body_.Line("const unsigned rows = static_cast<unsigned>(a.rows);");
    // Where a block has memory of its own there are fewer blocks than rows.
    const bool again = schedule_.scratch_bytes > 0;
    body_.Open(again ? "for (unsigned first = blockIdx.x * teams; first < rows; first += gridDim.x * teams)" : "");
    if (!again) body_.Line("const unsigned first = blockIdx.x * teams;");
    // A team without a row repeats the last one, since all lanes of a warp must take part in what is added up.
    body_.Line("const bool live = first + team < rows;");
    body_.Line("const unsigned row = live ? first + team : rows - 1u;");
    PrintRow();
    for (size_t i = 0; i < program_.values.size(); ++i) {
      if (schedule_.used[i] && schedule_.homes[i] == Home::kLane) stages_.DeclareLane(static_cast<int>(i));
    }
    for (size_t i = 0; i < schedule_.stages.size(); ++i) stages_.PrintStage(i);
    if (again) stages_.PrintWait();
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

  // Where the row's elements are in the inputs and outputs.
  void PrintRow() {
    const auto masks = [&](uint32_t mask) {
      return std::any_of(program_.values.begin(), program_.values.begin() + program_.inputs,
                         [&](const ElementwiseValue& input) { return input.row_axes == mask; });
    };
    if (program_.row_axes == 2 && (masks(1) || masks(2))) {
      body_.Line("const long long row0 = FirstAxis(a.first_row + row, a.inner_rows);");
      body_.Line("const long long row1 = a.first_row + row - row0 * a.inner_rows;");
    }
    const uint32_t all = (1u << program_.row_axes) - 1;
    for (int i = 0; i < program_.inputs; ++i) {
      const ElementwiseValue& input = ValueAt(i);
      if (!schedule_.used[static_cast<size_t>(i)]) continue;
      const std::string row = input.row_axes == all ? "row" : input.row_axes == 1 ? "row0" : "row1";
      PrintRowAddress("const " + StoredType(input.type), "in", i, i, input.row_axes == 0 ? "" : row, input.elements);
    }
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      const ElementwiseValue& output = ValueAt(program_.outputs[i]);
      const int number = static_cast<int>(i);
      PrintRowAddress(StoredType(output.type), "out", number, program_.inputs + number, "row", output.elements);
    }
  }

  // Where all rows are and, by the same name without "all_", this one.
  void PrintRowAddress(const std::string& type, const std::string& kind, int number, int pointer,
                       const std::string& row, int64_t elements) {
    const std::string name = kind + std::to_string(number);
    body_.Line(type + "* const all_" + name + " = static_cast<" + type + "*>(a.pointers[" + std::to_string(pointer) +
               "]);");
    const std::string step = " + static_cast<unsigned long long>(" + row + ") * " + std::to_string(elements);
    body_.Line(type + "* const " + name + " = all_" + name + (row.empty() ? "" : step) + ";");
  }

  const ElementwiseProgram& program_;
  const Schedule& schedule_;
  ExpressionPrinter body_;
  PrintedKernel kernel_;
  StagePrinter stages_;
};

}  // namespace

ArgumentWords ArgumentWordsOf(const ElementwiseProgram& program, const Schedule& schedule) {
  ArgumentWords words{};
  words.first_blocks = 4;
  words.pointers = words.first_blocks + (schedule.lanes > 0 ? 0 : schedule.stages.size());
  words.count = words.pointers + static_cast<size_t>(program.inputs) + program.outputs.size();
  return words;
}

PrintedKernel PrintKernel(const ElementwiseProgram& program, const Schedule& schedule, bool aligned) {
  return Printer(program, schedule, aligned).Print();
}

}  // namespace dpiframe::cuda
