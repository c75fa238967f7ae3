// ParallelRegion for the CPU provider: its nodes in their order. Regions are formed for CUDA; a file with one still
// runs here.
#include <memory>
#include <vector>

#include "region_node.h"

namespace dpiframe {
namespace {

class CpuRegionValues final : public RegionValues {
 public:
  using RegionValues::RegionValues;

  void* Scratch(size_t bytes) override {
    blocks_.push_back(std::make_unique<Line[]>((bytes + sizeof(Line) - 1) / sizeof(Line)));
    return blocks_.back().get();
  }

 protected:
  void* Allocate(int, size_t bytes) override { return Scratch(bytes); }

 private:
  struct alignas(64) Line {
    char bytes[64];
  };
  std::vector<std::unique_ptr<Line[]>> blocks_;
};

class ParallelRegionCpu final : public Kernel {
 public:
  explicit ParallelRegionCpu(const NodeInfo& info) : Kernel(info.api()), region_(info, nullptr) {}

  void Compute(NodeCall* call) override {
    CpuRegionValues values(region_.program(), call);
    for (size_t i = 0; i < region_.program().nodes.size(); ++i) {
      RegionNodeCall node(region_.node(i), &values, nullptr);
      region_.kernel(i).Compute(&node);
    }
  }

 private:
  Region region_;
};

}  // namespace

const OpDefinition kParallelRegionCpu = {
    "ParallelRegion",  64, nullptr, [](const NodeInfo& info) -> Kernel* { return new ParallelRegionCpu(info); },
    InferRegionShapes,
};

}  // namespace dpiframe
