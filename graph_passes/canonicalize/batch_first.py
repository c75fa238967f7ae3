"""Nodes that compute with the batch behind another axis, as attention does that is written sequence first, compute with
the batch in front: then a row's elements lie together, and what is computed of them can be fused."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.layouts import Layout
from dpiframe.graph_passes.canonicalize.row_rules import RowRules
from dpiframe.graph_passes.canonicalize.transposes import MIN_OPSET, order_of
from dpiframe.graph_passes.graphs import Node, detach, is_standard, reads, replace_uses
from dpiframe.graph_passes.workbench import Workbench

_FLOATS = {np.dtype(name) for name in ("float16", "float32", "float64")}


def put_batch_first(bench: Workbench, changes: list[str]) -> bool:
    """Compute everything between Transposes that move the batch away and those that bring it back on rows.

    Left alone: what lies behind a Transpose, where anything else reads some of that.
    """
    if bench.opset < MIN_OPSET:
        return False
    outputs = bench.output_ids()
    moved = 0
    for graph in bench.graphs():
        moved += _Region(bench, graph, outputs).rewrite()
    if moved:
        changes.append(f"{moved} nodes compute with the batch in front")
    return bool(moved)


class _Region:
    """The nodes of one graph that lie between such Transposes. Those that take their places aren't in the graph yet."""

    def __init__(self, bench: Workbench, graph: gs.Graph, outputs: set[int]) -> None:
        self._graph = graph
        self._outputs = outputs
        self._rules = RowRules(bench)
        self._replaced: dict[int, tuple[gs.Tensor, gs.Tensor]] = {}
        self._old: set[int] = set()
        # nodes and tensors that are replaced together or not at all: each leads to another of them
        self._leader: dict[int, int] = {}

    def rewrite(self) -> int:
        """How many nodes were replaced."""
        for node in self._graph.nodes:
            if is_standard(node):
                self._visit(node)
        while self._replaced:
            stuck = {self._find(node) for node in self._needed() & self._old}
            if not stuck:
                break
            self._replaced = {key: pair for key, pair in self._replaced.items() if self._find(key) not in stuck}
            self._old = {node for node in self._old if self._find(node) not in stuck}
        if not self._replaced:
            detach(self._rules.made)
            return 0
        self._graph.nodes.extend(self._rules.made)
        for tensor, replacement in self._replaced.values():
            replace_uses(tensor, replacement)
        return len(self._old)

    def _visit(self, node: Node) -> None:
        layout = self._seed(node) or self._rules.layout_of(node)
        if layout is None:
            return
        tensor = node.outputs[0]
        self._old.add(id(node))
        for member in (tensor, *node.inputs):
            if member is tensor or id(member) in self._leader:
                self._leader[self._find(id(member))] = self._find(id(node))
        if layout.axes[0] != (0,):
            self._rules.layouts[id(tensor)] = layout
        elif id(tensor) not in self._outputs:
            rows = self._rules.arranged(layout, [list(part) for part in layout.axes[1:]])
            self._replaced[id(tensor)] = tensor, rows

    def _find(self, member: int) -> int:
        while self._leader.setdefault(member, member) != member:
            self._leader[member] = self._leader[self._leader[member]]
            member = self._leader[member]
        return member

    def _seed(self, node: Node) -> Layout | None:
        """A Transpose that moves the batch away."""
        order, source = order_of(node), node.inputs[0] if node.inputs else None
        if order is None or source is None or id(source) in self._rules.layouts or not order or order[0] == 0:
            return None
        source = self._replaced.get(id(source), (source, source))[1]
        shape = source.shape
        known = shape is not None and isinstance(shape[0], str) and all(isinstance(d, int) and d for d in shape[1:])
        if not known or source.dtype not in _FLOATS or len(shape) < 3:
            return None
        return Layout(source, tuple(shape[1:]), tuple((axis,) for axis in order))

    def _needed(self) -> set[int]:
        """id() of the nodes that the graph's outputs need once what is replaced is."""
        needed: set[int] = set()
        waiting = list(self._graph.outputs)
        while waiting:
            tensor = waiting.pop()
            tensor = self._replaced.get(id(tensor), (tensor, tensor))[1]
            for producer in tensor.inputs:
                if id(producer) not in needed:
                    needed.add(id(producer))
                    waiting.extend(reads(producer))
        return needed
