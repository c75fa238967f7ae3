#include "gemm_node.h"

#include <cstdlib>
#include <cstring>

namespace dpiframe {
namespace {

constexpr const char* kPrecisionVariable = "DPIFRAME_PRECISION";
constexpr size_t kWeight = 1;
constexpr int64_t kMaxRows = int64_t{1} << 30;

// Elements of the last axes.
int64_t LastSizes(const TensorShape& shape, size_t axes) {
  int64_t product = 1;
  for (size_t i = shape.rank - axes; i < shape.rank; ++i) product *= shape.sizes[i];
  return product;
}

}  // namespace

GemmNode::GemmNode(const NodeInfo& info) : op_(info.op()), name_(info.name()) {
  try {
    program_ = ParseGemmProgram(info.program());
  } catch (const ProgramError& error) {
    Fail(std::string("attribute 'program', ") + error.what());
  }
  if (const char* wanted = std::getenv(kPrecisionVariable)) {
    if (!std::strcmp(wanted, "fp32")) {
      program_.precision = GemmPrecision::kFp32;
    } else if (!std::strcmp(wanted, "tf32")) {
      program_.precision = GemmPrecision::kTf32;
    } else if (!std::strcmp(wanted, "fp16")) {
      program_.precision = GemmPrecision::kFp16;
    } else {
      Fail(std::string("the environment variable ") + kPrecisionVariable + " is \"" + wanted +
           "\": fp32, tf32 or fp16 was expected");
    }
  }
  const size_t inputs = info.input_count();
  const size_t outputs = info.output_count();
  if (inputs != program_.input_count()) {
    Fail("has " + std::to_string(inputs) + " inputs, but its program needs " + std::to_string(program_.input_count()));
  }
  if (outputs != 1) Fail("has " + std::to_string(outputs) + " outputs instead of one");
  for (size_t i = 0; i < inputs; ++i) input_names_.push_back(info.input_name(i));
  for (size_t i = 0; i < inputs; ++i) {
    if (info.input_type(i) != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) FailAtInput(i, "is not float32");
  }
  NodeTensor weight;
  if (!info.Constant(kWeight, &weight)) return;
  CheckWeight(weight.shape);
  constant_weight_ = static_cast<const float*>(weight.data);
}

NodeTensor GemmNode::Input(NodeCall* from, size_t index) const {
  NodeTensor tensor;
  if (!from->Input(index, &tensor)) FailAtInput(index, "is missing");
  return tensor;
}

void GemmNode::CheckWeight(const TensorShape& shape) const {
  const int64_t expected[2] = {program_.transposed ? program_.k : program_.n,
                               program_.transposed ? program_.n : program_.k};
  if (shape.rank == 2 && shape.sizes[0] == expected[0] && shape.sizes[1] == expected[1]) return;
  FailAtInput(kWeight, "has shape " + ShapeText(shape) + ", but the program says " + ShapeText(expected, 2));
}

GemmNode::Call GemmNode::Read(NodeCall* from) const {
  Call call;
  const NodeTensor a = Input(from, 0);
  TensorShape shape = a.shape;
  const size_t left_axes = static_cast<size_t>(program_.left_axes);
  if (shape.rank < left_axes || shape.rank > TensorShape::kMaxRank || LastSizes(shape, left_axes) != program_.row) {
    FailAtInput(0, "has shape " + ShapeText(shape) + ", but the program says that its last " +
                       (left_axes == 1 ? "axis is " : std::to_string(left_axes) + " axes are ") +
                       std::to_string(program_.row));
  }
  call.m = static_cast<int64_t>(shape.elements) / program_.row;
  if (call.m > kMaxRows) FailAtInput(0, "has more rows than 2^30");
  call.a = static_cast<const float*>(a.data);
  call.weight = constant_weight_;
  if (constant_weight_ == nullptr) {
    const NodeTensor weight = Input(from, kWeight);
    CheckWeight(weight.shape);
    call.weight = static_cast<const float*>(weight.data);
  }
  for (size_t i = 0; i < program_.operands.size(); ++i) {
    const size_t index = GemmProgram::kFirstOperand + i;
    const NodeTensor operand = Input(from, index);
    const int64_t expected = GemmOperandElements(program_.operands[i], call.m, program_.n);
    if (static_cast<int64_t>(operand.shape.elements) != expected) {
      FailAtInput(index, "has shape " + ShapeText(operand.shape) + ", but as a " +
                             GemmOperandName(program_.operands[i]) + " needs " + std::to_string(expected) +
                             " elements");
    }
    call.operands[i] = static_cast<const float*>(operand.data);
  }
  shape.rank -= left_axes - 1;
  shape.sizes[shape.rank - 1] = program_.n;
  void* y = nullptr;
  if (!from->Output(0, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, shape.sizes, shape.rank, &y)) {
    Fail("output 0 has no name, and can't be left out");
  }
  call.y = static_cast<float*>(y);
  return call;
}

void GemmNode::Fail(const std::string& problem) const { throw OrtError(op_ + " node '" + name_ + "': " + problem); }

void GemmNode::FailAtInput(size_t input, const std::string& problem) const {
  Fail("input '" + input_names_[input] + "' " + problem);
}

}  // namespace dpiframe
