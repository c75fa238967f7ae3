#include "cuda_gemm.h"

#include <pybind11/stl.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "device_bytes.h"
#include "kernels/cuda/gemm/gemm_cuda.h"

namespace py = pybind11;

namespace dpiframe::cuda {
namespace {

int CurrentDevice() {
  int device = 0;
  CheckCuda(cudaGetDevice(&device), "the current GPU can't be read");
  return device;
}

class PyCudaGemm {
 public:
  PyCudaGemm(const std::string& text, uintptr_t weight, int multiprocessors)
      : program_(ParseGemmProgram(text)),
        gemm_(program_, reinterpret_cast<const float*>(weight), CurrentDevice(), multiprocessors) {
    if (weight == 0) return;
    memory_ = std::make_unique<DeviceBytes>(gemm_.device_bytes());
    gemm_.Prepare(memory_->data());
  }

  void Launch(int64_t m, uintptr_t a, uintptr_t weight, const std::vector<uintptr_t>& operands, uintptr_t y,
              uintptr_t stream, int kernel) {
    if (operands.size() != program_.operands.size()) {
      throw std::invalid_argument("the program takes " + std::to_string(program_.operands.size()) + " operands");
    }
    const size_t count = gemm_.kernel_names().size();
    if (kernel < -1 || kernel >= static_cast<int>(count)) {
      throw py::index_error("kernel is " + std::to_string(kernel) + ": -1 to " + std::to_string(count - 1) +
                            " were expected");
    }
    const size_t bytes = gemm_.scratch_bytes(m, kernel);
    if (bytes > scratch_bytes_) {
      scratch_ = std::make_unique<DeviceBytes>(bytes);
      scratch_bytes_ = bytes;
    }
    CudaGemmCall call{};
    call.m = m;
    call.a = reinterpret_cast<const float*>(a);
    call.weight = reinterpret_cast<const float*>(weight);
    call.operands = reinterpret_cast<const float* const*>(operands.data());
    call.y = reinterpret_cast<float*>(y);
    call.scratch = scratch_ ? scratch_->data() : nullptr;
    call.kernel = kernel;
    gemm_.Launch(call, reinterpret_cast<cudaStream_t>(stream));
  }

  std::vector<std::string> kernel_names() const { return gemm_.kernel_names(); }
  int KernelFor(int64_t m) const { return gemm_.KernelFor(m); }

 private:
  GemmProgram program_;
  CudaGemm gemm_;
  std::unique_ptr<DeviceBytes> memory_;
  std::unique_ptr<DeviceBytes> scratch_;
  size_t scratch_bytes_ = 0;
};

}  // namespace

void AddGemm(py::module_* module) {
  py::class_<PyCudaGemm>(
      *module, "CudaGemm",
      "A program of FusedGemm on the current GPU. weight: its device address, which must stay valid, "
      "or 0 where each launch brings one. multiprocessors: to use no more than these; 0: all.")
      .def(py::init<const std::string&, uintptr_t, int>(), py::arg("text"), py::arg("weight"),
           py::arg("multiprocessors") = 0)
      .def("launch", &PyCudaGemm::Launch, py::arg("m"), py::arg("a"), py::arg("weight"), py::arg("operands"),
           py::arg("y"), py::arg("stream"), py::arg("kernel") = -1,
           "Puts the work on a stream and returns. All addresses are in device memory and aren't checked. Launches of "
           "one object must not overlap where it needs scratch memory. kernel: an index of kernel_names, or -1 for "
           "what suits the size.")
      .def_property_readonly("kernel_names", &PyCudaGemm::kernel_names, "The kernels that this GPU can run.")
      .def("kernel_for", &PyCudaGemm::KernelFor, py::arg("m"), "The index of the kernel that suits m rows.");
}

}  // namespace dpiframe::cuda
