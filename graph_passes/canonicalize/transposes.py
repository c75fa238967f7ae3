"""Elementwise nodes on turned operands whose result is turned back, computed as the operands lie: `(x^T * r)^T` of rows
x and a number r for each is `x * r`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.canonicalize.shape_values import Dim
from dpiframe.graph_passes.graphs import Node, is_standard, replace_uses, values_of
from dpiframe.graph_passes.workbench import Workbench

MIN_OPSET = 13
ELEMENTWISE = {
    *("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Where", "Cast"),
    *("Neg", "Abs", "Sqrt", "Exp", "Log", "Sin", "Cos", "Erf", "Relu", "LeakyRelu", "Elu", "Sigmoid", "Tanh"),
}
_MAX_DEPTH = 32
"""Nodes on a path that a Transpose is taken back through."""


def compute_unturned(bench: Workbench, changes: list[str]) -> bool:
    """Take a Transpose back through elementwise nodes that nothing else reads, where it meets its opposite on the way
    and is a view of every other operand."""
    if bench.opset < MIN_OPSET:
        return False
    outputs = bench.output_ids()
    found = 0
    for graph in bench.graphs():
        own = {id(node) for node in graph.nodes}
        for node in list(graph.nodes):
            order = order_of(node)
            if order is None or id(node.outputs[0]) in outputs or not node.outputs[0].outputs:
                continue
            back = _Back(bench, graph, order, outputs, own)
            if back.undoes(node.inputs[0]) and order_of(node.inputs[0].inputs[0]) is None:
                replace_uses(node.outputs[0], back.computed(node.inputs[0]))
                found += 1
    if found:
        changes.append(f"{found} results are computed as their operands lie and not turned back")
    return bool(found)


def order_of(node: Node) -> list[int] | None:
    """The order of axes that a Transpose gives; None for other nodes, and where it isn't known."""
    if node.op != "Transpose" or not is_standard(node):
        return None
    order, shape = node.attrs.get("perm"), node.inputs[0].shape
    if order is None:
        return None if shape is None else list(range(len(shape)))[::-1]
    return list(order) if sorted(order) == list(range(len(order))) else None


def moved(rank: int, source: int, target: int) -> list[int]:
    """The order of axes of which one has moved."""
    order = [axis for axis in range(rank) if axis != source]
    return [*order[:target], source, *order[target:]]


def turned_twice(first: Sequence[int], second: Sequence[int]) -> list[int] | None:
    """The one order that two have, one after the other; None where they are of different ranks."""
    return [first[axis] for axis in second] if len(first) == len(second) else None


class _Back:
    """What one Transpose gives, computed without it. order: of its axes. outputs: id() of all graphs' outputs. own:
    of the nodes of its graph."""

    def __init__(self, bench: Workbench, graph: gs.Graph, order: list[int], outputs: set[int], own: set[int]) -> None:
        self._bench = bench
        self._graph = graph
        self._order = order
        self._outputs = outputs
        self._own = own
        self._undone: dict[int, int] = {}

    def undoes(self, tensor: gs.Tensor, depth: int = 0) -> int:
        """How many opposite Transposes are undone if the tensor is computed in this order; 0 where that costs one."""
        if id(tensor) not in self._undone:
            self._undone[id(tensor)] = self._count(tensor, depth)
        return self._undone[id(tensor)]

    def computed(self, tensor: gs.Tensor) -> gs.Tensor:
        """The tensor in this order of axes, after `undoes` has said that it has a way there."""
        if not self._undone[id(tensor)]:
            return self._viewed(tensor)
        node = tensor.inputs[0]
        if node.op == "Transpose":
            return node.inputs[0]
        operands = [self.computed(operand) for operand in node.inputs]
        return self._append(tensor, node.op, dict(node.attrs), operands)

    def _count(self, tensor: gs.Tensor, depth: int) -> int:
        if tensor.shape is None or len(tensor.shape) != len(self._order) or not tensor.inputs:
            return 0
        first = order_of(tensor.inputs[0])
        if first is not None:
            return int(turned_twice(first, self._order) == list(range(len(self._order))))
        node = tensor.inputs[0]
        if node.op not in ELEMENTWISE or not is_standard(node) or id(node) not in self._own or depth == _MAX_DEPTH:
            return 0
        if len(tensor.outputs) != 1 or id(tensor) in self._outputs:
            return 0
        undone = [self.undoes(operand, depth + 1) for operand in node.inputs]
        free = (count or self._view(operand) is not None for operand, count in zip(node.inputs, undone, strict=True))
        return sum(undone) if all(free) else 0

    def _sizes(self, tensor: gs.Tensor) -> list[Dim]:
        """An operand's sizes as broadcasting has them: of fewer axes, with ones in front."""
        return [1] * (len(self._order) - len(tensor.shape)) + list(tensor.shape)

    def _view(self, tensor: gs.Tensor) -> list[int] | None:
        """The shape under which an operand's elements lie in this order, -1 for the one size that isn't known. None
        where they would have to move, unless it is a constant."""
        if tensor.is_empty() or tensor.shape is None or len(tensor.shape) > len(self._order):
            return None
        sizes = self._sizes(tensor)
        moving = [axis for axis in self._order if sizes[axis] != 1]
        if not all(sizes) or (moving != sorted(moving) and not is_small_constant(tensor)):
            return None
        target = [size if isinstance(size, int) else -1 for size in (sizes[axis] for axis in self._order)]
        return target if target.count(-1) <= 1 else None

    def _viewed(self, tensor: gs.Tensor) -> gs.Tensor:
        target = self._view(tensor)
        if target is None or all(size == 1 for size in target):
            return tensor
        if is_small_constant(tensor):
            values = values_of(tensor)
            turned = values.reshape([1] * (len(self._order) - values.ndim) + list(values.shape)).transpose(self._order)
            return gs.Constant(self._bench.new_name(f"{tensor.name}_turned"), np.ascontiguousarray(turned))
        shape = gs.Constant(self._bench.new_name(f"{tensor.name}_shape"), np.array(target, np.int64))
        return self._append(tensor, "Reshape", {}, [tensor, shape])

    def _append(self, tensor: gs.Tensor, op: str, attributes: dict[str, object], inputs: list[gs.Tensor]) -> gs.Tensor:
        sizes = self._sizes(tensor)
        shape = [sizes[axis] for axis in self._order]
        result = gs.Variable(self._bench.new_name(f"{tensor.name}_unturned"), tensor.dtype, shape)
        name = self._bench.new_name(result.name)
        self._graph.nodes.append(Node(op, name=name, attrs=attributes, inputs=inputs, outputs=[result]))
        return result
