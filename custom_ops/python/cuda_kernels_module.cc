// The CUDA kernels on device pointers: for benchmarks, and for tests without ONNX Runtime.
#include <cuda_runtime_api.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda_elementwise.h"
#include "cuda_gemm.h"
#include "device_bytes.h"
#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/lookup/lookup_cuda.h"
#include "kernels/lookup/lookup_cpu.h"
#include "kernels/lookup/program.h"

namespace py = pybind11;

namespace {

using dpiframe::ElementType;
using dpiframe::cuda::CheckCuda;
using dpiframe::cuda::CudaLookup;
using dpiframe::cuda::CudaLookupCall;
using dpiframe::cuda::DeviceBytes;

ElementType TypeOf(const std::string& name) {
  static const std::map<std::string, ElementType> types = {{"int32", ElementType::kInt32},
                                                           {"int64", ElementType::kInt64},
                                                           {"float16", ElementType::kFloat16},
                                                           {"float32", ElementType::kFloat32},
                                                           {"float64", ElementType::kFloat64}};
  const auto found = types.find(name);
  if (found == types.end()) throw std::invalid_argument("types are int32, int64, float16, float32 and float64");
  return found->second;
}

// An allocation of its own for every array, so that memory checkers see where it ends.
class PyDeviceArray {
 public:
  explicit PyDeviceArray(const py::array& values) : bytes_(static_cast<size_t>(values.nbytes())), memory_(bytes_) {
    if ((values.flags() & py::array::c_style) == 0) throw std::invalid_argument("arrays must be contiguous");
    if (bytes_ > 0)
      CheckCuda(cudaMemcpy(memory_.data(), values.data(), bytes_, cudaMemcpyHostToDevice), "a copy failed");
  }

  uintptr_t address() const { return reinterpret_cast<uintptr_t>(memory_.data()); }

  py::array_t<uint8_t> Read() const {
    py::array_t<uint8_t> values(static_cast<py::ssize_t>(bytes_));
    if (bytes_ > 0) {
      CheckCuda(cudaMemcpy(values.mutable_data(), memory_.data(), bytes_, cudaMemcpyDeviceToHost), "a copy failed");
    }
    return values;
  }

 private:
  size_t bytes_;
  DeviceBytes memory_;
};

class PyCudaLookup {
 public:
  PyCudaLookup(const std::string& text, const std::vector<std::string>& source_types, const std::string& table_type,
               const std::vector<uintptr_t>& tables, int multiprocessors)
      : program_(dpiframe::ParseLookupProgram(text)) {
    std::vector<ElementType> types;
    for (const std::string& type : source_types) types.push_back(TypeOf(type));
    std::vector<const void*> addresses;
    for (const uintptr_t table : tables) addresses.push_back(reinterpret_cast<const void*>(table));
    if (types.size() != program_.sources.size() || addresses.size() != program_.tables.size()) {
      throw std::invalid_argument("the program lists " + std::to_string(program_.sources.size()) + " sources and " +
                                  std::to_string(program_.tables.size()) + " tables");
    }
    // Checks the types.
    dpiframe::LookupPlan(program_, types, TypeOf(table_type));
    lookup_ = std::make_unique<CudaLookup>(program_, types, TypeOf(table_type), addresses, multiprocessors);
    memory_ = std::make_unique<DeviceBytes>(lookup_->device_bytes());
    scratch_ = std::make_unique<DeviceBytes>(lookup_->scratch_bytes());
    lookup_->Upload(memory_->data());
  }

  void Launch(int64_t rows, const std::vector<uintptr_t>& sources, const std::vector<int64_t>& columns,
              const std::vector<uintptr_t>& tables, const std::vector<uintptr_t>& outputs, uintptr_t stream,
              int rows_per_thread) const {
    if (sources.size() != program_.sources.size() || columns.size() != sources.size() ||
        outputs.size() != program_.outputs.size() || tables.size() != program_.tables.size()) {
      throw std::invalid_argument("the program lists other numbers of sources, tables and outputs");
    }
    CudaLookupCall call{};
    call.rows = rows;
    call.sources = reinterpret_cast<const void* const*>(sources.data());
    call.columns = columns.data();
    call.tables = reinterpret_cast<const void* const*>(tables.data());
    call.outputs = reinterpret_cast<void* const*>(outputs.data());
    call.scratch = scratch_->data();
    call.rows_per_thread = rows_per_thread;
    lookup_->Launch(call, reinterpret_cast<cudaStream_t>(stream));
  }

  std::vector<uint64_t> BadIdCounts() const { return lookup_->ReadCounters(); }

 private:
  dpiframe::LookupProgram program_;
  std::unique_ptr<CudaLookup> lookup_;
  std::unique_ptr<DeviceBytes> memory_;
  std::unique_ptr<DeviceBytes> scratch_;
};

}  // namespace

PYBIND11_MODULE(_cuda_kernels, module) {
  module.doc() = "The CUDA kernels of dpiframe on device pointers.";
  py::class_<PyDeviceArray>(module, "DeviceArray", "A copy of a contiguous array in the memory of the current GPU.")
      .def(py::init<const py::array&>(), py::arg("values"))
      .def_property_readonly("address", &PyDeviceArray::address)
      .def("read", &PyDeviceArray::Read, "Its bytes, behind all work on the default stream.");
  py::class_<PyCudaLookup>(
      module, "CudaLookup",
      "A program of FusedMultiGather on the current GPU. `tables`: the device address of each table, "
      "0 where each launch brings one. multiprocessors: work is shared out as if there were so many; 0: as many as "
      "there are. Raises ValueError where program and types don't fit.")
      .def(py::init<const std::string&, const std::vector<std::string>&, const std::string&,
                    const std::vector<uintptr_t>&, int>(),
           py::arg("text"), py::arg("source_types"), py::arg("table_type"), py::arg("tables"),
           py::arg("multiprocessors") = 0)
      .def(
          "launch", &PyCudaLookup::Launch, py::arg("rows"), py::arg("sources"), py::arg("columns"), py::arg("tables"),
          py::arg("outputs"), py::arg("stream"), py::arg("rows_per_thread") = 0,
          "Puts the work on a stream and returns. All addresses are in device memory and aren't checked; `columns` has "
          "the number of values a row of each source. Launches of one object must not overlap where the program has "
          "more than 384 sources, outputs and changing tables. rows_per_thread: 1, 4, or 0 for what suits the size.")
      .def_property_readonly("bad_id_counts", &PyCudaLookup::BadIdCounts,
                             "Ids outside their table so far, one count for each row and term line.");
  dpiframe::cuda::AddElementwise(&module);
  dpiframe::cuda::AddGemm(&module);
}
