#include "lookup_inputs.h"

#include <algorithm>

namespace dpiframe {

LookupInputs::Call::Call(const LookupInputs& inputs)
    : sources(inputs.node().source_count()),
      columns(inputs.node().source_count()),
      tables(inputs.node().table_count()),
      outputs(inputs.node().program().outputs.size()) {}

LookupInputs::LookupInputs(const NodeInfo& info) : node_(info), plan_(MakePlan()) {
  for (const LookupLine& line : plan_->lines()) labels_.push_back(node_.Label(line.id, line.table));
  for (size_t i = 0; i < node_.table_count(); ++i) constant_tables_.push_back(ConstantTable(info, i));
}

std::unique_ptr<LookupPlan> LookupInputs::MakePlan() const {
  try {
    return std::make_unique<LookupPlan>(node_.program(), node_.source_types(), node_.table_type());
  } catch (const SourceTypeError& error) {
    node_.FailAtInput(static_cast<size_t>(error.source), error.what());
  }
}

const void* LookupInputs::ConstantTable(const NodeInfo& info, size_t table) const {
  NodeTensor tensor;
  if (!info.Constant(node_.table_input(table), &tensor)) return nullptr;
  node_.CheckTableShape(table, tensor.shape);
  return tensor.data;
}

void LookupInputs::Read(NodeCall* from, Call* call) const {
  int64_t row_axes[2];
  ReadSources(from, row_axes, call);
  ReadTables(from, call);
  MakeOutputs(from, row_axes, call);
}

NodeTensor LookupInputs::Input(NodeCall* from, size_t index) const {
  NodeTensor tensor;
  if (!from->Input(index, &tensor)) node_.FailAtInput(index, "is missing");
  return tensor;
}

void LookupInputs::ReadSources(NodeCall* from, int64_t* row_axes, Call* call) const {
  for (size_t i = 0; i < node_.source_count(); ++i) {
    const NodeTensor source = Input(from, i);
    if (i == 0) call->rows = ReadRowAxes(source.shape, row_axes);
    call->columns[i] = ReadColumns(i, source.shape.elements, call->rows);
    CheckRows(i, source.shape, row_axes);
    call->sources[i] = source.data;
  }
  for (const auto& [source, weights] : plan_->equal_columns()) {
    const int64_t expected = call->columns[static_cast<size_t>(source)];
    const int64_t columns = call->columns[static_cast<size_t>(weights)];
    if (call->rows > 0 && columns != expected) {
      const bool list = node_.program().sources[static_cast<size_t>(source)].layout == Layout::kList;
      node_.FailAtInput(static_cast<size_t>(weights), "has " + std::to_string(columns) +
                                                          (list ? " values where " : " values a row where ") +
                                                          std::to_string(expected) + " ids need one each");
    }
  }
}

int64_t LookupInputs::ReadRowAxes(const TensorShape& shape, int64_t* row_axes) const {
  const size_t axes = static_cast<size_t>(node_.program().row_axes);
  if (shape.rank < axes || shape.rank > TensorShape::kMaxRank) {
    node_.FailAtInput(0, "has " + std::to_string(shape.rank) + " axes, of which the first " + std::to_string(axes) +
                             " should be the rows");
  }
  const Layout layout = node_.program().sources[0].layout;
  const size_t first = layout == Layout::kRow ? 0 : shape.rank - 1;
  int64_t rows = 1;
  for (size_t i = 0; i < axes; ++i) {
    row_axes[i] = shape.sizes[first + i];
    if (layout == Layout::kBounds) row_axes[i] = std::max<int64_t>(0, row_axes[i] - 1);
    rows *= row_axes[i];
  }
  return rows;
}

// As many elements are not enough: rows of [4, 6] are not those of [6, 4].
void LookupInputs::CheckRows(size_t source, const TensorShape& shape, const int64_t* row_axes) const {
  const Layout layout = node_.program().sources[source].layout;
  if (layout == Layout::kList) return;
  const size_t axes = static_cast<size_t>(node_.program().row_axes);
  // Of a shape of more axes than are kept the first ones are known, and not the last.
  bool same = shape.rank >= axes && (layout == Layout::kRow || shape.rank <= TensorShape::kMaxRank);
  if (same && layout == Layout::kRow) {
    same = std::equal(row_axes, row_axes + axes, shape.sizes);
  } else if (same) {
    const int64_t last = shape.sizes[shape.rank - 1];
    same = row_axes[0] == (layout == Layout::kBounds ? std::max<int64_t>(0, last - 1) : last);
  }
  if (same) return;
  const char* const where = layout == Layout::kRow ? "begin" : "end";
  node_.FailAtInput(source, "has shape " + ShapeText(shape) + ", which should " + where + " with the node's rows, " +
                                ShapeText(row_axes, axes) + (layout == Layout::kBounds ? ", and one more" : ""));
}

int64_t LookupInputs::ReadColumns(size_t source, size_t element_count, int64_t rows) const {
  const int64_t declared = node_.program().sources[source].columns;
  const Layout layout = node_.program().sources[source].layout;
  const int64_t elements = static_cast<int64_t>(element_count);
  if (layout == Layout::kList) return elements;
  if (declared != kStar) {
    // bounds without a single one are those of no bag
    const int64_t each = rows + (layout == Layout::kBounds && elements > 0 ? 1 : 0);
    int64_t expected = 0;
    if (!__builtin_mul_overflow(each, declared, &expected) && elements == expected) return declared;
  } else {
    if (rows == 0 && elements == 0) return 0;
    if (rows > 0 && elements % rows == 0) return elements / rows;
  }
  node_.FailAtInput(source, "has " + std::to_string(elements) + " elements, but the node's " + std::to_string(rows) +
                                " rows need " + (declared == kStar ? "equally many" : std::to_string(declared)) +
                                " each" + (layout == Layout::kBounds ? ", and as many behind the last" : ""));
}

void LookupInputs::ReadTables(NodeCall* from, Call* call) const {
  for (size_t i = 0; i < node_.table_count(); ++i) {
    call->tables[i] = constant_tables_[i];
    if (constant_tables_[i] != nullptr) continue;
    const NodeTensor table = Input(from, node_.table_input(i));
    node_.CheckTableShape(i, table.shape);
    call->tables[i] = table.data;
  }
}

void LookupInputs::MakeOutputs(NodeCall* to, const int64_t* row_axes, Call* call) const {
  const ONNXTensorElementDataType type = node_.table_type() == ElementType::kFloat16
                                             ? ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16
                                             : ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  int64_t shape[TensorShape::kMaxRank];
  const size_t axes = static_cast<size_t>(node_.program().row_axes);
  std::copy(row_axes, row_axes + axes, shape);
  for (size_t i = 0; i < node_.program().outputs.size(); ++i) {
    const std::vector<int64_t>& trailing = node_.program().outputs[i].trailing_shape;
    std::copy(trailing.begin(), trailing.end(), shape + axes);
    if (!to->Output(i, type, shape, axes + trailing.size(), &call->outputs[i])) {
      node_.Fail("output " + std::to_string(i) + " has no name, and can't be left out");
    }
  }
}

}  // namespace dpiframe
