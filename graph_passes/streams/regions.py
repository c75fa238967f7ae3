"""Sets of fused nodes that can become one node: no path leaves such a set and comes back."""

from __future__ import annotations

import onnx_graphsurgeon as gs

from dpiframe.graph_passes.functions import ELEMENTWISE, GEMM, LOOKUP, op_of
from dpiframe.graph_passes.graphs import reads

LAUNCHED = {LOOKUP, ELEMENTWISE, GEMM}
"""The ops that a region can hold."""


def find_regions(graph: gs.Graph) -> list[list[gs.Node]]:
    """Sets of fused nodes with equally many other nodes behind fused ones on the way to them. Each is in the graph's
    order."""
    level: dict[int, int] = {}
    fused: dict[int, bool] = {}
    sets: dict[int, list[gs.Node]] = {}
    for node in graph.nodes:
        mine = op_of(node) in LAUNCHED
        before = {id(producer) for tensor in reads(node) for producer in tensor.inputs if id(producer) in level}
        level[id(node)] = max((level[other] + (fused[other] and not mine) for other in before), default=0)
        fused[id(node)] = mine
        if mine:
            sets.setdefault(level[id(node)], []).append(node)
    return list(sets.values())
