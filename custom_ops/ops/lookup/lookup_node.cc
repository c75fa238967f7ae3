#include "lookup_node.h"

namespace dpiframe {

LookupNode::LookupNode(const NodeInfo& info) : op_(info.op()), name_(info.name()) {
  try {
    program_ = ParseLookupProgram(info.program());
  } catch (const ProgramError& error) {
    Fail(std::string("attribute 'program', ") + error.what());
  }
  const size_t inputs = info.input_count();
  const size_t outputs = info.output_count();
  if (inputs != source_count() + table_count()) {
    Fail("has " + std::to_string(inputs) + " inputs, but its program lists " + std::to_string(source_count()) +
         " sources and " + std::to_string(table_count()) + " tables");
  }
  if (outputs != program_.outputs.size()) {
    Fail("has " + std::to_string(outputs) + " outputs, but its program lists " +
         std::to_string(program_.outputs.size()));
  }
  for (size_t i = 0; i < inputs; ++i) input_names_.push_back(info.input_name(i));
  for (size_t i = 0; i < source_count(); ++i) source_types_.push_back(ReadType(info, i));
  for (size_t i = 0; i < table_count(); ++i) {
    const ElementType type = ReadType(info, table_input(i));
    if (type != ElementType::kFloat32 && type != ElementType::kFloat16) {
      FailAtInput(table_input(i), "is a table, so it must be float32 or float16");
    }
    if (i > 0 && type != table_type_) FailAtInput(table_input(i), "has another type than the node's first table");
    table_type_ = type;
  }
}

ElementType LookupNode::ReadType(const NodeInfo& info, size_t input) const {
  switch (info.input_type(input)) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
      return ElementType::kInt32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
      return ElementType::kInt64;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return ElementType::kFloat32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
      return ElementType::kFloat64;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      return ElementType::kFloat16;
    default:
      FailAtInput(input, "has a type other than int32, int64, float32, float64 and float16");
  }
}

std::string LookupNode::Label(const IdExpression& id, int table) const {
  const std::string table_name = input_names_[table_input(static_cast<size_t>(table))];
  if (id.source < 0) return IdText(id) + " -> " + table_name;
  const size_t source = static_cast<size_t>(id.source);
  std::string label = input_names_[source];
  if (program_.sources[source].columns != 1) {
    label += "[" + (id.column == kStar ? std::string("*") : std::to_string(id.column)) + "]";
  }
  return label + " -> " + table_name;
}

void LookupNode::CheckTableShape(size_t table, const TensorShape& shape) const {
  const ProgramTable& expected = program_.tables[table];
  if (shape.rank == 2 && shape.sizes[0] == expected.rows && shape.sizes[1] == expected.dim) return;
  FailAtInput(table_input(table), "has shape " + ShapeText(shape) + ", but the program says [" +
                                      std::to_string(expected.rows) + ", " + std::to_string(expected.dim) + "]");
}

void LookupNode::Fail(const std::string& problem) const { throw OrtError(op_ + " node '" + name_ + "': " + problem); }

void LookupNode::FailAtInput(size_t input, const std::string& problem) const {
  Fail("input '" + input_names_[input] + "' " + problem);
}

void LookupNode::FailAtId(const LookupLine& line, const BadIds::First& bad) const {
  const int64_t rows = program_.tables[static_cast<size_t>(line.table)].rows;
  Fail(Label(line.id, line.table) + ": id " + std::to_string(bad.value) + " in row " + std::to_string(bad.row) +
       " is outside the table, which takes " + std::to_string(-rows) + " to " + std::to_string(rows - 1));
}

}  // namespace dpiframe
