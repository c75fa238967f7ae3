#include "leaves.h"

namespace dpiframe {

const LeafTable& BaselineLeaves() { return kLeaves; }

}  // namespace dpiframe
