// A CUDA graph put together from kernels, without capturing a stream: a capture lets no thread of the process wait for
// the whole GPU as long as it takes.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "launcher.h"

namespace dpiframe::cuda {

// What stands for a stream in a graph: each kernel waits for the one before it.
class GraphBranch {
 public:
  // How far a branch has come: the kernels that are done then.
  using Point = std::vector<cudaGraphNode_t>;

  const Point& here() const { return here_; }

  // The next kernel also waits for what another branch has reached.
  void WaitFor(const Point& there);

  cudaError_t Add(const void* kernel, const LaunchShape& shape, void** parameters);

 private:
  friend class GraphBuilder;
  explicit GraphBranch(cudaGraph_t graph) : graph_(graph) {}

  cudaGraph_t graph_;
  Point here_;
};

class GraphBuilder {
 public:
  // Throws CudaError.
  GraphBuilder();
  ~GraphBuilder();
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  // Must not outlive the builder.
  GraphBranch NewBranch() const { return GraphBranch(graph_); }

  cudaGraph_t graph() const { return graph_; }

 private:
  cudaGraph_t graph_ = nullptr;
};

}  // namespace dpiframe::cuda
