"""Nodes at a group's edge that are better left outside, and cuts where a group is too large for one program."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx_graphsurgeon as gs

from dpiframe.graph_passes.elementwise.views import IN_PLACE
from dpiframe.graph_passes.graphs import Node

MAX_NODES = 512
"""In one group: more would make a program that takes long to compile."""


def trimmed(nodes: list[Node], outputs: Collection[int]) -> list[Node]:
    """The group without views at its edge that would make it write a copy of what is there already: a view of what it
    reads that others read as well, and a view of what it gives."""
    while True:
        inside = {id(node) for node in nodes}
        read = _views_of_inputs(nodes, inside)
        kept = [node for node in nodes if not (node.op in IN_PLACE and _copies(node, inside, read, outputs))]
        if len(kept) == len(nodes):
            return kept
        nodes = kept


def pieces(nodes: list[Node]) -> Iterator[list[Node]]:
    """The group, in parts that are small enough. Nodes are in topological order, so a part reads only earlier ones."""
    for first in range(0, len(nodes), MAX_NODES):
        yield nodes[first : first + MAX_NODES]


def halves(nodes: list[Node]) -> list[list[Node]]:
    """The group in two parts; none where a part would be a single node."""
    middle = len(nodes) // 2
    return [nodes[:middle], nodes[middle:]] if len(nodes) > 2 else []


def given(nodes: list[Node], outputs: Collection[int]) -> list[gs.Tensor]:
    """The tensors that something outside reads."""
    inside = {id(node) for node in nodes}
    return [tensor for node in nodes for tensor in node.outputs if is_given(tensor, inside, outputs)]


def is_given(tensor: gs.Tensor, inside: Collection[int], outputs: Collection[int]) -> bool:
    return id(tensor) in outputs or any(id(reader) not in inside for reader in tensor.outputs)


def _views_of_inputs(nodes: list[Node], inside: Collection[int]) -> set[int]:
    """The nodes whose result is the memory of a tensor from outside."""
    found: set[int] = set()
    for node in nodes:
        producers = [id(producer) for producer in node.inputs[0].inputs if id(producer) in inside]
        if node.op in IN_PLACE and found.issuperset(producers):
            found.add(id(node))
    return found


def _copies(node: Node, inside: Collection[int], read: Collection[int], outputs: Collection[int]) -> bool:
    source, result = node.inputs[0], node.outputs[0]
    if not is_given(result, inside, outputs):
        return False
    if id(node) in read:
        return True
    return is_given(source, inside, outputs) and not any(id(reader) in inside for reader in result.outputs)
