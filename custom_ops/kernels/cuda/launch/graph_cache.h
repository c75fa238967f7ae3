// CUDA graphs of a kernel's own work, each for calls with the same sizes and addresses.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace dpiframe::cuda {

// Any number of threads may use it at once. Nothing here waits for the device.
class GraphCache {
 public:
  // All that a graph depends on: sizes, addresses.
  using Key = std::vector<uintptr_t>;

  // Launches the graph of a key; false where there is none, or no memory for it on the device. Throws CudaError.
  bool Launch(const Key& key, cudaStream_t stream);

  // Whether a graph of this key is likely to pay: the key has come before, there is room, and none failed lately.
  bool Wants(const Key& key);

  // To be called when a graph could not be made.
  void PutOff();

  // Makes a graph ready for Launch; it stays the caller's. Throws CudaError.
  void Add(const Key& key, cudaGraph_t graph);

 private:
  // A graph takes about 0.1 ms to make and some 10 KB of the device's memory, and saves some 10 µs a launch: so one
  // that is in use is not given up for another.
  static constexpr size_t kMost = 32;
  static constexpr size_t kMostSeen = 512;
  static constexpr uint64_t kIdleLaunches = 1024;
  // After a failure: what failed for memory may work by then, and what never works costs next to nothing.
  static constexpr uint64_t kPauseLaunches = 1024;

  struct Graph {
    explicit Graph(cudaGraph_t from);
    ~Graph();
    std::mutex mutex;  // a launch is no other's at the same time
    cudaGraphExec_t executable = nullptr;
  };
  struct Entry {
    std::shared_ptr<Graph> graph;
    uint64_t used;
  };
  using Entries = std::map<Key, Entry>;

  Entries::iterator LeastUsed();
  void GiveUp(const Key& key, const std::shared_ptr<Graph>& graph);

  std::mutex mutex_;
  Entries entries_;
  std::set<Key> seen_;
  uint64_t calls_ = 0;
  uint64_t wants_from_ = 0;
};

}  // namespace dpiframe::cuda
