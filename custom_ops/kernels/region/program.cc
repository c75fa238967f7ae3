#include "program.h"

#include <algorithm>

#include "kernels/program_fields.h"

namespace dpiframe {
namespace {

constexpr int kMaxInputs = 1 << 16;
constexpr int kMaxStreams = 32;
constexpr int kMaxValues = 1 << 16;
constexpr std::string_view kIndent = "  ";

class RegionParser {
 public:
  explicit RegionParser(std::string_view text) : reader_(text) {}

  RegionProgram Parse() {
    reader_.Format("region");
    reader_.NextLineOf("inputs");
    program_.inputs = static_cast<int>(reader_.Integer("number of inputs", 0, kMaxInputs));
    reader_.EndLine();
    reader_.NextLineOf("streams");
    program_.streams = static_cast<int>(reader_.Integer("number of streams", 1, kMaxStreams));
    reader_.EndLine();
    made_.assign(static_cast<size_t>(program_.inputs), true);
    while (reader_.NextLineIs("node")) ParseNode();
    while (!reader_.AtEnd()) ParseOutput();
    program_.values = static_cast<int>(made_.size());
    for (size_t value = 0; value < made_.size(); ++value) {
      if (!made_[value]) reader_.Fail("no node makes value " + std::to_string(value));
    }
    return std::move(program_);
  }

 private:
  void ParseNode() {
    reader_.NextLineOf("node");
    RegionNode node;
    node.op = std::string(reader_.Word("op"));
    node.stream = static_cast<int>(reader_.Integer("stream", 0, program_.streams - 1));
    reader_.Literal(":");
    while (true) {
      const std::string_view word = reader_.Word("operand");
      if (word == ":") break;
      node.operands.push_back(Made(word));
    }
    while (!reader_.LineDone()) node.results.push_back(New(reader_.Word("result")));
    if (node.results.empty()) reader_.Fail("a node makes nothing");
    reader_.NextLineOf("name");
    node.name = std::string(reader_.Rest("name"));
    while (reader_.NextLineStartsWith(kIndent)) {
      reader_.NextLine("the node's program");
      node.program.append(reader_.Line().substr(kIndent.size())).append("\n");
    }
    program_.nodes.push_back(std::move(node));
  }

  void ParseOutput() {
    reader_.NextLineOf("output");
    const std::string_view word = reader_.Word("value");
    const int value = Made(word);
    std::vector<int>& outputs = program_.outputs;
    if (value < program_.inputs) reader_.Fail("is " + std::string(word) + ", an input, which no node makes");
    if (std::count(outputs.begin(), outputs.end(), value) > 0) {
      reader_.Fail("is " + std::string(word) + ", which is an output already");
    }
    outputs.push_back(value);
    reader_.EndLine();
  }

  // A value that is there.
  int Made(std::string_view word) {
    const int64_t value = reader_.ToInteger(word);
    if (value < 0 || value >= static_cast<int64_t>(made_.size()) || !made_[static_cast<size_t>(value)]) {
      reader_.Fail("is " + std::string(word) + ", which no line before this one makes");
    }
    return static_cast<int>(value);
  }

  int New(std::string_view word) {
    const int64_t value = reader_.ToInteger(word, 0, kMaxValues);
    if (value >= static_cast<int64_t>(made_.size())) made_.resize(static_cast<size_t>(value) + 1, false);
    if (made_[static_cast<size_t>(value)]) reader_.Fail("is " + std::string(word) + ", which is made already");
    made_[static_cast<size_t>(value)] = true;
    return static_cast<int>(value);
  }

  ProgramReader reader_;
  RegionProgram program_;
  std::vector<bool> made_;
};

}  // namespace

RegionProgram ParseRegionProgram(std::string_view text) { return RegionParser(text).Parse(); }

}  // namespace dpiframe
