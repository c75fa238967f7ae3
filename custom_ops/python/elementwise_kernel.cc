#include "elementwise_kernel.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/elementwise/elementwise_cpu.h"
#include "kernels/elementwise/program.h"

namespace py = pybind11;

namespace {

using dpiframe::ElementwisePlan;
using dpiframe::ElementwiseProgram;
using dpiframe::ElementwiseValue;
using dpiframe::InstructionSet;
using dpiframe::ScalarType;

constexpr const char* kDtypes[] = {"float32", "float16", "float64", "int32", "int64", "bool"};

py::dtype DtypeOf(ScalarType type) { return py::dtype(kDtypes[static_cast<int>(type)]); }

InstructionSet InstructionSetOf(const std::string& name) {
  if (name == "best") return InstructionSet::kBestOfMachine;
  if (name == "avx2") return InstructionSet::kAvx2;
  if (name == "baseline") return InstructionSet::kBaseline;
  throw std::invalid_argument("instructions must be best, avx2 or baseline");
}

class PyElementwiseProgram {
 public:
  PyElementwiseProgram(const std::string& text, const std::string& instructions, int64_t block_rows,
                       std::vector<py::object> constants)
      : program_(dpiframe::ParseElementwiseProgram(text)), constants_(std::move(constants)) {
    std::vector<const void*> addresses(static_cast<size_t>(program_.inputs));
    for (size_t i = 0; i < constants_.size() && i < addresses.size(); ++i) {
      if (constants_[i].is_none()) continue;
      const py::array array(constants_[i]);
      CheckInput(i, array);
      addresses[i] = array.data();
    }
    plan_ = std::make_unique<ElementwisePlan>(program_, addresses, InstructionSetOf(instructions), block_rows);
  }

  std::vector<py::array> Run(const std::vector<py::array>& inputs, int threads) const {
    if (inputs.size() != static_cast<size_t>(program_.inputs)) {
      throw std::invalid_argument("the program lists " + std::to_string(program_.inputs) + " inputs");
    }
    dpiframe::ElementwiseCall call{{1, 1}, nullptr, nullptr};
    std::vector<const void*> addresses;
    for (size_t i = 0; i < inputs.size(); ++i) {
      CheckInput(i, inputs[i]);
      ReadRows(i, inputs[i], call.row_axes);
      addresses.push_back(inputs[i].data());
    }
    std::vector<py::array> outputs;
    std::vector<void*> results;
    for (const int output : program_.outputs) {
      const ElementwiseValue& value = program_.values[static_cast<size_t>(output)];
      std::vector<py::ssize_t> shape(call.row_axes, call.row_axes + program_.row_axes);
      shape.insert(shape.end(), value.sizes.begin(), value.sizes.end());
      outputs.emplace_back(DtypeOf(value.type), shape);
      results.push_back(outputs.back().mutable_data());
    }
    call.inputs = addresses.data();
    call.outputs = results.data();
    const py::gil_scoped_release unlocked;
    plan_->Run(call, {RunOnThreads, &threads});
    return outputs;
  }

 private:
  void CheckInput(size_t input, const py::array& array) const {
    const ElementwiseValue& value = program_.values[input];
    if (!array.dtype().equal(DtypeOf(value.type))) throw std::invalid_argument(Named(input) + " has another type");
    if ((array.flags() & py::array::c_style) == 0) throw std::invalid_argument(Named(input) + " is not contiguous");
    const py::ssize_t trailing = static_cast<py::ssize_t>(value.sizes.size());
    const py::ssize_t axes = value.row_axes == 0 ? 0 : program_.row_axes;
    bool fits = array.ndim() >= trailing + axes;
    for (py::ssize_t i = 0; fits && i < trailing; ++i) {
      fits = array.shape(array.ndim() - trailing + i) == value.sizes[static_cast<size_t>(i)];
    }
    if (!fits) throw std::invalid_argument(Named(input) + " has another shape than the program says");
  }

  void ReadRows(size_t input, const py::array& array, int64_t* row_axes) const {
    const ElementwiseValue& value = program_.values[input];
    for (int axis = 0; axis < program_.row_axes; ++axis) {
      if ((value.row_axes >> axis & 1) == 0) continue;
      row_axes[axis] =
          array.shape(array.ndim() - static_cast<py::ssize_t>(value.sizes.size()) - program_.row_axes + axis);
    }
  }

  static std::string Named(size_t input) { return "input " + std::to_string(input); }

  static void RunOnThreads(void* runner, void (*task)(void*, size_t), size_t count, void* data) {
    std::atomic<size_t> next{0};
    const auto work = [&] {
      for (size_t index = next++; index < count; index = next++) task(data, index);
    };
    std::vector<std::thread> pool;
    for (int thread = 1; thread < *static_cast<const int*>(runner); ++thread) pool.emplace_back(work);
    work();
    for (std::thread& thread : pool) thread.join();
  }

  ElementwiseProgram program_;
  std::vector<py::object> constants_;  // kept alive
  std::unique_ptr<ElementwisePlan> plan_;
};

}  // namespace

void BindElementwise(py::module_* module) {
  py::class_<PyElementwiseProgram>(
      *module, "ElementwiseProgram",
      "A program of FusedElementwise. Raises ValueError where the text is not one. instructions: best, avx2 or "
      "baseline. block_rows: rows that are worked on at a time; 0: what suits the caches. constants: the arrays of "
      "inputs that never change, None for the others.")
      .def(py::init<const std::string&, const std::string&, int64_t, std::vector<py::object>>(), py::arg("text"),
           py::arg("instructions") = "best", py::arg("block_rows") = 0,
           py::arg("constants") = std::vector<py::object>())
      .def("run", &PyElementwiseProgram::Run, py::arg("inputs"), py::arg("threads") = 1,
           "Runs the program on contiguous arrays, in the program's order; returns one array for each output. Raises "
           "ValueError where types or sizes don't suit the program.");
}
