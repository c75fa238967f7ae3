"""One iteration of a loop, run on symbols: what each tensor of its body holds; see bag_loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.bag_padding import read_padding
from dpiframe.graph_passes.canonicalize.bag_symbols import (
    Appended,
    Count,
    Items,
    Iteration,
    Kept,
    LastOr,
    Length,
    Offset,
    Outer,
    Reduced,
    Rest,
    Rows,
    Sequence,
    Test,
    axes_of,
    constant_integer,
    producer_of,
)
from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.canonicalize.progressions import Progressions
from dpiframe.graph_passes.canonicalize.sizes import Size, number, plus
from dpiframe.graph_passes.graphs import Node, is_standard, values_of

_SMALL = 1 << 16
_FLOATS = (np.dtype(np.float32), np.dtype(np.float16))


class Iterations:
    """Values of the tensors in a loop's body, and in the branches and loops inside it.

    values: what is known by id(tensor), to be given for the body's own inputs. trips: how often the loop runs.
    """

    def __init__(self, body: gs.Graph) -> None:
        self.found = Progressions()
        self.values: dict[int, Any] = {}
        self.trips: Any = None
        self._inner = {id(tensor) for node in _nodes(body) for tensor in node.outputs}

    def size(self, value: Any) -> Size | None:
        """A number of elements, or what is known to be one."""
        match value:
            case Size():
                return value
            case Outer(tensor):
                return self.found.scalar(tensor)
            case Length(vector):
                return self.found.length(vector)
        return None

    def value(self, tensor: gs.Tensor) -> Any:
        """What a tensor holds; None where that is nothing that bags are made of."""
        if id(tensor) in self.values:
            return self.values[id(tensor)]
        if id(tensor) not in self._inner:
            return Outer(tensor)
        node = tensor.inputs[0]
        rule = _RULES.get(node.op)
        self.values[id(tensor)] = None
        value = rule(self, node) if rule is not None and is_standard(node) else None
        if len(node.outputs) == 1:
            self.values[id(tensor)] = value
        return self.values[id(tensor)]

    def _same(self, node: Node) -> Any:
        return self.value(node.inputs[0])

    def _scalar_view(self, node: Node) -> Any:
        value = self.value(node.inputs[0])
        if isinstance(value, (Iteration, Offset, Length, Rest, Count)):
            return value
        return value if isinstance(value, Outer) and constant_integer(value.tensor) is not None else None

    def _unsqueeze(self, node: Node) -> Any:
        value = self.value(node.inputs[0])
        if isinstance(value, Items) and axes_of(node) == [1]:
            return replace(value, column=True)
        return self._scalar_view(node)

    def _add(self, node: Node) -> Any:
        a, b = (self.value(tensor) for tensor in node.inputs)
        if isinstance(b, Iteration):
            a, b = b, a
        step = constant_integer(b.tensor) if isinstance(b, Outer) else None
        return Iteration(a.add + step) if isinstance(a, Iteration) and step is not None else None

    def _sub(self, node: Node) -> Any:
        a, b = (self.value(tensor) for tensor in node.inputs)
        if isinstance(b, Offset) and self.size(a) is not None:
            return Rest(a, b)
        size, less = self.size(a), constant_integer(b.tensor) if isinstance(b, Outer) else None
        return plus(size, number(-less)) if size is not None and less is not None else None

    def _shape(self, node: Node) -> Any:
        value = self.value(node.inputs[0])
        vector = isinstance(value, Outer) and value.tensor.shape is not None and len(value.tensor.shape) == 1
        return Length(value.tensor) if vector else None

    def _count(self, node: Node) -> Any:
        value = self.value(node.inputs[0])
        return Count(value) if isinstance(value, Kept) else self._shape(node)

    def _gather(self, node: Node) -> Any:
        data, index = (self.value(tensor) for tensor in node.inputs)
        if node.attrs.get("axis", 0) != 0 or not isinstance(data, Outer):
            return None
        match index:
            case Iteration(add):
                return Offset(data.tensor, add)
            case Items(ids, begin, end, False):
                return Rows(data.tensor, ids, None, begin, end)
            case Kept(ids, begin, end, padding):
                rows = self._table_rows(data.tensor)
                if rows is None or rows[1] is not ids or rows[0].shape[0] != index.rows:
                    return None
                return Rows(rows[0], ids, rows[2], begin, end, padding)
        return None

    def _slice(self, node: Node) -> Any:
        data, begin, end = (self.value(tensor) for tensor in node.inputs[:3])
        axes = [self.value(tensor) for tensor in node.inputs[3:]]
        wanted = [0, 1]
        if any(not isinstance(a, Outer) or constant_integer(a.tensor) != w for a, w in zip(axes, wanted, strict=False)):
            return None
        if not isinstance(data, Outer):
            return None
        if isinstance(begin, Iteration) and isinstance(end, Iteration) and end.add == begin.add + 1:
            return Offset(data.tensor, begin.add)
        if not isinstance(begin, Offset):
            return None
        rows = self._table_rows(data.tensor)
        return Rows(*rows, begin, end) if rows is not None else Items(data.tensor, begin, end)

    def _mul(self, node: Node) -> Any:
        a, b = (self.value(tensor) for tensor in node.inputs)
        if isinstance(b, Rows):
            a, b = b, a
        fits = isinstance(a, Rows) and isinstance(b, Items) and b.column and (a.begin, a.end) == (b.begin, b.end)
        return replace(a, weights=b.tensor) if fits and a.weights is None else None

    def _reduce(self, node: Node) -> Any:
        value = self.value(node.inputs[0])
        keep = bool(node.attrs.get("keepdims", 1))
        op = node.op.removeprefix("Reduce").lower()
        if axes_of(node) != [0]:
            return None
        if isinstance(value, LastOr) and all(isinstance(v, Rows) for v in (value.last, value.other)):
            return LastOr(Reduced(op, value.last, keep), Reduced(op, value.other, keep))
        return Reduced(op, value, keep) if isinstance(value, Rows) else None

    def _div(self, node: Node) -> Any:
        a, b = (self.value(tensor) for tensor in node.inputs)
        divides = isinstance(a, Reduced) and a.op == "sum" and a.over is None and isinstance(b, Rest)
        return replace(a, over=b) if divides else None

    def _compare(self, node: Node) -> Any:
        a, b = (self.value(tensor) for tensor in node.inputs)
        return Test(node.op.lower(), a, b)

    def _if(self, node: Node) -> Any:
        test = self.value(node.inputs[0])
        branches = [node.attrs[name].outputs for name in ("then_branch", "else_branch")]
        if not isinstance(test, Test) or any(len(outputs) != 1 for outputs in branches):
            return None
        then, otherwise = (self.value(outputs[0]) for outputs in branches)
        zeros = _zeros(then)
        match test:
            case Test("equal", Offset(), Offset()) | Test("equal", Count(), Outer()) if zeros is not None:
                return self._or_zero(test, otherwise, zeros)
            case Test("equal", Iteration(0), last) if self._is_last(last):
                return LastOr(then, otherwise)
            case Test("greater", Rest() as rest, Outer(zero)) if constant_integer(zero) == 0:
                # behind an If for bags without ids a quotient that isn't taken would divide by 0 or less
                divided = isinstance(then, Reduced) and then.over == rest and replace(then, over=None) == otherwise
                return then if divided else None
        return None

    def _or_zero(self, test: Test, value: Any, zeros: int) -> Any:
        if isinstance(value, LastOr):
            last, other = self._or_zero(test, value.last, zeros), self._or_zero(test, value.other, zeros)
            return LastOr(last, other) if last is not None and other is not None else None
        if not isinstance(value, Reduced) or value.rows.table.shape is None or value.rows.table.shape[1] != zeros:
            return None
        if isinstance(test.a, Count):
            kept = test.a.kept
            rows = value.rows
            empty = constant_integer(test.b.tensor) == 0 and rows.padding == kept.padding
            same = empty and (rows.ids, rows.begin, rows.end) == (kept.ids, kept.begin, kept.end)
        else:
            bounds = (test.a, test.b)
            same = value.rows.begin in bounds and (value.rows.end in bounds or not isinstance(value.rows.end, Offset))
        return replace(value, zero=True) if same else None

    def _is_last(self, value: Any) -> bool:
        size, trips = self.size(value), self.size(self.trips)
        return size is not None and trips is not None and size == plus(trips, number(-1))

    def _insert(self, node: Node) -> Any:
        if len(node.inputs) != 2 or not isinstance(self.value(node.inputs[0]), Sequence):
            return None
        value = self.value(node.inputs[1])
        return Appended(value) if value is not None else None

    def _loop(self, node: Node) -> Any:
        """The inner loop that lists the positions of a bag without those of padding."""
        if len(node.inputs) != 4 or not node.inputs[0].is_empty() or len(node.attrs["body"].outputs) != 3:
            return None
        body, condition = node.attrs["body"], self.value(node.inputs[1])
        # the exporter carries the position and the list in either order
        place, kept_place = (2, 3) if isinstance(self.value(node.inputs[2]), Offset) else (3, 2)
        begin, empty = self.value(node.inputs[place]), node.inputs[kept_place]
        if not isinstance(begin, Offset) or not is_small_constant(empty, 8) or values_of(empty).size:
            return None
        if not isinstance(condition, Test) or condition.kind != "less" or condition.a != begin:
            return None
        found = read_padding(self.value, body, place, kept_place)
        if found is None or not isinstance(condition.b, Offset):
            return None
        end, ids, padding, rows = found
        if end != condition.b:
            return None
        kept = Kept(ids, begin, end, padding, rows)
        self.values[id(node.outputs[kept_place - 2])] = kept
        return None

    def _table_rows(self, tensor: gs.Tensor) -> tuple[gs.Tensor, gs.Tensor, gs.Tensor | None] | None:
        """Table, ids and weights of rows that are looked up, and perhaps weighed, before the loop."""
        node = producer_of(tensor)
        weights = None
        if node is not None and node.op == "Mul":
            factors = [producer_of(t) for t in node.inputs]
            place = next((i for i, f in enumerate(factors) if f is not None and f.op == "Gather"), None)
            if place is None:
                return None
            column = factors[1 - place]
            if column is None or column.op != "Unsqueeze" or axes_of(column) != [1]:
                return None
            weights, node = column.inputs[0], factors[place]
            if weights.shape is None or len(weights.shape) != 1:
                return None
        if node is None or node.op != "Gather" or not is_standard(node) or node.attrs.get("axis", 0) != 0:
            return None
        table, ids = node.inputs
        ranks = [None if t.shape is None else len(t.shape) for t in (table, ids)]
        if weights is not None and self._are_ones(weights, ids):
            weights = None
        return (table, ids, weights) if ranks == [2, 1] else None

    def _are_ones(self, weights: gs.Tensor, ids: gs.Tensor) -> bool:
        """Whether weights are what an exporter puts where there are none."""
        node = producer_of(weights)
        one = node is not None and node.op == "Expand" and is_small_constant(node.inputs[0], 8)
        if node is None or not one or (values_of(node.inputs[0]) != 1).any():
            return False
        length = self.found.length(ids)
        return length is not None and self.found.listed(node.inputs[1]) == (length,)


def _zeros(value: Any) -> int | None:
    """The width of a constant [1, width] of zeros."""
    if not isinstance(value, Outer) or not is_small_constant(value.tensor, _SMALL):
        return None
    values = values_of(value.tensor)
    fits = values.ndim == 2 and values.shape[0] == 1 and values.dtype in _FLOATS and not values.any()
    return int(values.shape[1]) if fits else None


def _nodes(graph: gs.Graph) -> list[Node]:
    found = []
    for node in graph.nodes:
        found.append(node)
        for inner in node.inner:
            found.extend(_nodes(inner))
    return found


_RULES: dict[str, Callable[[Iterations, Node], Any]] = {
    "Identity": Iterations._same,
    "Cast": Iterations._scalar_view,
    "CastLike": Iterations._scalar_view,
    "Reshape": Iterations._scalar_view,
    "Squeeze": Iterations._scalar_view,
    "Unsqueeze": Iterations._unsqueeze,
    "Add": Iterations._add,
    "Sub": Iterations._sub,
    "Mul": Iterations._mul,
    "Div": Iterations._div,
    "Shape": Iterations._shape,
    "Size": Iterations._count,
    "Gather": Iterations._gather,
    "Slice": Iterations._slice,
    "ReduceSum": Iterations._reduce,
    "ReduceMean": Iterations._reduce,
    "ReduceMax": Iterations._reduce,
    "Equal": Iterations._compare,
    "Less": Iterations._compare,
    "Greater": Iterations._compare,
    "If": Iterations._if,
    "Loop": Iterations._loop,
    "SequenceInsert": Iterations._insert,
}
