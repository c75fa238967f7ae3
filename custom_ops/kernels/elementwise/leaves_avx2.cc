#include "leaves.h"

namespace dpiframe {

const LeafTable& Avx2Leaves() { return kLeaves; }

}  // namespace dpiframe
