"""Connected sets of nodes that can be one node: no path leaves a set and comes back, and none of its values waits for
something that it doesn't need.

Each node has the set of nodes outside of programs that come before it, as bits of a number. Nodes that follow the same
ones can be together: on a path between them there is nothing else. A set may also take in an earlier one that only it
reads, as that one's nodes then wait for nothing that matters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field

import onnx_graphsurgeon as gs

from dpiframe.graph_passes.elementwise.rows import Axes
from dpiframe.graph_passes.functions import REGION, op_of
from dpiframe.graph_passes.graphs import Node, reads


@dataclass
class Group:
    """Nodes of one row space, in the graph's order. late: bits of the nodes outside of programs before them."""

    axes: Axes
    late: int
    nodes: list[Node] = field(default_factory=list)


def find_groups(graph: gs.Graph, accepted: Mapping[int, Axes], may_wait: Callable[[list[Node]], bool]) -> list[Group]:
    """The groups of a graph, in its order. accepted: the row axes of the nodes (by id) that a program can hold.

    may_wait: whether nodes may be computed only when what reads them is.
    """
    late = _late(graph, accepted)
    leader = {key: key for key in accepted}

    def find(key: int) -> int:
        while leader[key] != key:
            leader[key] = leader[leader[key]]
            key = leader[key]
        return key

    def same_place(a: int, b: int) -> bool:
        return accepted[a] == accepted[b] and late[a] == late[b]

    nodes = [node for node in graph.nodes if id(node) in accepted]
    for node in nodes:
        for producer in _producers(node.inputs):
            if id(producer) in accepted and same_place(id(producer), id(node)):
                leader[find(id(producer))] = find(id(node))
    _join_siblings(nodes, accepted, late, leader, find)
    groups = _collect(nodes, accepted, late, find)
    # what follows more lies later, as one set of these nodes follows all that another one follows
    for key in sorted(groups, key=lambda key: groups[key].late.bit_count(), reverse=True):
        group = groups[key]
        readers = {_place(reader, accepted, find) for node in group.nodes for reader in _readers(node)} - {key}
        if len(readers) != 1:
            continue
        reader = readers.pop()
        if reader in leader and accepted[reader] == group.axes and may_wait(group.nodes):
            leader[key] = reader
    return list(_collect(nodes, accepted, late, find).values())


def _late(graph: gs.Graph, accepted: Container[int]) -> dict[int, int]:
    own = {id(node) for node in graph.nodes}
    late: dict[int, int] = {}
    bits: dict[int, int] = {}
    for node in graph.nodes:
        before = 0
        for producer in _producers(reads(node)):
            if id(producer) in own:
                before |= late[id(producer)] | bits.get(id(producer), 0)
        late[id(node)] = before
        if id(node) not in accepted and node.op != "Constant":
            bits[id(node)] = 1 << len(bits)
    return late


def _join_siblings(
    nodes: list[Node],
    accepted: Mapping[int, Axes],
    late: Mapping[int, int],
    leader: dict[int, int],
    find: Callable[[int], int],
) -> None:
    """Sets that follow the same nodes and are all read by one node outside, such as the pieces of a join.

    A region isn't one node: it holds what were several when groups were formed.
    """
    readers: dict[int, set[int]] = defaultdict(set)
    regions: set[int] = set()
    for node in nodes:
        own = find(id(node))
        readers[own] |= {_place(reader, accepted, find) for reader in _readers(node)} - {own}
        regions |= {id(reader) for reader in _readers(node) if op_of(reader) == REGION}
    first: dict[tuple[Axes, int, int], int] = {}
    for key, places in readers.items():
        if len(places) == 1 and not places & regions:
            reader = next(iter(places))
            leader[key] = first.setdefault((accepted[key], late[key], reader), key)


def _collect(
    nodes: list[Node], accepted: Mapping[int, Axes], late: Mapping[int, int], find: Callable[[int], int]
) -> dict[int, Group]:
    groups: dict[int, Group] = {}
    for node in nodes:
        key = find(id(node))
        groups.setdefault(key, Group(accepted[key], late[key])).nodes.append(node)
    return groups


def _place(node: Node, accepted: Container[int], find: Callable[[int], int]) -> int:
    """The set that a node is in, or the node itself."""
    return find(id(node)) if id(node) in accepted else id(node)


def _producers(tensors: Iterable[gs.Tensor]) -> list[Node]:
    return [producer for tensor in tensors for producer in tensor.inputs]


def _readers(node: Node) -> list[Node]:
    return [reader for tensor in node.outputs for reader in tensor.outputs]
