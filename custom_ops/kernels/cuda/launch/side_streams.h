// Streams and events of a kernel's own, beside the stream that its caller gives it.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace dpiframe::cuda {

struct StreamSet {
  std::vector<cudaStream_t> streams;
  std::vector<cudaEvent_t> events;
};

// Sets of streams and events on a device. A set belongs to one stream of a caller, so that no other's work gets between
// what that caller captures as a CUDA graph, and to one call at a time.
class SideStreams {
 public:
  SideStreams(int device, size_t streams, size_t events) : device_(device), streams_(streams), events_(events) {}
  ~SideStreams();
  SideStreams(const SideStreams&) = delete;
  SideStreams& operator=(const SideStreams&) = delete;

  // A set for one call, given back at the end of its life.
  class Lease {
   public:
    Lease(SideStreams* owner, cudaStream_t caller);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    const StreamSet& operator*() const { return *set_; }
    const StreamSet* operator->() const { return set_; }

   private:
    SideStreams* owner_;
    cudaStream_t caller_;
    StreamSet* set_;
  };

 private:
  StreamSet* Make();

  int device_;
  size_t streams_;
  size_t events_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<StreamSet>> all_;
  std::map<cudaStream_t, std::vector<StreamSet*>> free_;  // by the caller's stream
};

}  // namespace dpiframe::cuda
