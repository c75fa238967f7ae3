// The table of all leaves. Included once for each instruction set: internal linkage.
#pragma once

#include "casts.h"
#include "copies.h"
#include "leaf.h"
#include "operations.h"
#include "reductions.h"

namespace dpiframe {
namespace {

const LeafTable kLeaves = {
    kVectorBytes,
    FindOperation,
    FindPair,
    FindCast,
    HalvesLeaf<HalfStep::kRound>,
    HalvesLeaf<HalfStep::kLoad>,
    HalvesLeaf<HalfStep::kStore>,
    FindCopy,
    FindPick,
    PickRunsLeaf,
    [](ReduceOp op, Stored type) { return FindReduction(op, type, true); },
    [](ReduceOp op, Stored type) { return FindReduction(op, type, false); },
    [](Stored type) -> Leaf { return type == Stored::kFloat ? DotInnerLeaf<float> : DotInnerLeaf<double>; },
    [](Stored type, bool broadcast_b) -> Leaf {
      if (broadcast_b) return type == Stored::kFloat ? DotMiddleLeaf<float, true> : DotMiddleLeaf<double, true>;
      return type == Stored::kFloat ? DotMiddleLeaf<float, false> : DotMiddleLeaf<double, false>;
    },
    [](Stored type) -> Leaf { return type == Stored::kFloat ? ContractLeaf<float> : ContractLeaf<double>; },
};

}  // namespace
}  // namespace dpiframe
