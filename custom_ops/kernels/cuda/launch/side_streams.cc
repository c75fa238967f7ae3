#include "side_streams.h"

#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/device/device_scope.h"

namespace dpiframe::cuda {

SideStreams::~SideStreams() {
  for (const std::unique_ptr<StreamSet>& set : all_) {
    for (cudaStream_t stream : set->streams) cudaStreamDestroy(stream);
    for (cudaEvent_t event : set->events) cudaEventDestroy(event);
  }
}

// Also while another thread captures a graph: the scope sees to that.
StreamSet* SideStreams::Make() {
  const DeviceScope scope(device_);
  all_.push_back(std::make_unique<StreamSet>());
  StreamSet* set = all_.back().get();
  for (size_t i = 0; i < streams_; ++i) {
    set->streams.push_back(nullptr);
    CheckCuda(cudaStreamCreateWithFlags(&set->streams.back(), cudaStreamNonBlocking), "a stream can't be made");
  }
  for (size_t i = 0; i < events_; ++i) {
    set->events.push_back(nullptr);
    CheckCuda(cudaEventCreateWithFlags(&set->events.back(), cudaEventDisableTiming), "an event can't be made");
  }
  return set;
}

SideStreams::Lease::Lease(SideStreams* owner, cudaStream_t caller) : owner_(owner), caller_(caller) {
  const std::lock_guard<std::mutex> lock(owner_->mutex_);
  std::vector<StreamSet*>& free = owner_->free_[caller_];
  if (free.empty()) {
    set_ = owner_->Make();
    return;
  }
  set_ = free.back();
  free.pop_back();
}

SideStreams::Lease::~Lease() {
  const std::lock_guard<std::mutex> lock(owner_->mutex_);
  owner_->free_[caller_].push_back(set_);
}

}  // namespace dpiframe::cuda
