#include "leaves.h"

namespace dpiframe {

const LeafTable& Avx512Leaves() { return kLeaves; }

}  // namespace dpiframe
