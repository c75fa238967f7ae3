#include "nvrtc.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "nvrtc_library.h"

namespace dpiframe::cuda {

// As nvrtc.h of CUDA declares them; they are the same in versions 12 and 13.
struct Nvrtc::Functions {
  using Program = struct OpaqueProgram*;
  int (*version)(int* major, int* minor);
  int (*target_count)(int* count);
  int (*targets)(int* targets);
  int (*create)(Program* program, const char* source, const char* name, int headers, const char* const* texts,
                const char* const* names);
  int (*compile)(Program program, int count, const char* const* options);
  int (*log_size)(Program program, size_t* size);
  int (*log)(Program program, char* text);
  int (*cubin_size)(Program program, size_t* size);
  int (*cubin)(Program program, char* code);
  int (*ptx_size)(Program program, size_t* size);
  int (*ptx)(Program program, char* code);
  int (*destroy)(Program* program);
  const char* (*error_text)(int code);
};

namespace {

template <typename Function>
void Find(void* library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
  if (*function == nullptr) throw CompileError(std::string("NVRTC lacks ") + name);
}

}  // namespace

Nvrtc::Nvrtc(void* library) {
  auto functions = std::make_unique<Functions>();
  Find(library, "nvrtcVersion", &functions->version);
  Find(library, "nvrtcGetNumSupportedArchs", &functions->target_count);
  Find(library, "nvrtcGetSupportedArchs", &functions->targets);
  Find(library, "nvrtcCreateProgram", &functions->create);
  Find(library, "nvrtcCompileProgram", &functions->compile);
  Find(library, "nvrtcGetProgramLogSize", &functions->log_size);
  Find(library, "nvrtcGetProgramLog", &functions->log);
  Find(library, "nvrtcGetCUBINSize", &functions->cubin_size);
  Find(library, "nvrtcGetCUBIN", &functions->cubin);
  Find(library, "nvrtcGetPTXSize", &functions->ptx_size);
  Find(library, "nvrtcGetPTX", &functions->ptx);
  Find(library, "nvrtcDestroyProgram", &functions->destroy);
  Find(library, "nvrtcGetErrorString", &functions->error_text);
  int major = 0;
  int minor = 0;
  int count = 0;
  if (functions->version(&major, &minor) != 0 || functions->target_count(&count) != 0 || count <= 0) {
    throw CompileError("NVRTC doesn't tell its version");
  }
  version_ = std::to_string(major) + "." + std::to_string(minor);
  targets_.resize(static_cast<size_t>(count));
  functions->targets(targets_.data());
  functions_ = functions.release();
}

const Nvrtc* Nvrtc::Get() {
  // Never destroyed: compilations may outlive static objects.
  static const Nvrtc* const nvrtc = []() -> const Nvrtc* {
    std::string problem = "was not found";
    const char* const file = std::getenv("DPIFRAME_NVRTC");
    if (file != nullptr && file[0] == '\0') {
      problem = "is turned off";
    } else if (void* library = OpenNvrtcLibrary(file)) {
      try {
        return new Nvrtc(library);
      } catch (const CompileError& error) {
        problem = std::string("can't be used (") + error.what() + ")";
      }
    }
    std::fprintf(stderr,
                 "dpiframe: CUDA's runtime compiler NVRTC %s: fused elementwise nodes run on a kernel that is several "
                 "times slower. `pip install nvidia-cuda-nvrtc` or `pip install onnxruntime-gpu[cuda]` brings it.\n",
                 problem.c_str());
    return nullptr;
  }();
  return nvrtc;
}

std::string Nvrtc::TargetFor(int capability) const {
  int best = 0;
  for (const int target : targets_) {
    if (target <= capability) best = std::max(best, target);
  }
  return (best == capability ? "sm_" : "compute_") + std::to_string(best);
}

std::string Nvrtc::Compile(const std::string& source, const std::string& target) const {
  const Functions& nvrtc = *functions_;
  const auto check = [&](int code) {
    if (code != 0) throw CompileError(std::string("NVRTC failed: ") + nvrtc.error_text(code));
  };
  Functions::Program program = nullptr;
  check(nvrtc.create(&program, source.c_str(), "dpiframe_elementwise.cu", 0, nullptr, nullptr));
  const auto destroy = [&](Functions::Program* own) { nvrtc.destroy(own); };
  const std::unique_ptr<Functions::Program, decltype(destroy)> owner(&program, destroy);
  // Results must not depend on fused multiply-add, except where the source asks for it.
  const std::string architecture = "--gpu-architecture=" + target;
  const char* const options[] = {architecture.c_str(), "--std=c++17", "--fmad=false"};
  if (const int code = nvrtc.compile(program, 3, options)) {
    size_t size = 0;
    std::string log;
    if (nvrtc.log_size(program, &size) == 0 && size > 1) {
      log.resize(size);
      nvrtc.log(program, log.data());
      log.resize(size - 1);
    }
    throw CompileError(std::string("NVRTC failed: ") + nvrtc.error_text(code) + "\n" + log);
  }
  const bool is_ptx = target.rfind("compute_", 0) == 0;
  size_t size = 0;
  check((is_ptx ? nvrtc.ptx_size : nvrtc.cubin_size)(program, &size));
  std::string code(size, '\0');
  check((is_ptx ? nvrtc.ptx : nvrtc.cubin)(program, code.data()));
  return code;
}

}  // namespace dpiframe::cuda
