#include "gemm_cuda.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/device/device_attribute.h"
#include "kernels/cuda/device/device_scope.h"
#include "kernels/cuda/device/divide_up.h"

namespace dpiframe::cuda {
namespace {

// With so few rows or columns, reading the weight or A is all the work.
constexpr int64_t kSkinny = 8;

// With so few products in all, too.
constexpr int64_t kLittleWork = 12'000'000;

// Sums of so few products leave no time to gain, and no errors that would hide those of the parts.
constexpr int64_t kShort = 32;

// So many values of a result are worth the tiles of the kernel for short sums; fewer are shared out among more blocks
// by the skinny one.
constexpr int64_t kShortResult = 1 << 16;

// Kernels in the order of CudaGemmCall::kernel, after which these come, the second one for short sums only.
constexpr const char* kSkinnyName = "skinny";
constexpr const char* kShortName = "short";

bool IsAligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

StepCode ToCode(GemmOperation operation) {
  switch (operation) {
    case GemmOperation::kAdd:
      return StepCode::kAdd;
    case GemmOperation::kSub:
      return StepCode::kSub;
    case GemmOperation::kMul:
      return StepCode::kMul;
    case GemmOperation::kRelu:
      return StepCode::kRelu;
    case GemmOperation::kSigmoid:
      return StepCode::kSigmoid;
    case GemmOperation::kTanh:
      return StepCode::kTanh;
    case GemmOperation::kLeakyRelu:
      return StepCode::kLeakyRelu;
    case GemmOperation::kPrelu:
      return StepCode::kPrelu;
    case GemmOperation::kGelu:
      return StepCode::kGelu;
    case GemmOperation::kSilu:
      return StepCode::kSilu;
  }
  return StepCode::kAdd;
}

StepOperand ToKind(GemmOperand operand) {
  switch (operand) {
    case GemmOperand::kNone:
      return StepOperand::kNone;
    case GemmOperand::kScalar:
      return StepOperand::kScalar;
    case GemmOperand::kVector:
      return StepOperand::kVector;
    case GemmOperand::kColumn:
      return StepOperand::kColumn;
    case GemmOperand::kMatrix:
      return StepOperand::kMatrix;
  }
  return StepOperand::kNone;
}

}  // namespace

CudaGemm::CudaGemm(const GemmProgram& program, const float* weight, int device, int multiprocessors)
    : program_(program),
      products_(program.precision == GemmPrecision::kFp32 ? 3 : 1),
      weight_(weight),
      device_(device),
      layout_(static_cast<int>(program.n), static_cast<int>(program.k), IsSkinny() ? 0 : (products_ == 3 ? 2 : 1),
              program.transposed) {
  const DeviceScope scope(device);
  multiprocessors_ = multiprocessors > 0 ? multiprocessors : DeviceAttribute(cudaDevAttrMultiProcessorCount, device);
  const int major = DeviceAttribute(cudaDevAttrComputeCapabilityMajor, device);
  const int minor = DeviceAttribute(cudaDevAttrComputeCapabilityMinor, device);
  const auto check = [&](cudaError_t code) {
    if (code == cudaErrorNoKernelImageForDevice) {
      throw CudaError("this build of dpiframe holds no code for this GPU; build it with DPIFRAME_CUDA_ARCHITECTURES=" +
                          std::to_string(10 * major + minor),
                      code);
    }
    CheckCuda(code, "a kernel of FusedGemm can't be had");
  };
  bool waits = false;
  check(PlainGemmsWait(&waits));
  overlap_ = major >= 9 && waits;
  if (IsSkinny()) return;
  const GemmKernels wgmma = WgmmaKernels(), mma = MmaKernels();
  if (major == 9 && minor == 0) {
    // A is split as a whole for one run of columns only.
    std::copy_if(wgmma.begin, wgmma.end, std::back_inserter(kernels_),
                 [&](const GemmKernel& kernel) { return !kernel.presplit || program_.runs() == 1; });
  }
  kernels_.insert(kernels_.end(), mma.begin, mma.end);
  for (const GemmKernel& kernel : kernels_) check(PrepareGemmKernel(kernel, products_));
}

void CudaGemm::Prepare(void* memory) {
  prepared_ = memory;
  if (device_bytes() == 0) return;
  const DeviceScope scope(device_);
  scope.WaitForUploads();
  CheckCuda(layout_.Prepare(weight_, memory, scope.stream()), "the weight can't be prepared");
  scope.Wait();
}

// The other kernels copy a tile's columns of the weight from a multiple of 8 on.
bool CudaGemm::IsSkinny() const {
  const int64_t columns = program_.run_columns();
  return columns <= kSkinny || program_.k <= kShort || (program_.runs() > 1 && columns % 8 != 0);
}

int64_t CudaGemm::TilesAcross(int columns) const { return program_.runs() * DivideUp(program_.run_columns(), columns); }

int CudaGemm::Find(const char* name) const {
  for (size_t i = 0; i < kernels_.size(); ++i) {
    if (std::strcmp(kernels_[i].name, name) == 0) return static_cast<int>(i);
  }
  return static_cast<int>(kernels_.size());
}

// Tiles of 64 x 64: as many blocks to each as K has chunks for, and as fit the GPU at once. The blocks of a cluster
// need room close to each other, so that not all of it can be filled.
int CudaGemm::SmallTiles(int64_t m) const {
  const int64_t tiles = DivideUp(m, 64) * TilesAcross(64);
  const int64_t chunks = DivideUp(program_.k, kChunk);
  if (2 * 8 * tiles <= multiprocessors_ && chunks >= 16) return Find("64x64 by 8 blocks");
  if (3 * 4 * tiles <= 2 * multiprocessors_ && chunks >= 4) return Find("64x64 by 4 blocks");
  if (2 * tiles <= multiprocessors_ && chunks >= 4) return Find("64x64 by 2 blocks");
  return Find("64x64");
}

// Tiles of 128 rows: of the widths, that with the least work in all rounds of blocks. Splitting A before pays where
// many tiles share its rows; for one product only where there is enough to save for one kernel more.
int CudaGemm::LargeTiles(int64_t m) const {
  constexpr int64_t kEnds = 40;  // what a tile's beginning and end cost, in columns
  const bool pays = TilesAcross(128) >= (products_ == 3 ? 8 : 7) && (products_ == 3 || program_.k >= 8 * kChunk);
  const bool presplit = pays && program_.runs() == 1;
  int best = 0;
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < kernels_.size(); ++i) {
    const GemmKernel& kernel = kernels_[i];
    const int64_t across = TilesAcross(kernel.columns);
    if (!kernel.wgmma || kernel.rows != 128 || kernel.presplit != presplit) continue;
    const int64_t work = DivideUp(DivideUp(m, kernel.rows) * across, multiprocessors_) * (kernel.columns + kEnds);
    if (work < least) best = static_cast<int>(i), least = work;
  }
  return best;
}

int CudaGemm::KernelFor(int64_t m) const {
  const int skinny = static_cast<int>(kernels_.size());
  if (program_.k <= kShort && program_.run_columns() >= 4 && m * program_.n >= kShortResult) return skinny + 1;
  if (m <= kSkinny || IsSkinny() || m * program_.n * program_.k <= kLittleWork) return skinny;
  const int64_t tiles = DivideUp(m, 64) * TilesAcross(64);
  if (!kernels_[0].wgmma) return Find(tiles >= 6 * multiprocessors_ ? "mma 128x128" : "mma 64x64");
  return tiles <= multiprocessors_ ? SmallTiles(m) : LargeTiles(m);
}

std::vector<std::string> CudaGemm::kernel_names() const {
  std::vector<std::string> names;
  for (const GemmKernel& kernel : kernels_) names.emplace_back(kernel.name);
  names.emplace_back(kSkinnyName);
  if (program_.k <= kShort) names.emplace_back(kShortName);
  return names;
}

size_t CudaGemm::SplitBytes(int64_t m) const {
  const size_t rows = static_cast<size_t>(DivideUp(m, 8) * 8),
               chunks = static_cast<size_t>(DivideUp(program_.k, kChunk));
  return chunks * rows * ((products_ == 3 ? 2 : 1) * kPartRowBytes + sizeof(uint32_t));
}

SplitActivation CudaGemm::SplitIn(int64_t m, void* memory) const {
  SplitActivation split{};
  split.rows = static_cast<int>(DivideUp(m, 8) * 8);
  split.parts = static_cast<uint8_t*>(memory);
  const size_t chunks = static_cast<size_t>(DivideUp(program_.k, kChunk));
  split.unscale =
      reinterpret_cast<uint32_t*>(split.parts + chunks * static_cast<size_t>(split.rows) *
                                                    static_cast<size_t>(products_ == 3 ? 2 : 1) * kPartRowBytes);
  return split;
}

size_t CudaGemm::scratch_bytes(int64_t m, int kernel) const {
  if (m == 0) return 0;
  const size_t chosen = static_cast<size_t>(kernel >= 0 ? kernel : KernelFor(m));
  size_t bytes = weight_ == nullptr ? layout_.bytes() : 0;
  if (chosen < kernels_.size() && kernels_[chosen].presplit) bytes += SplitBytes(m);
  return bytes;
}

void CudaGemm::Launch(const CudaGemmCall& call, const Launcher& launcher) const {
  if (call.m == 0) return;
  GemmArguments arguments{};
  arguments.a = call.a + program_.begins[0];
  arguments.y = call.y;
  arguments.m = call.m;
  arguments.n = static_cast<int>(program_.n);
  arguments.k = static_cast<int>(program_.k);
  arguments.a_pitch = static_cast<int>(program_.row);
  arguments.run_columns = static_cast<int>(program_.run_columns());
  arguments.a_by_4 = program_.k % 4 == 0 && program_.row % 4 == 0 && IsAligned(arguments.a);
  for (size_t i = 1; i < program_.begins.size(); ++i) {
    arguments.begins[i] = static_cast<int>(program_.begins[i] - program_.begins[0]);
    if (arguments.begins[i] % 4 != 0) arguments.a_by_4 = false;
  }
  arguments.y_by_4 = program_.run_columns() % 4 == 0 && IsAligned(call.y);
  arguments.weight_is_constant = weight_ != nullptr;
  char* scratch = static_cast<char*>(call.scratch);
  if (weight_ != nullptr) {
    arguments.weight = layout_.At(weight_, prepared_);
  } else {
    arguments.weight = layout_.At(call.weight, scratch);
    if (layout_.bytes() > 0) {
      CheckCuda(layout_.Prepare(call.weight, scratch, launcher), "the weight can't be prepared");
      scratch += layout_.bytes();
    }
  }
  for (const GemmProgramStep& step : program_.steps) {
    GemmStep& to = arguments.steps[arguments.step_count++];
    to.code = ToCode(step.operation);
    to.kind = ToKind(step.operand);
    to.number = step.number;
    if (step.operand == GemmOperand::kNone) continue;
    to.operand = call.operands[step.input - GemmProgram::kFirstOperand];
    const bool wide = step.operand == GemmOperand::kVector || step.operand == GemmOperand::kMatrix;
    if (wide && !IsAligned(to.operand)) arguments.y_by_4 = false;
  }
  const size_t chosen = static_cast<size_t>(call.kernel >= 0 ? call.kernel : KernelFor(call.m));
  if (chosen >= kernels_.size()) {
    const auto launch = chosen == kernels_.size() ? &LaunchSkinnyGemm : &LaunchShortGemm;
    CheckCuda(launch(arguments, overlap_, launcher), "a kernel can't be launched");
    return;
  }
  const GemmKernel& kernel = kernels_[chosen];
  if (kernel.presplit) {
    arguments.split = SplitIn(call.m, scratch);
    CheckCuda(LaunchPresplit(products_, arguments, launcher), "a kernel can't be launched");
  }
  CheckCuda(LaunchGemm(kernel, products_, multiprocessors_, arguments, launcher), "a kernel can't be launched");
}

}  // namespace dpiframe::cuda
