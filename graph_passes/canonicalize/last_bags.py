"""Bags of which the last reaches behind its bound: PyTorch's mean divides by, and its maximum goes over, all that
is left of the list. What lies behind the bound is put outside of the loop, so that all bags are alike."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.bag_loops import NotABagError, OpenEndError, find_bag
from dpiframe.graph_passes.graphs import Node, is_standard, set_input, set_inputs, set_producer, with_inner
from dpiframe.graph_passes.workbench import Workbench

MIN_OPSET = 13
_END = np.iinfo(np.int64).max


def close_last_bags(bench: Workbench, changes: list[str]) -> bool:
    """Let the last bag end at its bound as the others do, with the bound moved for a maximum, the result for a mean."""
    if bench.opset < MIN_OPSET:
        return False
    found = 0
    for graph in bench.graphs():
        for node in list(graph.nodes):
            if node.op != "ConcatFromSequence":
                continue
            try:
                find_bag(node)
            except OpenEndError as bag:
                if _choose_others(bench, node.inputs[0].inputs[0]):
                    writer = _Writer(bench, graph, node.outputs[0], bag)
                    writer.move_bound(node) if bag.op == "max" else writer.divide_last()
                    found += 1
            except NotABagError:
                continue
    if found:
        changes.append(f"{found} loops over bags end the last at its bound")
    return bool(found)


def _choose_others(bench: Workbench, loop: Node) -> bool:
    """Let the loop's If between the last bag and the others take the others' branch."""
    for inner in with_inner([loop]):
        test = inner.inputs[0].inputs[0] if inner.op == "If" and inner.inputs[0].inputs else None
        if test is None or test.op != "Equal" or not is_standard(test):
            continue
        if any(test.inputs[0] is tensor for tensor in loop.attrs["body"].inputs):
            set_input(inner, 0, gs.Constant(bench.new_name("is_last"), np.array(False)))
            return True
    return False


class _Writer:
    """Writes the nodes around one loop."""

    def __init__(self, bench: Workbench, graph: gs.Graph, output: gs.Tensor, bag: OpenEndError) -> None:
        self.bench, self.graph, self.output, self.bag = bench, graph, output, bag
        bounds = bag.bounds
        self.begin, self.end = self._slice(bounds, -2, -1), self._slice(bounds, -1, _END)
        self.length = self._node("Shape", [bag.ids], np.int64)
        self.empty = self._node("Equal", [self.begin, self.end], np.bool_)

    def move_bound(self, node: Node) -> None:
        """The last bound is the list's length unless the last bag has no ids."""
        bounds = self.bag.bounds
        last = self._node("Where", [self.empty, self.end, self.length], np.int64)
        closed = self._node("Concat", [self._slice(bounds, 0, -1), last], np.int64, axis=0)
        # as many as before, which inference doesn't see
        closed.shape = bounds.shape
        self.bench.found_shapes[id(closed)] = closed
        for inner in with_inner([node.inputs[0].inputs[0]]):
            for index, tensor in enumerate(inner.inputs):
                if tensor is bounds:
                    set_input(inner, index, closed)

    def divide_last(self) -> None:
        """The last mean is that over its ids times their number by that of all that is left."""
        kind = np.dtype(self.output.dtype)
        taken, left = (self._difference(bound, kind) for bound in (self.end, self.length))
        one = gs.Constant(self._name(), np.ones(1, kind))
        part = self._node("Where", [self.empty, one, self._node("Div", [taken, left], kind)], kind)
        means = gs.Variable(self._name(), kind, self.output.shape)
        joined = Node("Concat", name=self._name(), attrs={"axis": 0})
        set_producer(self.output, joined, means)
        last = self._node("Mul", [self._slice(means, -1, _END), part], kind)
        set_inputs(joined, [self._slice(means, 0, -1), last])
        self.graph.nodes.append(joined)

    def _difference(self, bound: gs.Tensor, kind: np.dtype) -> gs.Tensor:
        number = {np.dtype(np.float32): 1, np.dtype(np.float16): 10}[kind]
        return self._node("Cast", [self._node("Sub", [bound, self.begin], np.int64)], kind, to=number)

    def _slice(self, tensor: gs.Tensor, start: int, end: int) -> gs.Tensor:
        operands = [gs.Constant(self._name(), np.array([value], np.int64)) for value in (start, end, 0)]
        return self._node("Slice", [tensor, *operands], tensor.dtype)

    def _node(self, op: str, inputs: list[gs.Tensor], dtype: object, **attributes: object) -> gs.Tensor:
        result = gs.Variable(self._name(), np.dtype(dtype))  # type: ignore[call-overload]
        self.graph.nodes.append(Node(op, name=self._name(), attrs=attributes, inputs=inputs, outputs=[result]))
        return result

    def _name(self) -> str:
        return self.bench.new_name(f"{self.output.name}_last")
