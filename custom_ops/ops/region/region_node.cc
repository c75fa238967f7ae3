#include "region_node.h"

namespace dpiframe {
namespace {

// What a region's node sees at its kernel's creation.
class RegionNodeInfo final : public NodeInfo {
 public:
  RegionNodeInfo(const NodeInfo& region, const RegionNode& node, const std::vector<ONNXTensorElementDataType>& types)
      : region_(region), node_(node), types_(types) {}

  const OrtApi& api() const override { return region_.api(); }
  const OrtKernelInfo* kernel_info() const override { return region_.kernel_info(); }
  BadIdRegistry* bad_ids() const override { return region_.bad_ids(); }
  std::string op() const override { return node_.op; }
  std::string name() const override { return node_.name; }
  std::string program() const override { return node_.program; }
  size_t input_count() const override { return node_.operands.size(); }
  size_t output_count() const override { return node_.results.size(); }

  std::string input_name(size_t input) const override {
    const size_t value = Value(input);
    return value < region_.input_count() ? region_.input_name(value) : "value " + std::to_string(value);
  }
  ONNXTensorElementDataType input_type(size_t input) const override { return types_[Value(input)]; }
  bool Constant(size_t input, NodeTensor* tensor) const override {
    return Value(input) < region_.input_count() && region_.Constant(Value(input), tensor);
  }

 private:
  size_t Value(size_t input) const { return static_cast<size_t>(node_.operands[input]); }

  const NodeInfo& region_;
  const RegionNode& node_;
  const std::vector<ONNXTensorElementDataType>& types_;
};

// What a region's node sees when shapes are inferred.
class RegionNodeShapes final : public NodeShapes {
 public:
  RegionNodeShapes(const RegionNode& node, std::vector<InferredTensor>* values) : node_(node), values_(*values) {}

  std::string program() const override { return node_.program; }
  size_t input_count() const override { return node_.operands.size(); }
  InferredTensor Input(size_t input) const override { return values_[static_cast<size_t>(node_.operands[input])]; }
  void SetOutput(size_t output, const InferredTensor& tensor) override {
    if (output < node_.results.size()) values_[static_cast<size_t>(node_.results[output])] = tensor;
  }

 private:
  const RegionNode& node_;
  std::vector<InferredTensor>& values_;
};

// The ops that a region can hold: regions hold no regions.
const OpDefinition* FindNodeOp(const std::string& name, const char* provider) {
  return name == "ParallelRegion" ? nullptr : FindOp(name, provider);
}

// Types and shapes of all values, from those of the inputs. What is wrong with a node, its kernel will say.
void InferValues(const RegionProgram& program, std::vector<InferredTensor>* values) {
  values->resize(static_cast<size_t>(program.values));
  for (const RegionNode& node : program.nodes) {
    const OpDefinition* op = FindNodeOp(node.op, nullptr);
    if (op == nullptr) continue;
    RegionNodeShapes shapes(node, values);
    try {
      op->infer_shapes(&shapes);
    } catch (const ProgramError&) {
      continue;
    }
  }
}

[[noreturn]] void Fail(const NodeInfo& info, const std::string& problem) {
  throw OrtError(info.op() + " node '" + info.name() + "': " + problem);
}

RegionProgram Parse(const NodeInfo& info) {
  RegionProgram program;
  try {
    program = ParseRegionProgram(info.program());
  } catch (const ProgramError& error) {
    Fail(info, std::string("attribute 'program', ") + error.what());
  }
  if (info.input_count() != static_cast<size_t>(program.inputs)) {
    Fail(info, "has " + std::to_string(info.input_count()) + " inputs, but its program says " +
                   std::to_string(program.inputs));
  }
  if (info.output_count() != program.outputs.size()) {
    Fail(info, "has " + std::to_string(info.output_count()) + " outputs, but its program lists " +
                   std::to_string(program.outputs.size()));
  }
  return program;
}

}  // namespace

Region::Region(const NodeInfo& info, const char* provider) : name_(info.name()), program_(Parse(info)) {
  // Kernels are told types alone, so any unknown sizes will do, as many as an operator may ask for: a tensor with fewer
  // would stand for an unknown one.
  std::vector<InferredTensor> values(info.input_count());
  for (size_t i = 0; i < values.size(); ++i) values[i] = {info.input_type(i), SymbolicSizes(TensorShape::kMaxRank)};
  InferValues(program_, &values);
  for (const InferredTensor& value : values) types_.push_back(value.type);
  for (const RegionNode& node : program_.nodes) {
    const OpDefinition* op = FindNodeOp(node.op, provider);
    if (op == nullptr) Fail(info, "its node '" + node.name + "' is a " + node.op + ", which no region can hold");
    kernels_.emplace_back(op->create_kernel(RegionNodeInfo(info, node, types_)));
  }
}

RegionValues::RegionValues(const RegionProgram& program, NodeCall* call)
    : call_(call),
      program_(program),
      tensors_(static_cast<size_t>(program.values)),
      there_(static_cast<size_t>(program.values), false),
      outputs_(static_cast<size_t>(program.values), -1) {
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    outputs_[static_cast<size_t>(program.outputs[i])] = static_cast<int>(i);
  }
}

const NodeTensor& RegionValues::Get(int value) {
  const size_t index = static_cast<size_t>(value);
  if (!there_[index] && value < program_.inputs) {
    call_->Input(index, &tensors_[index]);
    there_[index] = true;
  }
  return tensors_[index];
}

void RegionValues::SetOutput(size_t output, void* data, const TensorShape& shape) {
  const size_t index = static_cast<size_t>(program_.outputs[output]);
  tensors_[index] = {data, shape};
  there_[index] = true;
}

void* RegionValues::Make(int value, ONNXTensorElementDataType type, const int64_t* sizes, size_t rank) {
  const size_t index = static_cast<size_t>(value);
  NodeTensor& tensor = tensors_[index];
  if (there_[index]) return const_cast<void*>(tensor.data);
  tensor.shape = TensorShape(sizes, rank);
  void* data = nullptr;
  const bool leaves =
      outputs_[index] >= 0 && call_->Output(static_cast<size_t>(outputs_[index]), type, sizes, rank, &data);
  const size_t bytes = tensor.shape.elements * ElementBytes(type);
  if (!leaves && bytes > 0) data = Allocate(value, bytes);
  tensor.data = data;
  there_[index] = true;
  return data;
}

size_t ElementBytes(ONNXTensorElementDataType type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
      return 1;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      return 2;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
      return 8;
    default:
      return 4;
  }
}

void InferRegionShapes(NodeShapes* shapes) {
  const RegionProgram program = ParseRegionProgram(shapes->program());
  if (shapes->input_count() != static_cast<size_t>(program.inputs)) return;  // the kernel will say so
  std::vector<InferredTensor> values;
  for (size_t i = 0; i < shapes->input_count(); ++i) values.push_back(shapes->Input(i));
  InferValues(program, &values);
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const InferredTensor& value = values[static_cast<size_t>(program.outputs[i])];
    if (value.type != ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) shapes->SetOutput(i, value);
  }
}

}  // namespace dpiframe
