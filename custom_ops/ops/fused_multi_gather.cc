// FusedMultiGather for the CPU provider.
#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../kernels/lookup_cpu.h"
#include "lookup_node.h"
#include "op.h"

namespace dpiframe {
namespace {

// An array that lies on the stack unless it is unusually long.
template <typename T>
class CallArray {
 public:
  explicit CallArray(size_t size) {
    if (size > kInline) heap_.resize(size);
  }
  T* data() { return heap_.empty() ? inline_ : heap_.data(); }
  T& operator[](size_t i) { return data()[i]; }

 private:
  static constexpr size_t kInline = 128;
  T inline_[kInline];
  std::vector<T> heap_;
};

// Shape of a tensor at run time, without a heap allocation of ours.
struct CallShape {
  static constexpr size_t kMaxRank = 16;
  int64_t sizes[kMaxRank];
  size_t rank;
  size_t elements;

  CallShape(const OrtApi& api, const OrtValue* value) {
    OrtTensorTypeAndShapeInfo* info = nullptr;
    Check(api, api.GetTensorTypeAndShape(value, &info));
    const std::unique_ptr<OrtTensorTypeAndShapeInfo, decltype(api.ReleaseTensorTypeAndShapeInfo)> owner(
        info, api.ReleaseTensorTypeAndShapeInfo);
    Check(api, api.GetDimensionsCount(info, &rank));
    Check(api, api.GetDimensions(info, sizes, std::min(rank, kMaxRank)));
    Check(api, api.GetTensorShapeElementCount(info, &elements));
  }
};

class FusedMultiGatherCpu final : public Kernel, public NodeBadIds {
 public:
  explicit FusedMultiGatherCpu(const KernelRequest& request)
      : Kernel(request.api), registry_(request.bad_ids), node_(request), plan_(MakePlan()), counters_(plan_->lines().size()) {
    for (const LookupLine& line : plan_->lines()) labels_.push_back(node_.Label(line.id, line.table));
    for (size_t i = 0; i < node_.table_count(); ++i) constant_tables_.push_back(ConstantTable(request.info, i));
    all_constant_ = std::count(constant_tables_.begin(), constant_tables_.end(), nullptr) == 0;
    registry_->Add(this);
  }

  ~FusedMultiGatherCpu() override { registry_->Remove(this); }

  void Compute(OrtKernelContext* context) override {
    CallArray<const void*> sources(node_.source_count());
    CallArray<int64_t> columns(node_.source_count());
    CallArray<const char*> tables(all_constant_ ? 0 : node_.table_count());
    CallArray<char*> outputs(node_.program().outputs.size());
    LookupCall call{};
    call.sources = sources.data();
    call.columns = columns.data();
    call.tables = all_constant_ ? constant_tables_.data() : tables.data();
    call.outputs = outputs.data();
    call.zeros = plan_->zeros();
    int64_t row_axes[2];
    call.rows = ReadSources(context, sources.data(), columns.data(), row_axes);
    if (!all_constant_) ReadTables(context, tables.data());
    MakeOutputs(context, row_axes, outputs.data());
    if (call.rows > 0) Run(context, call);
  }

  const std::string& node() const override { return node_.name(); }
  const std::vector<std::string>& labels() const override { return labels_; }
  std::vector<uint64_t> Counts() const override { return counters_.Read(); }
  void ResetCounts() override { counters_.Reset(); }

 private:
  std::unique_ptr<LookupPlan> MakePlan() const {
    try {
      return std::make_unique<LookupPlan>(node_.program(), node_.source_types(), node_.table_type());
    } catch (const SourceTypeError& error) {
      node_.FailAtInput(static_cast<size_t>(error.source), error.what());
    }
  }

  // The table's rows if they can't change between calls, else null.
  const char* ConstantTable(const OrtKernelInfo* info, size_t table) const {
    int is_constant = 0;
    const OrtValue* value = nullptr;
    Check(api_, api_.KernelInfoGetConstantInput_tensor(info, node_.table_input(table), &is_constant, &value));
    if (is_constant == 0 || value == nullptr) return nullptr;
    node_.CheckTableShape(table, ValueInfo(api_, value).shape);
    return static_cast<const char*>(TensorData(api_, value));
  }

  const OrtValue* Input(OrtKernelContext* context, size_t index) const {
    const OrtValue* value = nullptr;
    Check(api_, api_.KernelContext_GetInput(context, index, &value));
    if (value == nullptr) node_.FailAtInput(index, "is missing");
    return value;
  }

  // Addresses and columns of the sources, and the row axes; returns the number of rows.
  int64_t ReadSources(OrtKernelContext* context, const void** sources, int64_t* columns, int64_t* row_axes) const {
    int64_t rows = 0;
    for (size_t i = 0; i < node_.source_count(); ++i) {
      const OrtValue* value = Input(context, i);
      const CallShape shape(api_, value);
      if (i == 0) rows = ReadRowAxes(shape, row_axes);
      columns[i] = ReadColumns(i, shape, rows);
      sources[i] = TensorData(api_, value);
    }
    for (const auto& [source, weights] : plan_->equal_columns()) {
      const int64_t expected = columns[source];
      if (rows > 0 && columns[weights] != expected) {
        node_.FailAtInput(static_cast<size_t>(weights), "has " + std::to_string(columns[weights]) +
                                                            " values a row where " + std::to_string(expected) +
                                                            " ids need one each");
      }
    }
    return rows;
  }

  int64_t ReadRowAxes(const CallShape& shape, int64_t* row_axes) const {
    const size_t axes = static_cast<size_t>(node_.program().row_axes);
    if (shape.rank < axes || shape.rank > CallShape::kMaxRank) {
      node_.FailAtInput(0, "has " + std::to_string(shape.rank) + " axes, of which the first " + std::to_string(axes) +
                               " should be the rows");
    }
    const size_t first = node_.program().sources[0].column_layout ? shape.rank - 1 : 0;
    int64_t rows = 1;
    for (size_t i = 0; i < axes; ++i) {
      row_axes[i] = shape.sizes[first + i];
      rows *= row_axes[i];
    }
    return rows;
  }

  int64_t ReadColumns(size_t source, const CallShape& shape, int64_t rows) const {
    const int64_t elements = static_cast<int64_t>(shape.elements);
    const int64_t declared = node_.program().sources[source].columns;
    if (declared != kStar) {
      int64_t expected = 0;
      if (!__builtin_mul_overflow(rows, declared, &expected) && elements == expected) return declared;
    } else {
      if (rows == 0 && elements == 0) return 0;
      if (rows > 0 && elements % rows == 0) return elements / rows;
    }
    node_.FailAtInput(source, "has " + std::to_string(elements) + " elements, but the node's " + std::to_string(rows) +
                                  " rows need " +
                                  (declared == kStar ? "equally many each" : std::to_string(declared) + " each"));
  }

  void ReadTables(OrtKernelContext* context, const char** tables) const {
    for (size_t i = 0; i < node_.table_count(); ++i) {
      tables[i] = constant_tables_[i];
      if (tables[i] != nullptr) continue;
      const OrtValue* value = Input(context, node_.table_input(i));
      node_.CheckTableShape(i, ValueInfo(api_, value).shape);
      tables[i] = static_cast<const char*>(TensorData(api_, value));
    }
  }

  void MakeOutputs(OrtKernelContext* context, const int64_t* row_axes, char** outputs) const {
    int64_t shape[CallShape::kMaxRank];
    const size_t axes = static_cast<size_t>(node_.program().row_axes);
    std::copy(row_axes, row_axes + axes, shape);
    for (size_t i = 0; i < node_.program().outputs.size(); ++i) {
      const std::vector<int64_t>& trailing = node_.program().outputs[i].trailing_shape;
      std::copy(trailing.begin(), trailing.end(), shape + axes);
      OrtValue* value = nullptr;
      Check(api_, api_.KernelContext_GetOutput(context, i, shape, axes + trailing.size(), &value));
      if (value == nullptr) node_.Fail("output " + std::to_string(i) + " has no name, and can't be left out");
      void* data = nullptr;
      Check(api_, api_.GetTensorMutableData(value, &data));
      outputs[i] = static_cast<char*>(data);
    }
  }

  void Run(OrtKernelContext* context, const LookupCall& call) {
    BadIds bad_ids(&counters_);
    const int64_t rows_per_task = plan_->rows_per_task();
    if (call.rows <= rows_per_task) {
      plan_->Run(call, 0, call.rows, &bad_ids);
    } else {
      RunTasks(context, call, rows_per_task, &bad_ids);
    }
    if (node_.program().bad == BadIdPolicy::kError && bad_ids.any()) {
      node_.FailAtId(plan_->lines()[static_cast<size_t>(bad_ids.first().line)], bad_ids.first());
    }
  }

  // Ranges of rows on ONNX Runtime's own threads.
  void RunTasks(OrtKernelContext* context, const LookupCall& call, int64_t rows_per_task, BadIds* bad_ids) {
    struct Tasks {
      FusedMultiGatherCpu* kernel;
      const LookupCall& call;
      int64_t rows_per_task;
      BadIds* bad_ids;
      std::mutex mutex;
      std::exception_ptr error;
    };
    Tasks tasks{this, call, rows_per_task, bad_ids, {}, nullptr};
    const auto run = [](void* data, size_t task) noexcept {
      Tasks& tasks = *static_cast<Tasks*>(data);
      const int64_t begin = static_cast<int64_t>(task) * tasks.rows_per_task;
      const int64_t end = std::min(begin + tasks.rows_per_task, tasks.call.rows);
      BadIds bad_ids(&tasks.kernel->counters_);
      try {
        tasks.kernel->plan_->Run(tasks.call, begin, end, &bad_ids);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(tasks.mutex);
        tasks.error = std::current_exception();
      }
      if (!bad_ids.any()) return;
      const std::lock_guard<std::mutex> lock(tasks.mutex);
      tasks.bad_ids->Merge(bad_ids);
    };
    const size_t count = static_cast<size_t>((call.rows + rows_per_task - 1) / rows_per_task);
    Check(api_, api_.KernelContext_ParallelFor(context, run, count, 0, &tasks));
    if (tasks.error) std::rethrow_exception(tasks.error);
  }

  BadIdRegistry* registry_;
  LookupNode node_;
  std::unique_ptr<LookupPlan> plan_;
  BadIdCounters counters_;
  std::vector<std::string> labels_;
  std::vector<const char*> constant_tables_;
  bool all_constant_ = false;
};

}  // namespace

const OpDefinition kFusedMultiGatherCpu = {
    "FusedMultiGather",
    64,
    nullptr,
    [](const KernelRequest& request) -> Kernel* { return new FusedMultiGatherCpu(request); },
    InferLookupShapes,
};

}  // namespace dpiframe
