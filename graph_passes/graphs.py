"""Nodes and tensors of an onnx-graphsurgeon graph, told apart by identity, and the edits that passes make on them.

graph-surgeon's own edits compare nodes by content: where two branches of an If hold the same node they take one for the
other, and a constant with thousands of readers makes them quadratic. Its sort is recursive and fails on deep graphs.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx_graphsurgeon.ir.tensor import LazyValues

from dpiframe.graph_passes.model_io import ModelError

STANDARD_DOMAINS = (None, "", "ai.onnx")


class Node(gs.Node):
    """A node that equals only itself.

    proto: what it was read from, None for nodes that passes make. inner: the graphs that it holds, branches and loop
    bodies. well_formed: False where it lacks an input or an attribute that its operator must have.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(
        self, op: str, *, proto: onnx.NodeProto | None = None, well_formed: bool = True, **fields: Any
    ) -> None:
        super().__init__(op, **fields)
        self.proto = proto
        self.well_formed = well_formed
        self.inner = [value for value in self.attrs.values() if isinstance(value, gs.Graph)]


class StoredValues(LazyValues):
    """A stored tensor's values, not read until someone asks for them. Types that numpy lacks keep their ONNX
    number as dtype."""

    def __init__(self, tensor: onnx.TensorProto) -> None:
        self.tensor = tensor
        self.shape = list(tensor.dims)
        self.dtype = numpy_type(tensor.data_type)
        self._array: np.ndarray | None = None

    def load(self) -> np.ndarray:
        if self._array is None:
            self._array = onnx.numpy_helper.to_array(self.tensor)
        return self._array


_NUMPY_TYPES: dict[int, np.dtype[Any]] = {
    number: np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    for number in (
        *(onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16),
        *(onnx.TensorProto.INT8, onnx.TensorProto.INT16, onnx.TensorProto.INT32, onnx.TensorProto.INT64),
        *(onnx.TensorProto.UINT8, onnx.TensorProto.UINT16, onnx.TensorProto.UINT32, onnx.TensorProto.UINT64),
        *(onnx.TensorProto.BOOL, onnx.TensorProto.STRING, onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128),
    )
}


def numpy_type(number: int) -> np.dtype[Any] | int | None:
    """An ONNX element type as numpy's, as its number where numpy has none, None where it is undefined."""
    return _NUMPY_TYPES.get(number, number) if number else None


def type_name(tensor: gs.Tensor) -> str:
    """What a tensor's type is called: float32, or bfloat16, which NumPy lacks."""
    kind = tensor.dtype
    names = {number: name.lower() for name, number in onnx.TensorProto.DataType.items()}
    return names.get(kind, str(kind)) if isinstance(kind, int) else str(kind)


def is_standard(node: Node) -> bool:
    """The node's operator is ONNX's own, and the node has what the operator needs."""
    return node.domain in STANDARD_DOMAINS and node.well_formed


def reads(node: Node) -> list[gs.Tensor]:
    """What a node reads, counting what its subgraphs read from around them."""
    if not node.inner:
        return node.inputs
    tensors = list(node.inputs)
    for graph in node.inner:
        tensors.extend(graph.outputs)
        for inner in graph.nodes:
            tensors.extend(reads(inner))
    return tensors


def replace_uses(old: gs.Tensor, new: gs.Tensor) -> None:
    """Let every node that reads `old`, in subgraphs too, read `new`."""
    readers = list(old.outputs)
    for node in readers:
        for index, tensor in enumerate(node.inputs):
            if tensor is old:
                list.__setitem__(node.inputs, index, new)
    list.clear(old.outputs)
    list.extend(new.outputs, readers)


def set_input(node: Node, index: int, new: gs.Tensor) -> None:
    """Let one input of a node be another tensor."""
    old = node.inputs[index]
    list.__setitem__(node.inputs, index, new)
    list.remove(old.outputs, node)
    list.append(new.outputs, node)


def set_inputs(node: Node, tensors: Sequence[gs.Tensor]) -> None:
    """Let a node read these tensors."""
    for old in node.inputs:
        list.remove(old.outputs, node)
    _refill(node.inputs, list(tensors))
    for new in tensors:
        list.append(new.outputs, node)


def set_producer(tensor: gs.Tensor, node: Node, placeholder: gs.Tensor) -> None:
    """Let `node` give the tensor as a further output; who gave it before gives the placeholder instead."""
    for producer in list(tensor.inputs):
        for index, output in enumerate(producer.outputs):
            if output is tensor:
                list.__setitem__(producer.outputs, index, placeholder)
                list.append(placeholder.inputs, producer)
    list.clear(tensor.inputs)
    node.outputs.append(tensor)


def detach(nodes: Iterable[Node]) -> None:
    """Cut nodes, with all in their subgraphs, off the tensors that they read and write."""
    dead = {id(node): node for node in with_inner(nodes)}
    touched: dict[int, gs.Tensor] = {}
    for node in dead.values():
        touched.update((id(tensor), tensor) for tensor in (*node.inputs, *node.outputs))
        list.clear(node.inputs)
        list.clear(node.outputs)
    for tensor in touched.values():
        _refill(tensor.outputs, [reader for reader in tensor.outputs if id(reader) not in dead])
        _refill(tensor.inputs, [producer for producer in tensor.inputs if id(producer) not in dead])


def drop(graph: gs.Graph, nodes: Iterable[Node]) -> None:
    """Take nodes out of the graph, cut off from all tensors."""
    dead = {id(node): node for node in nodes}
    detach(dead.values())
    graph.nodes = [node for node in graph.nodes if id(node) not in dead]


def tidy(graph: gs.Graph) -> int:
    """Drop the nodes that no output needs, in subgraphs too, and sort the rest; returns how many are gone.

    The order is topological and otherwise stays as it was. Raises ModelError where the graph has a cycle.
    """
    gone = 0
    for node in graph.nodes:
        for inner in node.inner:
            gone += tidy(inner)
    own = {id(node): node for node in graph.nodes}
    needed: set[int] = set()
    waiting = list(graph.outputs)
    while waiting:
        for producer in waiting.pop().inputs:
            if id(producer) in own and id(producer) not in needed:
                needed.add(id(producer))
                waiting.extend(reads(producer))
    dead = [node for node in graph.nodes if id(node) not in needed]
    if dead:
        drop(graph, dead)
    if first_too_early(graph.nodes) is not None:
        graph.nodes = _sorted(graph.nodes)
    return gone + len(dead)


def first_too_early(nodes: Sequence[Node]) -> Node | None:
    """The first node that stands before one whose output it reads."""
    waiting = {id(node) for node in nodes}
    for node in nodes:
        # plain loops: half the time of a generator, and this runs some twenty times a model
        for tensor in reads(node):
            for producer in tensor.inputs:
                if id(producer) in waiting:
                    return node
        waiting.remove(id(node))
    return None


def values_of(tensor: gs.Tensor) -> np.ndarray:
    """The values of a constant that has been found small enough to be read."""
    stored = tensor._values
    # graph-surgeon's own `values` would forget the stored tensor
    return np.asarray(stored.load() if isinstance(stored, StoredValues) else stored)


def constant_values(node: Node) -> object:
    """The values of a Constant node, None where it holds strings in an attribute, or a sparse tensor."""
    attributes = node.attrs
    if "value" in attributes:
        return attributes["value"]._values
    for name, dtype in (
        ("value_int", np.int64),
        ("value_ints", np.int64),
        ("value_float", np.float32),
        ("value_floats", np.float32),
    ):
        if name in attributes:
            return np.array(attributes[name], dtype)
    return None


def byte_size(tensor: gs.Constant) -> int:
    """Bytes that the constant's values take, without reading them."""
    return math.prod(tensor.shape) * (np.dtype(tensor.dtype).itemsize if isinstance(tensor.dtype, np.dtype) else 2)


def node_label(node: Node) -> str:
    """What to call a node in a report: its name or, where it has none, its first output's."""
    return node.name or next((tensor.name for tensor in node.outputs if tensor.name), node.op)


def _sorted(nodes: list[Node]) -> list[Node]:
    place = {id(node): index for index, node in enumerate(nodes)}
    waits_for: list[int] = []
    followers: list[list[int]] = [[] for _ in nodes]
    for index, node in enumerate(nodes):
        before = {place[id(p)] for tensor in reads(node) for p in tensor.inputs if id(p) in place}
        waits_for.append(len(before))
        for other in before:
            followers[other].append(index)
    ready = [index for index, count in enumerate(waits_for) if not count]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(nodes[index])
        for follower in followers[index]:
            waits_for[follower] -= 1
            if not waits_for[follower]:
                heapq.heappush(ready, follower)
    if len(order) < len(nodes):
        stuck = next(node for node, count in zip(nodes, waits_for, strict=True) if count)
        raise ModelError(f"node '{node_label(stuck)}' depends on its own output: the graph has a cycle")
    return order


def with_inner(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes, and those in their subgraphs."""
    for node in nodes:
        yield node
        for graph in node.inner:
            yield from with_inner(graph.nodes)


def _refill(entries: list[Any], content: list[Any]) -> None:
    list.clear(entries)
    list.extend(entries, content)
