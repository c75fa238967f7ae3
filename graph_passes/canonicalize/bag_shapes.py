"""Shapes of what loops over bags give, which ONNX's inference doesn't find: as many rows as there are bags."""

from __future__ import annotations

from dpiframe.graph_passes.canonicalize.bag_loops import NotABagError, bag_count, find_bag
from dpiframe.graph_passes.workbench import Workbench


def shape_bags(bench: Workbench, changes: list[str]) -> bool:
    """Let the rows of bags have the symbol of their offsets, so that bags of one batch can be joined."""
    found = False
    for graph in bench.graphs():
        for node in graph.nodes:
            if node.op not in ("Loop", "ConcatFromSequence") or id(node.outputs[0]) in bench.found_shapes:
                continue
            try:
                bag = find_bag(node)
            except NotABagError:
                continue
            if bag is None or bag.offsets.shape is None or bag.offsets.shape[0] is None:
                continue
            output = node.outputs[0]
            output.dtype = bag.table.dtype
            output.shape = [bag_count(bag.offsets.shape[0], bag.bounds), bag.table.shape[1]]
            bench.found_shapes[id(output)] = output
            found = True
    return found
