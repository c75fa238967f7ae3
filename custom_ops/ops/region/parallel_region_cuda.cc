// ParallelRegion for the CUDA provider: its nodes on several streams, forked from ONNX Runtime's and joined with it, or
// as one CUDA graph of its own.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "cuda_region_values.h"
#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/device/device_scope.h"
#include "kernels/cuda/launch/graph_builder.h"
#include "kernels/cuda/launch/graph_cache.h"
#include "kernels/cuda/launch/side_streams.h"
#include "kernels/region/plan.h"
#include "ops/call_array.h"
#include "ops/device_memory.h"
#include "region_branches.h"
#include "region_fork.h"
#include "region_layouts.h"
#include "region_node.h"

namespace dpiframe {
namespace {

using cuda::CudaError;
using cuda::GraphBuilder;
using cuda::GraphCache;
using cuda::SideStreams;

constexpr const char* kGraphsVariable = "DPIFRAME_REGION_GRAPHS";

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
        makes_graphs_(MayMakeGraphs()) {}

  const DeviceAllocator* allocator() const override { return &allocator_; }

  void Compute(NodeCall* call) override {
    GraphCache::Key key;  // begins with the shapes, which the layout depends on alone
    key.reserve(kUsualKey);
    CallArray<const void*> addresses(brought_.size());
    for (size_t i = 0; i < brought_.size(); ++i) {
      NodeTensor tensor;
      call->Input(brought_[i], &tensor);
      key.push_back(tensor.shape.rank);
      key.insert(key.end(), tensor.shape.sizes,
                 tensor.shape.sizes + std::min(tensor.shape.rank, TensorShape::kMaxRank));
      addresses[i] = tensor.data;
    }
    try {
      if (const auto layout = layouts_.Find(key)) {
        const size_t shapes_end = key.size();
        for (size_t i = 0; i < brought_.size(); ++i) key.push_back(reinterpret_cast<uintptr_t>(addresses[i]));
        RegionLayout larger;
        if (!Run(call, *layout, &key, &larger)) {
          key.resize(shapes_end);
          layouts_.Remember(key, std::move(larger));
        }
      } else {
        layouts_.Remember(key, RunInOrder(call));
      }
    } catch (const CudaError& error) {
      throw OrtError("ParallelRegion node '" + region_.name() + "': " + error.what());
    }
  }

 private:
  static constexpr size_t kUsualKey = 64;

  void RunStep(size_t step, CudaRegionValues* values, void* stream, cuda::GraphBranch* branch = nullptr) {
    RegionNodeCall node(region_.node(step), values, stream, branch);
    region_.kernel(step).Compute(&node);
    values->EndStep();
  }

  // A first call, whose outputs and scratch memory are not known: on one stream, since ONNX Runtime may make that
  // stream, and no other, wait for memory that it gives.
  RegionLayout RunInOrder(NodeCall* call) {
    CudaRegionValues values(region_, plan_, call);
    for (size_t i = 0; i < plan_.steps.size(); ++i) RunStep(i, &values, call->stream());
    RegionLayout layout;
    for (size_t i = 0; i < region_.program().outputs.size(); ++i) layout.outputs.push_back(values.output(i).shape);
    layout.blocks = values.taken();
    return layout;
  }

  // False where the layout's blocks were not enough: with other addresses a call may need more.
  bool Run(NodeCall* call, const RegionLayout& layout, GraphCache::Key* begun, RegionLayout* larger) {
    GraphCache::Key& key = *begun;
    const RegionBuffers buffers(region_, layout, call);
    const cudaStream_t stream = static_cast<cudaStream_t>(call->stream());
    if (!makes_graphs_ || IsCapturing(stream)) return Launch(call, buffers, stream, larger);
    key.push_back(reinterpret_cast<uintptr_t>(buffers.small()));
    key.push_back(layout.blocks.small);
    for (size_t i = 0; i < layout.blocks.large.size(); ++i) {
      key.push_back(reinterpret_cast<uintptr_t>(buffers.large(i)));
      key.push_back(layout.blocks.large[i]);
    }
    for (size_t i = 0; i < layout.outputs.size(); ++i) key.push_back(reinterpret_cast<uintptr_t>(buffers.output(i)));
    if (graphs_.Launch(key, stream)) return true;
    // Others' graphs may have taken its place already.
    if (graphs_.Wants(key) && MakeGraph(call, buffers, key) && graphs_.Launch(key, stream)) return true;
    return Launch(call, buffers, stream, larger);
  }

  bool Launch(NodeCall* call, const RegionBuffers& buffers, cudaStream_t stream, RegionLayout* larger) {
    CudaRegionValues values(region_, plan_, call);
    values.PutInto(buffers);
    const SideStreams::Lease set(&side_streams_, stream);
    RegionFork fork(plan_, *set, stream);
    values.AtGrowth([&fork] { fork.CatchUp(); });
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      RunStep(i, &values, fork.Enter(i));
      fork.Leave(i);
    }
    fork.Join();
    if (!values.has_grown()) return true;
    *larger = buffers.layout();
    larger->blocks.Cover(values.taken());
    return false;
  }

  // False where there is no graph of a call, now or at all.
  bool MakeGraph(NodeCall* call, const RegionBuffers& buffers, const GraphCache::Key& key) {
    try {
      const cuda::DeviceScope scope(device_);
      CudaRegionValues values(region_, plan_, call);
      values.PutInto(buffers);
      const GraphBuilder builder;
      RegionBranches branches(plan_, builder);
      for (size_t i = 0; i < plan_.steps.size(); ++i) {
        RunStep(i, &values, call->stream(), branches.Enter(i));
        branches.Leave(i);
      }
      if (values.has_grown()) return false;  // into memory that the key says nothing of
      graphs_.Add(key, builder.graph());
      return true;
    } catch (const std::exception&) {
      cudaGetLastError();
      graphs_.PutOff();  // what is wrong with the call itself, if anything, the launches will say
      return false;
    }
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

  bool MayMakeGraphs() const {
    const char* wanted = std::getenv(kGraphsVariable);
    const std::string text = wanted == nullptr ? "1" : wanted;
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
  const bool makes_graphs_;
};

}  // namespace

const OpDefinition kParallelRegionCuda = {
    "ParallelRegion",        64,
    "CUDAExecutionProvider", [](const NodeInfo& info) -> Kernel* { return new ParallelRegionCuda(info); },
    InferRegionShapes,
};

}  // namespace dpiframe
