#include "program.h"

#include <string>
#include <utility>

#include "kernels/program_fields.h"

namespace dpiframe {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 20;  // of K and N
constexpr int64_t kMaxLeftAxes = 8;
constexpr size_t kMaxRuns = 128;
constexpr size_t kMaxSteps = 16;
constexpr int64_t kMaxOperands = 16;

struct NamedOperation {
  const char* name;
  GemmOperation operation;
};

constexpr NamedOperation kOperations[] = {
    {"add", GemmOperation::kAdd},
    {"sub", GemmOperation::kSub},
    {"mul", GemmOperation::kMul},
    {"relu", GemmOperation::kRelu},
    {"sigmoid", GemmOperation::kSigmoid},
    {"tanh", GemmOperation::kTanh},
    {"leakyrelu", GemmOperation::kLeakyRelu},
    {"prelu", GemmOperation::kPrelu},
    {"gelu", GemmOperation::kGelu},
    {"silu", GemmOperation::kSilu},
};

struct NamedOperand {
  const char* name;
  GemmOperand operand;
};

constexpr NamedOperand kOperands[] = {
    {"scalar", GemmOperand::kScalar},
    {"vector", GemmOperand::kVector},
    {"column", GemmOperand::kColumn},
    {"matrix", GemmOperand::kMatrix},
};

bool TakesOperand(GemmOperation operation) {
  return operation == GemmOperation::kAdd || operation == GemmOperation::kSub || operation == GemmOperation::kMul ||
         operation == GemmOperation::kPrelu;
}

class GemmParser {
 public:
  explicit GemmParser(std::string_view text) : reader_(text) {}

  GemmProgram Parse() {
    ParseHead();
    while (!reader_.AtEnd()) ParseStep();
    for (size_t i = 0; i < program_.operands.size(); ++i) {
      if (program_.operands[i] != GemmOperand::kNone) continue;
      throw ProgramError("input " + std::to_string(i + GemmProgram::kFirstOperand) +
                         ": is used by no step, though later ones are");
    }
    return std::move(program_);
  }

 private:
  void ParseHead() {
    reader_.Format("gemm");
    reader_.NextLineOf("precision");
    program_.precision = ToPrecision(reader_.Word("precision"));
    reader_.EndLine();
    reader_.NextLineOf("weight");
    const std::string_view layout = reader_.Word("layout");
    if (layout != "nk" && layout != "kn") {
      reader_.Fail("is \"" + std::string(layout) + "\": nk or kn was expected");
    }
    program_.transposed = layout == "kn";
    reader_.EndLine();
    reader_.NextLineOf("size");
    program_.k = reader_.Integer("K", 1, kMaxSize);
    program_.n = reader_.Integer("N", 1, kMaxSize);
    reader_.EndLine();
    if (reader_.NextLineIs("left")) {
      reader_.NextLineOf("left");
      program_.left_axes = static_cast<int>(reader_.Integer("axes of A", 1, kMaxLeftAxes));
      reader_.EndLine();
    }
    program_.row = program_.k;
    if (reader_.NextLineIs("runs")) {
      ParseRuns();
    } else {
      program_.begins = {0};
    }
  }

  void ParseRuns() {
    reader_.NextLineOf("runs");
    program_.row = reader_.Integer("values of a row", program_.k, kMaxSize);
    do {
      if (program_.begins.size() == kMaxRuns) reader_.Fail("is a run too many: there may be 128");
      program_.begins.push_back(reader_.Integer("beginning", 0, program_.row - program_.k));
    } while (!reader_.LineDone());
    if (program_.n % program_.runs() != 0) {
      reader_.Fail("is the last of " + std::to_string(program_.runs()) + " runs, which N is not divided into");
    }
    reader_.EndLine();
  }

  GemmPrecision ToPrecision(std::string_view word) {
    if (word == "fp32") return GemmPrecision::kFp32;
    if (word == "tf32") return GemmPrecision::kTf32;
    if (word == "fp16") return GemmPrecision::kFp16;
    reader_.Fail("is \"" + std::string(word) + "\": fp32, tf32 or fp16 was expected");
  }

  void ParseStep() {
    reader_.NextLineOf("step");
    const std::string_view name = reader_.Word("operation");
    if (program_.steps.size() == kMaxSteps) reader_.Fail("is a step too many: there may be 16");
    GemmProgramStep step{ToOperation(name)};
    if (TakesOperand(step.operation)) {
      ParseOperand(&step);
    } else if (step.operation == GemmOperation::kLeakyRelu) {
      step.number = reader_.Float("slope");
    }
    reader_.EndLine();
    program_.steps.push_back(step);
  }

  GemmOperation ToOperation(std::string_view word) {
    for (const NamedOperation& named : kOperations) {
      if (word == named.name) return named.operation;
    }
    reader_.Fail("is \"" + std::string(word) + "\", which is no operation");
  }

  void ParseOperand(GemmProgramStep* step) {
    const std::string_view word = reader_.Word("operand");
    for (const NamedOperand& named : kOperands) {
      if (word == named.name) step->operand = named.operand;
    }
    if (step->operand == GemmOperand::kNone) {
      reader_.Fail("is \"" + std::string(word) + "\": scalar, vector, column or matrix was expected");
    }
    step->input = static_cast<int>(
        reader_.Integer("input", GemmProgram::kFirstOperand, GemmProgram::kFirstOperand + kMaxOperands - 1));
    const size_t index = static_cast<size_t>(step->input - GemmProgram::kFirstOperand);
    if (index >= program_.operands.size()) program_.operands.resize(index + 1, GemmOperand::kNone);
    GemmOperand& known = program_.operands[index];
    if (known != GemmOperand::kNone && known != step->operand) {
      reader_.Fail("is read as something else by an earlier step");
    }
    known = step->operand;
  }

  ProgramReader reader_;
  GemmProgram program_{};
};

}  // namespace

GemmProgram ParseGemmProgram(std::string_view text) { return GemmParser(text).Parse(); }

int64_t GemmOperandElements(GemmOperand operand, int64_t m, int64_t n) {
  switch (operand) {
    case GemmOperand::kVector:
      return n;
    case GemmOperand::kColumn:
      return m;
    case GemmOperand::kMatrix:
      return m * n;
    default:
      return 1;
  }
}

const char* GemmOperandName(GemmOperand operand) {
  for (const NamedOperand& named : kOperands) {
    if (named.operand == operand) return named.name;
  }
  return "none";
}

}  // namespace dpiframe
