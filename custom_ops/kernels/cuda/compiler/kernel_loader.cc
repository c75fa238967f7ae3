#include "kernel_loader.h"

#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "compile_queue.h"
#include "kernel_cache.h"
#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/device/device_attribute.h"
#include "kernels/cuda/device/device_scope.h"
#include "nvrtc.h"

namespace dpiframe::cuda {
namespace {

LoadedKernel LoadCode(const std::string& code, const char* name, int device) {
  const DeviceScope scope(device);
  cudaLibrary_t library = nullptr;
  CheckCuda(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
            "a compiled kernel can't be loaded");
  LoadedKernel loaded;
  CheckCuda(cudaLibraryGetKernel(&loaded.kernel, library, name), "a compiled kernel is missing");
  // Kernels reach the device at their first use, which must not fall into the capture of a graph.
  cudaFuncAttributes attributes{};
  CheckCuda(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(loaded.kernel)),
            "a kernel can't be loaded");
  loaded.waits = attributes.ptxVersion >= 90;
  loaded.registers = attributes.numRegs;
  return loaded;
}

LoadedKernel CompileAndLoad(const std::string& source, const std::string& target, const char* name, int device) {
  const Nvrtc& nvrtc = *Nvrtc::Get();
  const KernelCache& cache = KernelCache::Default();
  const std::string key = target + "\nNVRTC " + nvrtc.version() + "\n" + source;
  if (const auto code = cache.Find(key)) {
    try {
      return LoadCode(*code, name, device);
    } catch (const CudaError&) {
      cudaGetLastError();  // compiled anew below
    }
  }
  const std::string code = nvrtc.Compile(source, target);
  const LoadedKernel loaded = LoadCode(code, name, device);
  cache.Store(key, code);
  return loaded;
}

void SayOnce(const std::string& problem) {
  static std::once_flag said;
  std::call_once(said, [&] {
    std::fprintf(stderr, "dpiframe: a fused elementwise node runs on a kernel that is several times slower: %s\n",
                 problem.c_str());
  });
}

int CapabilityOf(int device) {
  return DeviceAttribute(cudaDevAttrComputeCapabilityMajor, device) * 10 +
         DeviceAttribute(cudaDevAttrComputeCapabilityMinor, device);
}

struct LoadedKernels {
  std::mutex mutex;
  std::map<std::string, KernelFuture> all;
};

// Never destroyed: kernels may outlive static objects.
LoadedKernels& AllKernels() {
  static LoadedKernels* const kernels = new LoadedKernels();
  return *kernels;
}

}  // namespace

KernelFuture LoadKernel(const std::string& source, const char* name, int device) {
  const std::string target = Nvrtc::Get()->TargetFor(CapabilityOf(device));
  const std::string key = std::to_string(device) + "\n" + target + "\n" + source;
  LoadedKernels& kernels = AllKernels();
  const std::lock_guard<std::mutex> lock(kernels.mutex);
  const auto found = kernels.all.find(key);
  if (found != kernels.all.end()) return found->second;
  const auto promise = std::make_shared<std::promise<LoadedKernel>>();
  const KernelFuture future = kernels.all[key] = promise->get_future().share();
  CompileQueue::Get().Add([promise, source, target, name, device] {
    LoadedKernel loaded;
    try {
      loaded = CompileAndLoad(source, target, name, device);
    } catch (const std::exception& error) {
      SayOnce(error.what());
    }
    promise->set_value(loaded);
  });
  return future;
}

std::string CompileSource(const std::string& source, int capability) {
  const Nvrtc* nvrtc = Nvrtc::Get();
  if (nvrtc == nullptr) throw CompileError("there is no NVRTC");
  return nvrtc->Compile(source, nvrtc->TargetFor(capability));
}

}  // namespace dpiframe::cuda
