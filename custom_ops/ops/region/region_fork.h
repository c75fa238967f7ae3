// The streams of one call of a region.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/launch/side_streams.h"
#include "kernels/region/plan.h"

namespace dpiframe {

// Side streams that fork from a main one. At the end of its life, also when a node has failed, the main stream waits
// for those that forked: ONNX Runtime gives the buffers to others as soon as the call returns.
class RegionFork {
 public:
  // main: the stream that the call's work is put on, from which those of the set fork.
  RegionFork(const RegionPlan& plan, const cuda::StreamSet& set, cudaStream_t main)
      : plan_(plan), set_(set), main_(main), forked_(static_cast<size_t>(plan.streams), false) {
    if (plan.forks) Record(plan.steps.size(), main_);
  }
  ~RegionFork() {
    if (joined_) return;
    for (size_t i = 1; i < forked_.size(); ++i) {
      const cudaStream_t stream = Stream(static_cast<int>(i));
      if (forked_[i] && cudaEventRecord(set_.events[i], stream) == cudaSuccess) {
        cudaStreamWaitEvent(main_, set_.events[i], 0);
      }
    }
  }
  RegionFork(const RegionFork&) = delete;
  RegionFork& operator=(const RegionFork&) = delete;

  // The stream of a step, which waits for what the step needs.
  cudaStream_t Enter(size_t step) {
    const RegionStep& at = plan_.steps[step];
    const cudaStream_t stream = entered_ = Stream(at.stream);
    if (at.waits_for_fork) Wait(stream, plan_.steps.size());
    for (const int before : at.waits) Wait(stream, static_cast<size_t>(before));
    forked_[static_cast<size_t>(at.stream)] = true;
    return stream;
  }
  // The stream of the step that was entered last also waits for what the main one has been given meanwhile. The fork's
  // event tells of it from now on: streams that wait for the fork still wait for enough.
  void CatchUp() {
    Record(plan_.steps.size(), main_);
    Wait(entered_, plan_.steps.size());
  }
  void Leave(size_t step) {
    if (plan_.steps[step].is_awaited) Record(step, Stream(plan_.steps[step].stream));
  }
  void Join() {
    for (const int end : plan_.ends) Wait(main_, static_cast<size_t>(end));
    joined_ = true;
  }

 private:
  cudaStream_t Stream(int stream) const { return stream == 0 ? main_ : set_.streams[static_cast<size_t>(stream) - 1]; }
  void Record(size_t event, cudaStream_t stream) {
    cuda::CheckCuda(cudaEventRecord(set_.events[event], stream), "an event can't be recorded");
  }
  void Wait(cudaStream_t stream, size_t event) {
    cuda::CheckCuda(cudaStreamWaitEvent(stream, set_.events[event], 0), "a stream can't wait");
  }

  const RegionPlan& plan_;
  const cuda::StreamSet& set_;
  cudaStream_t main_;
  cudaStream_t entered_ = nullptr;
  std::vector<bool> forked_;
  bool joined_ = false;
};

}  // namespace dpiframe
