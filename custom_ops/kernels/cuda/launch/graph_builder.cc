#include "graph_builder.h"

#include <algorithm>

#include "kernels/cuda/device/cuda_error.h"

namespace dpiframe::cuda {
namespace {

// An edge on which a kernel may start before the one it waits for has ended.
cudaError_t AddEarlyEdge(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to) {
  cudaGraphEdgeData edge{};
  edge.from_port = cudaGraphKernelNodePortProgrammatic;
  edge.type = cudaGraphDependencyTypeProgrammatic;
#if CUDART_VERSION < 13000
  return cudaGraphAddDependencies_v2(graph, &from, &to, &edge, 1);
#else
  return cudaGraphAddDependencies(graph, &from, &to, &edge, 1);
#endif
}

}  // namespace

void GraphBranch::WaitFor(const Point& there) {
  for (const cudaGraphNode_t node : there) {
    if (std::find(here_.begin(), here_.end(), node) == here_.end()) here_.push_back(node);
  }
}

cudaError_t GraphBranch::Add(const void* kernel, const LaunchShape& shape, void** parameters) {
  cudaKernelNodeParams node{};
  node.func = const_cast<void*>(kernel);
  node.gridDim = shape.blocks;
  node.blockDim = shape.threads;
  node.sharedMemBytes = static_cast<unsigned>(shape.shared_bytes);
  node.kernelParams = parameters;
  const size_t waits = shape.overlap ? 0 : here_.size();
  cudaGraphNode_t added = nullptr;
  cudaError_t code = cudaGraphAddKernelNode(&added, graph_, here_.data(), waits, &node);
  if (code != cudaSuccess) return code;
  for (size_t i = waits; i < here_.size(); ++i) {
    code = AddEarlyEdge(graph_, here_[i], added);
    if (code != cudaSuccess) return code;
  }
  if (shape.cluster > 1) {
    cudaLaunchAttributeValue value{};
    value.clusterDim = {1, 1, static_cast<unsigned>(shape.cluster)};
    code = cudaGraphKernelNodeSetAttribute(added, cudaLaunchAttributeClusterDimension, &value);
    if (code != cudaSuccess) return code;
  }
  here_ = {added};
  return cudaSuccess;
}

GraphBuilder::GraphBuilder() { CheckCuda(cudaGraphCreate(&graph_, 0), "a graph can't be made"); }

GraphBuilder::~GraphBuilder() { cudaGraphDestroy(graph_); }

}  // namespace dpiframe::cuda
