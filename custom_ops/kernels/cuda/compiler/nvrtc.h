// NVRTC, CUDA's compiler as a library: opened when it is first needed, so that nothing here needs it to be there.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace dpiframe::cuda {

struct CompileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Nvrtc {
 public:
  // Null where there is none; then says once on stderr what to install. The environment variable DPIFRAME_NVRTC names
  // the library's file; empty, it stands for none.
  static const Nvrtc* Get();

  // As "13.0".
  const std::string& version() const { return version_; }

  // What to compile for on a GPU of a compute capability (90 for 9.0): "sm_90", or "compute_89" for one that this
  // NVRTC doesn't know.
  std::string TargetFor(int capability) const;

  // Machine code or, for a target "compute_...", PTX. Throws CompileError.
  std::string Compile(const std::string& source, const std::string& target) const;

 private:
  explicit Nvrtc(void* library);

  struct Functions;
  const Functions* functions_;
  std::string version_;
  std::vector<int> targets_;
};

}  // namespace dpiframe::cuda
