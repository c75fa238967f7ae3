#include "elementwise_node.h"

#include <algorithm>

namespace dpiframe {

ONNXTensorElementDataType OnnxType(ScalarType type) {
  switch (type) {
    case ScalarType::kFloat32:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    case ScalarType::kFloat16:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
    case ScalarType::kFloat64:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE;
    case ScalarType::kInt32:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
    case ScalarType::kInt64:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
    case ScalarType::kBool:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL;
  }
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

ElementwiseNode::Call::Call(const ElementwiseNode& node)
    : inputs(static_cast<size_t>(node.program().inputs)), outputs(node.program().outputs.size()) {}

ElementwiseNode::ElementwiseNode(const NodeInfo& info) : op_(info.op()), name_(info.name()) {
  try {
    program_ = ParseElementwiseProgram(info.program());
  } catch (const ProgramError& error) {
    Fail(std::string("attribute 'program', ") + error.what());
  }
  const size_t inputs = info.input_count();
  const size_t outputs = info.output_count();
  if (inputs != static_cast<size_t>(program_.inputs)) {
    Fail("has " + std::to_string(inputs) + " inputs, but its program lists " + std::to_string(program_.inputs));
  }
  if (outputs != program_.outputs.size()) {
    Fail("has " + std::to_string(outputs) + " outputs, but its program lists " +
         std::to_string(program_.outputs.size()));
  }
  for (size_t i = 0; i < inputs; ++i) input_names_.push_back(info.input_name(i));
  for (size_t i = 0; i < inputs; ++i) {
    CheckType(i, info.input_type(i));
    constant_inputs_.push_back(ConstantInput(info, i));
  }
}

void ElementwiseNode::CheckType(size_t input, ONNXTensorElementDataType type) const {
  static constexpr const char* kNames[] = {"float32", "float16", "float64", "int32", "int64", "bool"};
  const ScalarType expected = program_.values[input].type;
  if (type == OnnxType(expected)) return;
  FailAtInput(input, std::string("is not of the type that the program says: ") + kNames[static_cast<int>(expected)]);
}

const void* ElementwiseNode::ConstantInput(const NodeInfo& info, size_t input) const {
  NodeTensor tensor;
  // One with row axes takes part in telling how many rows a call has.
  if (program_.values[input].row_axes != 0 || !info.Constant(input, &tensor)) return nullptr;
  ReadShape(input, tensor.shape.sizes, tensor.shape.rank, nullptr, nullptr);
  return tensor.data;
}

void ElementwiseNode::Read(NodeCall* from, Call* call) const {
  int row_axis_inputs[2] = {-1, -1};
  for (size_t i = 0; i < constant_inputs_.size(); ++i) {
    call->inputs[i] = constant_inputs_[i];
    if (constant_inputs_[i] != nullptr) continue;
    NodeTensor tensor;
    if (!from->Input(i, &tensor)) FailAtInput(i, "is missing");
    ReadShape(i, tensor.shape.sizes, tensor.shape.rank, row_axis_inputs, call->row_axes);
    call->inputs[i] = tensor.data;
  }
  MakeOutputs(from, call);
}

// Checks a shape against the program's line, reads the row axes that it has, and remembers which input told each.
void ElementwiseNode::ReadShape(size_t input, const int64_t* sizes, size_t rank, int* row_axis_inputs,
                                int64_t* row_axes) const {
  const ElementwiseValue& value = program_.values[input];
  const size_t axes = static_cast<size_t>(program_.row_axes);
  const size_t trailing = value.sizes.size();
  // Leading axes of size 1 may be missing or too many in front of the first row axis that the input has.
  size_t needed = trailing;
  for (size_t axis = 0; axis < axes; ++axis) {
    if ((value.row_axes >> axis & 1) != 0) needed = std::max(needed, trailing + axes - axis);
  }
  const bool leading_ones = needed < trailing + axes;
  if (rank < needed || rank > TensorShape::kMaxRank || (!leading_ones && rank != needed)) {
    FailAtShape(input, sizes, rank);
  }
  if (!std::equal(value.sizes.begin(), value.sizes.end(), sizes + rank - trailing)) FailAtShape(input, sizes, rank);
  for (size_t i = 0; i < rank - trailing; ++i) {
    const size_t from_end = rank - trailing - i;  // 1: the last row axis
    const size_t axis = axes - std::min(from_end, axes);
    if (from_end > axes || (value.row_axes >> axis & 1) == 0) {
      if (sizes[i] != 1) FailAtShape(input, sizes, rank);
    } else if (row_axis_inputs[axis] < 0) {
      row_axis_inputs[axis] = static_cast<int>(input);
      row_axes[axis] = sizes[i];
    } else if (sizes[i] != row_axes[axis]) {
      FailAtInput(input, "has " + std::to_string(sizes[i]) + " rows along axis " + std::to_string(i) + " where '" +
                             input_names_[static_cast<size_t>(row_axis_inputs[axis])] + "' has " +
                             std::to_string(row_axes[axis]));
    }
  }
}

void ElementwiseNode::FailAtShape(size_t input, const int64_t* sizes, size_t rank) const {
  const ElementwiseValue& value = program_.values[input];
  std::string expected;
  for (int axis = 0; axis < program_.row_axes; ++axis) {
    expected += std::string(expected.empty() ? "" : ", ") + ((value.row_axes >> axis & 1) != 0 ? "rows" : "1");
  }
  for (const int64_t size : value.sizes) expected += ", " + std::to_string(size);
  const std::string shape = ShapeText(sizes, std::min(rank, TensorShape::kMaxRank));
  FailAtInput(input, "has shape " + shape + ", but the program says [" + expected + "]");
}

void ElementwiseNode::MakeOutputs(NodeCall* to, Call* call) const {
  int64_t shape[TensorShape::kMaxRank];
  const size_t axes = static_cast<size_t>(program_.row_axes);
  std::copy(call->row_axes, call->row_axes + axes, shape);
  for (size_t i = 0; i < program_.outputs.size(); ++i) {
    const ElementwiseValue& value = program_.values[static_cast<size_t>(program_.outputs[i])];
    std::copy(value.sizes.begin(), value.sizes.end(), shape + axes);
    if (!to->Output(i, OnnxType(value.type), shape, axes + value.sizes.size(), &call->outputs[i])) {
      Fail("output " + std::to_string(i) + " has no name, and can't be left out");
    }
  }
}

void ElementwiseNode::Fail(const std::string& problem) const {
  throw OrtError(op_ + " node '" + name_ + "': " + problem);
}

void ElementwiseNode::FailAtInput(size_t input, const std::string& problem) const {
  Fail("input '" + input_names_[input] + "' " + problem);
}

}  // namespace dpiframe
