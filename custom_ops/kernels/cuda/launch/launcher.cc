#include "launcher.h"

#include "graph_builder.h"

namespace dpiframe::cuda {

cudaError_t Launcher::Launch(const void* kernel, const LaunchShape& shape, void** parameters) const {
  if (branch_ != nullptr) return branch_->Add(kernel, shape, parameters);
  cudaLaunchConfig_t config{};
  config.gridDim = shape.blocks;
  config.blockDim = shape.threads;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream_;
  cudaLaunchAttribute attributes[2];
  config.attrs = attributes;
  if (shape.cluster > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs].val.clusterDim = {1, 1, static_cast<unsigned>(shape.cluster)};
    ++config.numAttrs;
  }
  if (shape.overlap) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs].val.programmaticStreamSerializationAllowed = 1;
    ++config.numAttrs;
  }
  return cudaLaunchKernelExC(&config, kernel, parameters);
}

}  // namespace dpiframe::cuda
