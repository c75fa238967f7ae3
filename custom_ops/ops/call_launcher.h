#pragma once

#include "kernels/cuda/launch/launcher.h"
#include "node.h"

namespace dpiframe {

// Where a call's kernels are launched.
inline cuda::Launcher LauncherOf(NodeCall* call) {
  if (cuda::GraphBranch* branch = call->graph_branch()) return cuda::Launcher(branch);
  return cuda::Launcher(static_cast<cudaStream_t>(call->stream()));
}

}  // namespace dpiframe
