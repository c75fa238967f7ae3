#include "cuda_elementwise.h"

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "device_bytes.h"
#include "kernels/cuda/compiler/kernel_cache.h"
#include "kernels/cuda/compiler/kernel_loader.h"
#include "kernels/cuda/elementwise/elementwise_cuda.h"
#include "kernels/cuda/elementwise/printer.h"
#include "kernels/cuda/elementwise/schedule.h"

namespace py = pybind11;

namespace dpiframe::cuda {
namespace {

Schedule ScheduleOf(const ElementwiseProgram& program, int lanes) {
  return lanes > 0 ? MakeSchedule(program, lanes) : MakeSchedule(program);
}

std::string PrintSource(const std::string& text, int lanes, bool aligned) {
  const ElementwiseProgram program = ParseElementwiseProgram(text);
  return PrintKernel(program, ScheduleOf(program, lanes), aligned).source;
}

py::dict DescribeStage(const Stage& stage) {
  static constexpr const char* kKinds[] = {"singles", "elements", "reduction"};
  py::dict described;
  described["kind"] = kKinds[static_cast<int>(stage.kind)];
  described["outer"] = stage.outer;
  described["inner"] = stage.inner;
  described["values"] = stage.values;
  described["outputs"] = stage.outputs;
  described["waits"] = stage.waits;
  described["width"] = stage.width;
  described["outer_lanes"] = stage.outer_lanes;
  described["inner_lanes"] = stage.inner_lanes;
  return described;
}

py::dict DescribeSchedule(const std::string& text, int lanes) {
  static constexpr const char* kHomes[] = {"nowhere", "every", "lane", "shared", "scratch"};
  const Schedule schedule = ScheduleOf(ParseElementwiseProgram(text), lanes);
  py::list homes;
  for (const Home home : schedule.homes) homes.append(kHomes[static_cast<int>(home)]);
  py::list stages;
  for (const Stage& stage : schedule.stages) stages.append(DescribeStage(stage));
  py::dict described;
  described["lanes"] = schedule.lanes;
  described["homes"] = homes;
  described["stages"] = stages;
  described["shared_bytes"] = schedule.shared_bytes;
  described["scratch_bytes"] = schedule.scratch_bytes;
  return described;
}

class PyCudaElementwise {
 public:
  PyCudaElementwise(const std::string& text, bool compiles, int lanes) {
    int device = 0;
    CheckCuda(cudaGetDevice(&device), "the current GPU can't be read");
    ElementwiseProgram program = ParseElementwiseProgram(text);
    inputs_ = static_cast<size_t>(program.inputs);
    outputs_ = program.outputs.size();
    elementwise_ = std::make_unique<CudaElementwise>(std::move(program), device, compiles, lanes);
    memory_ = std::make_unique<DeviceBytes>(elementwise_->device_bytes());
    elementwise_->Upload(memory_->data());
  }

  void Launch(const std::vector<int64_t>& row_axes, const std::vector<uintptr_t>& inputs,
              const std::vector<uintptr_t>& outputs, uintptr_t stream) {
    const ElementwiseCall call = CallOf(row_axes, inputs, outputs);
    if (call.rows() == 0) return;
    const ElementwiseLaunch launch = elementwise_->Plan(call);
    if (launch.scratch_bytes > scratch_bytes_) {
      scratch_ = std::make_unique<DeviceBytes>(launch.scratch_bytes);
      scratch_bytes_ = launch.scratch_bytes;
    }
    elementwise_->Launch(call, launch, scratch_ ? scratch_->data() : nullptr, reinterpret_cast<cudaStream_t>(stream));
  }

  size_t ScratchBytes(const std::vector<int64_t>& row_axes, const std::vector<uintptr_t>& inputs,
                      const std::vector<uintptr_t>& outputs) const {
    return elementwise_->Plan(CallOf(row_axes, inputs, outputs)).scratch_bytes;
  }

  bool is_compiled() const { return elementwise_->is_compiled(); }

 private:
  ElementwiseCall CallOf(const std::vector<int64_t>& row_axes, const std::vector<uintptr_t>& inputs,
                         const std::vector<uintptr_t>& outputs) const {
    if (inputs.size() != inputs_ || outputs.size() != outputs_ || row_axes.empty() || row_axes.size() > 2) {
      throw std::invalid_argument("the program lists other numbers of row axes, inputs and outputs");
    }
    return {{row_axes[0], row_axes.size() > 1 ? row_axes[1] : 1},
            reinterpret_cast<const void* const*>(inputs.data()),
            reinterpret_cast<void* const*>(outputs.data())};
  }

  size_t inputs_;
  size_t outputs_;
  std::unique_ptr<CudaElementwise> elementwise_;
  std::unique_ptr<DeviceBytes> memory_;
  std::unique_ptr<DeviceBytes> scratch_;
  size_t scratch_bytes_ = 0;
};

void AddCache(py::module_* module) {
  py::class_<KernelCache>(*module, "KernelCache", "Compiled kernels in a folder.")
      .def(py::init<std::string, uint64_t>(), py::arg("folder"), py::arg("max_bytes"))
      .def("find",
           [](const KernelCache& cache, const std::string& key) -> std::optional<py::bytes> {
             const std::optional<std::string> code = cache.Find(key);
             if (!code) return std::nullopt;
             return py::bytes(*code);
           })
      .def("store",
           [](const KernelCache& cache, const std::string& key, const py::bytes& code) { cache.Store(key, code); });
}

}  // namespace

void AddElementwise(py::module_* module) {
  module->def("print_elementwise", &PrintSource, py::arg("text"), py::arg("lanes") = 0, py::arg("aligned") = true,
              "A program of FusedElementwise as CUDA C++. lanes: of a team, 0 for what the cost model finds best. "
              "aligned: whether addresses suit accesses of several elements.");
  module->def("elementwise_schedule", &DescribeSchedule, py::arg("text"), py::arg("lanes") = 0,
              "How a program is computed: where values are kept, and the stages.");
  module->def(
      "compile_source",
      [](const std::string& source, int capability) { return py::bytes(CompileSource(source, capability)); },
      py::arg("source"), py::arg("capability"),
      "What NVRTC makes of a source for a compute capability (90 for 9.0). Raises RuntimeError.");
  py::class_<PyCudaElementwise>(*module, "CudaElementwise",
                                "A program of FusedElementwise on the current GPU; not compiled, it is interpreted.")
      .def(py::init<const std::string&, bool, int>(), py::arg("text"), py::arg("compiles") = true, py::arg("lanes") = 0)
      .def("launch", &PyCudaElementwise::Launch, py::arg("row_axes"), py::arg("inputs"), py::arg("outputs"),
           py::arg("stream"),
           "Puts the work on a stream and returns. All addresses are in device memory. Launches of one object must "
           "not overlap where it needs scratch memory.")
      .def("scratch_bytes", &PyCudaElementwise::ScratchBytes, py::arg("row_axes"), py::arg("inputs"),
           py::arg("outputs"), "How much scratch memory such a launch takes.")
      .def_property_readonly("is_compiled", &PyCudaElementwise::is_compiled, "Whether a printed kernel runs.");
  AddCache(module);
}

}  // namespace dpiframe::cuda
