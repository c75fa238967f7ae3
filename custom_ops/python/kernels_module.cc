// The kernels on numpy arrays: for tests and benchmarks, without ONNX Runtime.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "elementwise_kernel.h"
#include "gemm_kernel.h"
#include "kernels/lookup/lookup_cpu.h"
#include "kernels/lookup/program.h"

namespace py = pybind11;

namespace {

using dpiframe::BadIdCounters;
using dpiframe::BadIds;
using dpiframe::ElementType;
using dpiframe::LookupCall;
using dpiframe::LookupPlan;
using dpiframe::LookupProgram;

ElementType TypeOf(const py::array& array) {
  const char kind = array.dtype().kind();
  const py::ssize_t size = array.dtype().itemsize();
  if (kind == 'i' && size == 4) return ElementType::kInt32;
  if (kind == 'i' && size == 8) return ElementType::kInt64;
  if (kind == 'f' && size == 2) return ElementType::kFloat16;
  if (kind == 'f' && size == 4) return ElementType::kFloat32;
  if (kind == 'f' && size == 8) return ElementType::kFloat64;
  throw std::invalid_argument("arrays must be int32, int64, float16, float32 or float64");
}

void CheckContiguous(const py::array& array) {
  if ((array.flags() & py::array::c_style) == 0) throw std::invalid_argument("arrays must be contiguous");
}

class PyLookupProgram {
 public:
  PyLookupProgram(const std::string& text, bool baseline)
      : program_(dpiframe::ParseLookupProgram(text)),
        instruction_set_(baseline ? dpiframe::InstructionSet::kBaseline : dpiframe::InstructionSet::kBestOfMachine) {}

  std::vector<py::array> Run(const std::vector<py::array>& sources, const std::vector<py::array>& tables, int threads) {
    const LookupPlan& plan = PlanFor(sources, tables);
    std::vector<int64_t> columns(sources.size());
    std::vector<const void*> source_data(sources.size());
    std::vector<const void*> table_data(tables.size());
    const std::vector<py::ssize_t> row_axes = RowAxes(sources);
    int64_t rows = 1;
    for (const py::ssize_t axis : row_axes) rows *= axis;
    for (size_t i = 0; i < sources.size(); ++i) {
      CheckContiguous(sources[i]);
      columns[i] = ColumnsOf(i, sources[i].size(), rows);
      source_data[i] = sources[i].data();
    }
    for (const auto& [source, weights] : plan.equal_columns()) {
      if (rows > 0 && columns[source] != columns[weights]) {
        throw std::invalid_argument("source " + std::to_string(weights) +
                                    " has another number of columns than source " + std::to_string(source));
      }
    }
    for (size_t i = 0; i < tables.size(); ++i) table_data[i] = tables[i].data();
    std::vector<py::array> outputs;
    std::vector<void*> output_data;
    const py::dtype type(plan_type_ == ElementType::kFloat16 ? "float16" : "float32");
    for (const dpiframe::ProgramOutput& output : program_.outputs) {
      std::vector<py::ssize_t> shape = row_axes;
      shape.insert(shape.end(), output.trailing_shape.begin(), output.trailing_shape.end());
      outputs.emplace_back(type, shape);
      output_data.push_back(outputs.back().mutable_data());
    }
    LookupCall call{rows, source_data.data(), columns.data(), table_data.data(), output_data.data(), plan.zeros()};
    BadIds bad_ids(counters_.get());
    {
      const py::gil_scoped_release unlocked;
      RunOnThreads(plan, call, std::max(threads, 1), &bad_ids);
    }
    if (program_.bad == dpiframe::BadIdPolicy::kError && bad_ids.any()) {
      throw py::index_error("line " + std::to_string(bad_ids.first().line) + ", row " +
                            std::to_string(bad_ids.first().row) + ": id " + std::to_string(bad_ids.first().value) +
                            " is outside its table");
    }
    return outputs;
  }

  std::vector<uint64_t> BadIdCounts() const { return counters_ ? counters_->Read() : std::vector<uint64_t>(); }

 private:
  // The plan for these types, made at the first call and kept.
  const LookupPlan& PlanFor(const std::vector<py::array>& sources, const std::vector<py::array>& tables) {
    if (sources.size() != program_.sources.size() || tables.size() != program_.tables.size()) {
      throw std::invalid_argument("the program lists " + std::to_string(program_.sources.size()) + " sources and " +
                                  std::to_string(program_.tables.size()) + " tables");
    }
    std::vector<ElementType> types;
    for (const py::array& source : sources) types.push_back(TypeOf(source));
    ElementType table_type = ElementType::kFloat32;
    for (size_t i = 0; i < tables.size(); ++i) {
      CheckContiguous(tables[i]);
      table_type = TypeOf(tables[i]);
      if (table_type != ElementType::kFloat32 && table_type != ElementType::kFloat16) {
        throw std::invalid_argument("table " + std::to_string(i) + " must be float32 or float16");
      }
      if (table_type != TypeOf(tables[0])) throw std::invalid_argument("tables must all have the same type");
      if (tables[i].ndim() != 2 || tables[i].shape(0) != program_.tables[i].rows ||
          tables[i].shape(1) != program_.tables[i].dim) {
        throw std::invalid_argument("table " + std::to_string(i) + " has another shape than the program says");
      }
    }
    if (!plan_ || types != plan_types_ || table_type != plan_type_) {
      plan_ = std::make_unique<LookupPlan>(program_, types, table_type, instruction_set_);
      plan_types_ = types;
      plan_type_ = table_type;
      if (!counters_) counters_ = std::make_unique<BadIdCounters>(plan_->lines().size());
    }
    return *plan_;
  }

  std::vector<py::ssize_t> RowAxes(const std::vector<py::array>& sources) const {
    const py::array& first = sources[0];
    if (first.ndim() < program_.row_axes) throw std::invalid_argument("source 0 has too few axes");
    const py::ssize_t* shape = first.shape();
    const dpiframe::Layout layout = program_.sources[0].layout;
    if (layout == dpiframe::Layout::kColumn) return {shape[first.ndim() - 1]};
    if (layout == dpiframe::Layout::kBounds) return {std::max<py::ssize_t>(0, shape[first.ndim() - 1] - 1)};
    return {shape, shape + program_.row_axes};
  }

  int64_t ColumnsOf(size_t source, int64_t elements, int64_t rows) const {
    const int64_t declared = program_.sources[source].columns;
    const dpiframe::Layout layout = program_.sources[source].layout;
    if (layout == dpiframe::Layout::kList) return elements;
    const int64_t each = rows + (layout == dpiframe::Layout::kBounds && elements > 0 ? 1 : 0);
    if (declared != dpiframe::kStar && elements == each * declared) return declared;
    if (declared == dpiframe::kStar && rows == 0 && elements == 0) return 0;
    if (declared == dpiframe::kStar && rows > 0 && elements % rows == 0) return elements / rows;
    throw std::invalid_argument("source " + std::to_string(source) + " has the wrong number of elements");
  }

  static void RunOnThreads(const LookupPlan& plan, const LookupCall& call, int threads, BadIds* bad_ids) {
    std::vector<BadIds> parts(static_cast<size_t>(threads), *bad_ids);
    std::vector<std::exception_ptr> errors(static_cast<size_t>(threads));
    const auto run = [&](int thread) {
      const size_t part = static_cast<size_t>(thread);
      try {
        plan.Run(call, call.rows * thread / threads, call.rows * (thread + 1) / threads, &parts[part]);
      } catch (...) {
        errors[part] = std::current_exception();
      }
    };
    std::vector<std::thread> pool;
    for (int thread = 1; thread < threads; ++thread) pool.emplace_back(run, thread);
    run(0);
    for (std::thread& thread : pool) thread.join();
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    for (const BadIds& part : parts) bad_ids->Merge(part);
  }

  LookupProgram program_;
  dpiframe::InstructionSet instruction_set_;
  std::unique_ptr<LookupPlan> plan_;
  std::vector<ElementType> plan_types_;
  ElementType plan_type_ = ElementType::kFloat32;
  std::unique_ptr<BadIdCounters> counters_;
};

}  // namespace

PYBIND11_MODULE(_kernels, module) {
  module.doc() = "The CPU kernels of dpiframe on numpy arrays.";
  BindElementwise(&module);
  BindGemm(&module);
  py::class_<PyLookupProgram>(
      module, "LookupProgram",
      "A program of FusedMultiGather. Raises ValueError where the text is not one. With baseline, "
      "instructions that only newer processors have are left alone.")
      .def(py::init<const std::string&, bool>(), py::arg("text"), py::arg("baseline") = false)
      .def("run", &PyLookupProgram::Run, py::arg("sources"), py::arg("tables"), py::arg("threads") = 1,
           "Runs the program on contiguous arrays, in the program's order; returns one array for each output. Raises "
           "ValueError where types or shapes don't suit the program, IndexError for an id outside its table where the "
           "policy is error.")
      .def_property_readonly("bad_id_counts", &PyLookupProgram::BadIdCounts,
                             "Ids outside their table so far, one count for each row and term line.");
}
