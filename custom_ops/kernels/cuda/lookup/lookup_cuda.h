// FusedMultiGather on a GPU: a program, its inputs' types and its tables become records in device memory; calls launch
// kernels that read them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/device/device_scope.h"
#include "kernels/cuda/lookup/plan/device_plan.h"
#include "kernels/lookup/plan.h"
#include "kernels/lookup/program.h"
#include "launch.h"
#include "records.h"

namespace dpiframe::cuda {

// An address that doesn't suit the type of what it points to.
struct MisalignedAddress : std::invalid_argument {
  enum class Kind { kSource, kTable, kOutput };
  MisalignedAddress(Kind kind, size_t index, const std::string& problem)
      : std::invalid_argument(problem), kind(kind), index(index) {}
  Kind kind;
  size_t index;
};

struct CudaLookupCall {
  int64_t rows;                // R
  const void* const* sources;  // device memory, as all addresses here
  const int64_t* columns;      // K of each source
  const void* const* tables;   // read where the address wasn't fixed at creation; may be null where all were
  void* const* outputs;
  void* scratch;            // scratch_bytes() bytes, this call's until its work is done
  int rows_per_thread = 0;  // 1 or 4; 0: what suits the size
};

class CudaLookup {
 public:
  // `tables`: addresses in device memory, null where each call brings one. `multiprocessors`: to share work out as if
  // there were so many; 0: as many as there are. Throws ProgramTooLarge, MisalignedAddress.
  CudaLookup(const LookupProgram& program, const std::vector<ElementType>& source_types, ElementType table_type,
             std::vector<const void*> tables, int multiprocessors = 0);

  CudaLookup(const CudaLookup&) = delete;
  CudaLookup& operator=(const CudaLookup&) = delete;

  size_t device_bytes() const { return device_bytes_; }
  size_t scratch_bytes() const;

  // Writes the records into device_bytes() bytes of device memory, which stay the caller's and must outlive this
  // object. Also loads the kernels. To be called once, before the first launch. Throws CudaError.
  void Upload(void* memory);

  // Launches a call's work; neither waits nor allocates. Any number of threads may be in here. Throws
  // CudaError, MisalignedAddress.
  void Launch(const CudaLookupCall& call, const Launcher& launcher) const;

  // Ids outside their table so far by row and term line, of the calls that are done.
  std::vector<uint64_t> ReadCounters() const;
  void ResetCounters() const;

 private:
  void FillWords(const CudaLookupCall& call, uint64_t* words) const;
  bool IsAligned(const CudaLookupCall& call) const;
  void FindSkippedPadding(const DeviceScope& scope);
  int PlainRows(const CudaLookupCall& call) const;
  uint8_t PoolRows(const SegmentPlan& segment, const CudaLookupCall& call) const;
  uint8_t LanesLog2(const SegmentPlan& segment, const CudaLookupCall& call) const;
  uint64_t MeanBag(const SegmentPlan& segment, const CudaLookupCall& call) const;
  uint8_t BagLanesLog2(const SegmentPlan& segment, const CudaLookupCall& call) const;
  void ShapePlainBags(const SegmentPlan& plan, int64_t rows, uint64_t mean, bool aligned, Segment* segment) const;
  void LaunchPlainBags(const CudaLookupCall& call, size_t begin, size_t end, const Words& words,
                       const Launcher& launcher) const;
  void LaunchSegments(const CudaLookupCall& call, const std::vector<SegmentPlan>& segments, size_t begin, size_t end,
                      const Words& words, const Launcher& launcher) const;

  LookupDevicePlan plan_;
  std::vector<const void*> tables_;
  size_t device_bytes_ = 0;
  char* memory_ = nullptr;
  int device_ = 0;
  int64_t multiprocessors_;
  uint64_t many_bags_at_once_ = 1;  // blocks of their kernel that the GPU runs at once
  LookupArguments arguments_{};     // as far as all launches share them
};

}  // namespace dpiframe::cuda
