// ParallelRegion for the CUDA provider: its nodes on several streams, forked from ONNX Runtime's and joined with it.
#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "../kernels/cuda/cuda_error.h"
#include "../kernels/cuda/side_streams.h"
#include "../kernels/region_plan.h"
#include "device_memory.h"
#include "region_node.h"

namespace dpiframe {
namespace {

using cuda::CheckCuda;
using cuda::SideStreams;
using cuda::StreamSet;

constexpr size_t kAlignment = 256;

// How many bytes a region's values took, by the size of an input: batches of one size take the same again.
class KnownSizes {
 public:
  size_t Find(size_t elements) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = bytes_.find(elements);
    return found == bytes_.end() ? 0 : found->second;
  }
  void Remember(size_t elements, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (bytes_.size() >= kMost && bytes_.count(elements) == 0) bytes_.clear();
    bytes_[elements] = bytes;
  }

 private:
  static constexpr size_t kMost = 256;
  std::mutex mutex_;
  std::unordered_map<size_t, size_t> bytes_;
};

// Values in one block of scratch memory if its size is known, else in blocks as they are needed.
class CudaRegionValues final : public RegionValues {
 public:
  CudaRegionValues(const RegionProgram& program, const RegionPlan& plan, NodeCall* call, size_t expected)
      : RegionValues(program, call), plan_(plan), places_(static_cast<size_t>(program.values)) {
    if (expected > 0) Grow(expected);
  }

  size_t used() const { return used_; }

  void* Scratch(size_t bytes) override { return Take(bytes).data; }

 protected:
  void* Allocate(int value, size_t bytes) override {
    Place& place = places_[static_cast<size_t>(value)];
    const int before = plan_.takes_over[static_cast<size_t>(value)];
    if (before >= 0 && places_[static_cast<size_t>(before)].bytes >= bytes) {
      place = places_[static_cast<size_t>(before)];
    } else {
      place = Take(bytes);
    }
    return place.data;
  }

 private:
  struct Place {
    void* data = nullptr;
    size_t bytes = 0;
  };

  Place Take(size_t bytes) {
    const size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (size > left_) Grow(size);
    char* data = block_;
    block_ += size;
    left_ -= size;
    used_ += size;
    return {data, size};
  }

  void Grow(size_t bytes) {
    block_ = static_cast<char*>(call()->Scratch(bytes));
    left_ = bytes;
  }

  const RegionPlan& plan_;
  std::vector<Place> places_;
  char* block_ = nullptr;
  size_t left_ = 0;
  size_t used_ = 0;
};

// The streams of one call. At the end of its life, also when a node has failed, the caller's stream waits for the
// others: ONNX Runtime gives the buffers to others as soon as the call returns.
class Fork {
 public:
  Fork(const RegionPlan& plan, SideStreams* side_streams, cudaStream_t caller)
      : plan_(plan), set_(side_streams, caller), caller_(caller) {
    if (plan_.forks) Record(plan_.steps.size(), caller_);
  }
  ~Fork() {
    if (joined_) return;
    for (size_t i = 0; i < set_->streams.size(); ++i) {
      if (cudaEventRecord(set_->events[i], set_->streams[i]) == cudaSuccess) {
        cudaStreamWaitEvent(caller_, set_->events[i], 0);
      }
    }
  }

  // The stream of a step, which waits for what the step needs.
  cudaStream_t Enter(size_t step) {
    const RegionStep& at = plan_.steps[step];
    const cudaStream_t stream = Stream(at.stream);
    if (at.waits_for_fork) Wait(stream, plan_.steps.size());
    for (const int before : at.waits) Wait(stream, static_cast<size_t>(before));
    return stream;
  }
  void Leave(size_t step) {
    if (plan_.steps[step].is_awaited) Record(step, Stream(plan_.steps[step].stream));
  }
  void Join() {
    for (const int end : plan_.ends) Wait(caller_, static_cast<size_t>(end));
    joined_ = true;
  }

 private:
  cudaStream_t Stream(int stream) const {
    return stream == 0 ? caller_ : set_->streams[static_cast<size_t>(stream) - 1];
  }
  void Record(size_t event, cudaStream_t stream) {
    CheckCuda(cudaEventRecord(set_->events[event], stream), "an event can't be recorded");
  }
  void Wait(cudaStream_t stream, size_t event) {
    CheckCuda(cudaStreamWaitEvent(stream, set_->events[event], 0), "a stream can't wait");
  }

  const RegionPlan& plan_;
  SideStreams::Lease set_;
  cudaStream_t caller_;
  bool joined_ = false;
};

class ParallelRegionCuda final : public Kernel {
 public:
  explicit ParallelRegionCuda(const NodeInfo& info)
      : Kernel(info.api()),
        region_(info, "CUDAExecutionProvider"),
        plan_(PlanRegion(region_.program())),
        telling_input_(FirstVariable(info)),
        allocator_(info.api(), info.kernel_info()),
        side_streams_(Device(), static_cast<size_t>(plan_.streams) - 1,
                      std::max(plan_.steps.size() + 1, static_cast<size_t>(plan_.streams))) {}

  const DeviceAllocator* allocator() const override { return &allocator_; }

  void Compute(NodeCall* call) override {
    NodeTensor telling;
    call->Input(telling_input_, &telling);
    const size_t expected = sizes_.Find(telling.shape.elements);
    CudaRegionValues values(region_.program(), plan_, call, expected);
    try {
      Fork fork(plan_, &side_streams_, static_cast<cudaStream_t>(call->stream()));
      for (size_t i = 0; i < plan_.steps.size(); ++i) {
        RegionNodeCall node(region_.node(i), &values, fork.Enter(i));
        region_.kernel(i).Compute(&node);
        fork.Leave(i);
      }
      fork.Join();
    } catch (const cuda::CudaError& error) {
      throw OrtError("ParallelRegion node '" + region_.name() + "': " + error.what());
    }
    if (values.used() != expected) sizes_.Remember(telling.shape.elements, values.used());
  }

 private:
  int Device() const {
    int device = 0;
    Check(api_, api_.MemoryInfoGetId(allocator_.memory_info(), &device));
    return device;
  }

  // An input that calls bring: its size tells calls of different batch sizes apart.
  static size_t FirstVariable(const NodeInfo& info) {
    NodeTensor ignored;
    for (size_t i = 0; i < info.input_count(); ++i) {
      if (!info.Constant(i, &ignored)) return i;
    }
    return 0;
  }

  Region region_;
  RegionPlan plan_;
  size_t telling_input_;
  DeviceAllocator allocator_;
  SideStreams side_streams_;
  KnownSizes sizes_;
};

}  // namespace

const OpDefinition kParallelRegionCuda = {
    "ParallelRegion",        64,
    "CUDAExecutionProvider", [](const NodeInfo& info) -> Kernel* { return new ParallelRegionCuda(info); },
    InferRegionShapes,
};

}  // namespace dpiframe
