#include "graph_cache.h"

#include <algorithm>

#include "kernels/cuda/device/cuda_error.h"

namespace dpiframe::cuda {

GraphCache::Graph::Graph(cudaGraph_t from) {
  CheckCuda(cudaGraphInstantiate(&executable, from, 0), "a graph can't be made ready");
}

// One that still runs is freed when it is done.
GraphCache::Graph::~Graph() { cudaGraphExecDestroy(executable); }

bool GraphCache::Launch(const Key& key, cudaStream_t stream) {
  std::shared_ptr<Graph> graph;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++calls_;
    const auto found = entries_.find(key);
    if (found == entries_.end()) return false;
    found->second.used = calls_;
    graph = found->second.graph;
  }
  cudaError_t code;
  {
    const std::lock_guard<std::mutex> lock(graph->mutex);
    code = cudaGraphLaunch(graph->executable, stream);
  }
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    GiveUp(key, graph);
    return false;
  }
  CheckCuda(code, "a graph can't be launched");
  return true;
}

bool GraphCache::Wants(const Key& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (calls_ < wants_from_) return false;
  if (entries_.size() >= kMost && calls_ - LeastUsed()->second.used < kIdleLaunches) return false;
  if (seen_.size() >= kMostSeen) seen_.clear();
  return !seen_.insert(key).second;
}

void GraphCache::Add(const Key& key, cudaGraph_t graph) {
  const auto made = std::make_shared<Graph>(graph);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (entries_.size() >= kMost) entries_.erase(LeastUsed());
  entries_[key] = {made, calls_};
  seen_.erase(key);
}

void GraphCache::PutOff() {
  const std::lock_guard<std::mutex> lock(mutex_);
  wants_from_ = calls_ + kPauseLaunches;
}

void GraphCache::GiveUp(const Key& key, const std::shared_ptr<Graph>& graph) {
  PutOff();
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(key);
  if (found != entries_.end() && found->second.graph == graph) entries_.erase(found);
}

GraphCache::Entries::iterator GraphCache::LeastUsed() {
  return std::min_element(entries_.begin(), entries_.end(),
                          [](const auto& one, const auto& other) { return one.second.used < other.second.used; });
}

}  // namespace dpiframe::cuda
