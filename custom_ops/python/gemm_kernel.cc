#include "gemm_kernel.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/gemm/gemm_cpu.h"

namespace py = pybind11;

namespace {

using dpiframe::GemmProgram;
using Array = py::array_t<float, py::array::c_style>;

class PyGemmProgram {
 public:
  explicit PyGemmProgram(const std::string& text) : program_(dpiframe::ParseGemmProgram(text)) {}

  Array Run(const Array& a, const Array& weight, const std::vector<Array>& operands, int threads) const {
    if (a.ndim() < 1 || a.shape(a.ndim() - 1) != program_.row) throw std::invalid_argument("a has other rows");
    if (weight.size() != program_.k * program_.n) throw std::invalid_argument("the weight has another size");
    if (operands.size() != program_.operands.size()) {
      throw std::invalid_argument("the program takes " + std::to_string(program_.operands.size()) + " operands");
    }
    const int64_t m = a.size() / program_.row;
    std::vector<const float*> addresses;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].size() != dpiframe::GemmOperandElements(program_.operands[i], m, program_.n)) {
        throw std::invalid_argument("operand " + std::to_string(i) + " has another size");
      }
      addresses.push_back(operands[i].data());
    }
    std::vector<py::ssize_t> shape(a.shape(), a.shape() + a.ndim());
    shape.back() = program_.n;
    Array y(shape);
    const dpiframe::GemmCall call{m, a.data(), weight.data(), addresses.data(), y.mutable_data()};
    const py::gil_scoped_release unlocked;
    const int64_t tasks = GemmTaskCount(program_, m);
    const auto run = [&](int thread) {
      for (int64_t task = thread; task < tasks; task += threads) RunGemmTask(program_, call, task);
    };
    std::vector<std::thread> pool;
    for (int thread = 1; thread < threads; ++thread) pool.emplace_back(run, thread);
    run(0);
    for (std::thread& thread : pool) thread.join();
    return y;
  }

 private:
  GemmProgram program_;
};

}  // namespace

void BindGemm(py::module_* module) {
  py::class_<PyGemmProgram>(*module, "GemmProgram",
                            "A program of FusedGemm. Raises ValueError where the text is not one.")
      .def(py::init<const std::string&>(), py::arg("text"))
      .def("run", &PyGemmProgram::Run, py::arg("a"), py::arg("weight"), py::arg("operands") = std::vector<Array>(),
           py::arg("threads") = 1, "Runs the program on float32 arrays. Raises ValueError where shapes don't suit it.");
}
