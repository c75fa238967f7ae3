// ParallelRegion for the CUDA provider: its nodes on several streams, forked from ONNX Runtime's and joined with it, or
// as one CUDA graph of its own.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "../kernels/cuda/cuda_error.h"
#include "../kernels/cuda/device_scope.h"
#include "../kernels/cuda/graph_cache.h"
#include "../kernels/cuda/side_streams.h"
#include "../kernels/region_plan.h"
#include "device_memory.h"
#include "region_fork.h"
#include "region_layouts.h"
#include "region_node.h"

namespace dpiframe {
namespace {

using cuda::CheckCuda;
using cuda::CudaError;
using cuda::GraphCache;
using cuda::SideStreams;
using cuda::StreamSet;

constexpr size_t kAlignment = 256;
constexpr const char* kGraphsVariable = "DPIFRAME_REGION_GRAPHS";

// Values in one block of scratch memory if its size is known, else in blocks as they are needed.
class CudaRegionValues final : public RegionValues {
 public:
  CudaRegionValues(const Region& region, const RegionPlan& plan, NodeCall* call)
      : RegionValues(region.program(), call), plan_(plan), places_(static_cast<size_t>(region.program().values)) {}

  // Takes all the memory of the call at once.
  void TakeAll(const Region& region, const RegionLayout& layout) {
    for (size_t i = 0; i < layout.outputs.size(); ++i) MakeOutput(i, region.output_type(i), layout.outputs[i]);
    if (layout.scratch_bytes > 0) Grow(layout.scratch_bytes);
  }

  size_t used() const { return used_; }
  bool has_grown() const { return has_grown_; }
  const void* block() const { return block_; }

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
    if (size > left_) {
      Grow(size);
      has_grown_ = true;
    }
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
  bool has_grown_ = false;  // beyond what was taken at once
};

bool IsCapturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) == cudaSuccess) return status != cudaStreamCaptureStatusNone;
  cudaGetLastError();  // the default stream while another one is capturing
  return true;
}

class ParallelRegionCuda final : public Kernel {
 public:
  explicit ParallelRegionCuda(const NodeInfo& info)
      : Kernel(info.api()),
        region_(info, "CUDAExecutionProvider"),
        plan_(PlanRegion(region_.program())),
        brought_(Brought(info)),
        allocator_(info.api(), info.kernel_info()),
        device_(Device()),
        side_streams_(device_, static_cast<size_t>(plan_.streams) - 1,
                      std::max(plan_.steps.size() + 1, static_cast<size_t>(plan_.streams))),
        captures_(MayCapture()) {}

  const DeviceAllocator* allocator() const override { return &allocator_; }

  void Compute(NodeCall* call) override {
    const cudaStream_t stream = static_cast<cudaStream_t>(call->stream());
    RegionLayouts::Shapes shapes;
    GraphCache::Key key{reinterpret_cast<uintptr_t>(stream)};
    for (const size_t input : brought_) {
      NodeTensor tensor;
      call->Input(input, &tensor);
      shapes.push_back(tensor.shape.rank);
      shapes.insert(shapes.end(), tensor.shape.sizes,
                    tensor.shape.sizes + std::min(tensor.shape.rank, TensorShape::kMaxRank));
      key.push_back(reinterpret_cast<uintptr_t>(tensor.data));
    }
    try {
      if (const auto layout = layouts_.Find(shapes)) {
        key.insert(key.end(), shapes.begin(), shapes.end());
        Run(call, stream, *layout, std::move(key));
      } else {
        layouts_.Remember(shapes, RunInOrder(call, stream));
      }
    } catch (const CudaError& error) {
      throw OrtError("ParallelRegion node '" + region_.name() + "': " + error.what());
    }
  }

 private:
  // A first call, whose outputs and scratch memory are not known: on one stream, since ONNX Runtime may make that
  // stream, and no other, wait for memory that it gives.
  RegionLayout RunInOrder(NodeCall* call, cudaStream_t stream) {
    CudaRegionValues values(region_, plan_, call);
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      RegionNodeCall node(region_.node(i), &values, stream);
      region_.kernel(i).Compute(&node);
    }
    RegionLayout layout;
    for (size_t i = 0; i < region_.program().outputs.size(); ++i) layout.outputs.push_back(values.output(i).shape);
    layout.scratch_bytes = values.used();
    return layout;
  }

  void Run(NodeCall* call, cudaStream_t stream, const RegionLayout& layout, GraphCache::Key key) {
    CudaRegionValues values(region_, plan_, call);
    values.TakeAll(region_, layout);
    if (!captures_ || IsCapturing(stream)) {
      Launch(&values, stream);
      return;
    }
    key.push_back(reinterpret_cast<uintptr_t>(values.block()));
    for (size_t i = 0; i < layout.outputs.size(); ++i) {
      key.push_back(reinterpret_cast<uintptr_t>(values.output(i).data));
    }
    if (graphs_.Launch(key, stream)) return;
    if (!graphs_.Wants(key)) {
      Launch(&values, stream);
      return;
    }
    const bool is_made = Capture(&values, stream, key);
    if (is_made && graphs_.Launch(key, stream)) return;
    // There is none, or other threads' have already taken its place.
    CudaRegionValues again(region_, plan_, call);
    again.TakeAll(region_, layout);
    Launch(&again, stream);
    if (!is_made) captures_ = false;  // though nothing is wrong with the call
  }

  void Launch(CudaRegionValues* values, cudaStream_t stream) {
    const SideStreams::Lease set(&side_streams_, stream);
    PutOn(*set, values, stream);
  }

  void PutOn(const StreamSet& set, CudaRegionValues* values, cudaStream_t main) {
    RegionFork fork(plan_, set, main);
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      RegionNodeCall node(region_.node(i), values, fork.Enter(i));
      region_.kernel(i).Compute(&node);
      fork.Leave(i);
    }
    fork.Join();
  }

  // Makes the graph of a call. False where that can't be: nothing has run then.
  bool Capture(CudaRegionValues* values, cudaStream_t caller, const GraphCache::Key& key) {
    const cuda::DeviceScope scope(device_);
    // Until the capture has ended: so long, what others put on these streams would be captured, too.
    const SideStreams::Lease set(&side_streams_, caller);
    CheckCuda(cudaStreamBeginCapture(scope.stream(), cudaStreamCaptureModeRelaxed), "a capture can't begin");
    bool is_whole = true;
    try {
      PutOn(*set, values, scope.stream());
      is_whole = !values->has_grown();  // into memory that the key says nothing of
    } catch (const std::exception&) {
      is_whole = false;
    }
    cudaGraph_t graph = nullptr;
    is_whole = cudaStreamEndCapture(scope.stream(), &graph) == cudaSuccess && is_whole;
    try {
      if (is_whole) graphs_.Add(key, graph);
    } catch (const CudaError&) {
      is_whole = false;
    }
    if (graph != nullptr) cudaGraphDestroy(graph);
    if (!is_whole) cudaGetLastError();
    return is_whole;
  }

  int Device() const {
    int device = 0;
    Check(api_, api_.MemoryInfoGetId(allocator_.memory_info(), &device));
    return device;
  }

  // The inputs that calls bring.
  static std::vector<size_t> Brought(const NodeInfo& info) {
    std::vector<size_t> inputs;
    NodeTensor ignored;
    for (size_t i = 0; i < info.input_count(); ++i) {
      if (!info.Constant(i, &ignored)) inputs.push_back(i);
    }
    return inputs;
  }

  bool MayCapture() const {
    const char* wanted = std::getenv(kGraphsVariable);
    const std::string text = wanted == nullptr ? "0" : wanted;
    if (text != "0" && text != "1") {
      throw OrtError("ParallelRegion node '" + region_.name() + "': the environment variable " + kGraphsVariable +
                     " is \"" + text + "\": 0 or 1 was expected");
    }
    return text == "1";
  }

  Region region_;
  RegionPlan plan_;
  std::vector<size_t> brought_;
  DeviceAllocator allocator_;
  int device_;
  SideStreams side_streams_;
  RegionLayouts layouts_;
  GraphCache graphs_;
  std::atomic<bool> captures_;
};

}  // namespace

const OpDefinition kParallelRegionCuda = {
    "ParallelRegion",        64,
    "CUDAExecutionProvider", [](const NodeInfo& info) -> Kernel* { return new ParallelRegionCuda(info); },
    InferRegionShapes,
};

}  // namespace dpiframe
