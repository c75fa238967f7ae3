"""The loops that PyTorch's exporters write for nn.EmbeddingBag (P25), run on symbols: what one iteration computes tells
whether it pools the rows of one bag.

One exporter writes a Loop that scans (slice the ids, Gather, reduce), the other a Gather of all rows and a Loop that
appends to a sequence, with an If for empty bags, another for the last bag, and an inner Loop that drops padding. Any
mix of these is understood. Offsets are taken to be in order and not below 0, as PyTorch wants them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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
    is_true,
    producer_of,
)
from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.canonicalize.progressions import Progressions, Size, number, plus, times
from dpiframe.graph_passes.canonicalize.shape_values import Dim
from dpiframe.graph_passes.graphs import Node, is_standard, values_of

_SMALL = 1 << 16
_END = 1 << 31
_FLOATS = (np.dtype(np.float32), np.dtype(np.float16))


@dataclass(frozen=True)
class BagLoop:
    """Bags of rows of `table`. Bag i takes ids[offsets[i]] up to where the next begins or, with bounds, offsets[i + 1].

    The last ends with the list unless there are bounds, which are one more than bags. op: sum, mean or max. lowest: a
    bag without ids gives -inf rather than 0.
    """

    table: gs.Tensor
    ids: gs.Tensor
    offsets: gs.Tensor
    bounds: bool
    op: str
    weights: gs.Tensor | None
    padding: int | None
    lowest: bool
    loop: Node

    def regular_length(self, found: Progressions) -> Size | None:
        """L where each bag is known to take the next L ids, and all bags together the list."""
        ramp, length = found.ramp(self.offsets), found.length(self.ids)
        if ramp is None or ramp.first != 0:
            return None
        bags = plus(ramp.count, number(-1)) if self.bounds else ramp.count
        return ramp.step if bags is not None and length is not None and times(ramp.step, bags) == length else None


class NotABagError(Exception):
    """A loop over table rows that computes something else; the text says what."""


def find_bag(node: Node) -> BagLoop | None:
    """The bags that a node's first output holds, one a row: of a Loop that scans, or a ConcatFromSequence behind one.

    None where it is nothing of the kind. Raises NotABagError where it only looks like it.
    """
    if not is_standard(node):
        return None
    if node.op == "ConcatFromSequence":
        loop = node.inputs[0].inputs[0] if node.inputs[0].inputs else None
        if node.attrs.get("axis") != 0 or node.attrs.get("new_axis", 0):
            return None
    else:
        loop = node
    if loop is None or loop.op != "Loop" or not is_standard(loop):
        return None
    if (len(loop.outputs) > 1) != (node is not loop):
        return None
    return _Reader(loop).read()


def bag_count(offsets: Dim, bounds: bool) -> Dim:
    """How many bags there are to that many offsets; a symbol of its own where their number is one."""
    if not bounds or offsets is None:
        return offsets
    return offsets - 1 if isinstance(offsets, int) else f"{offsets}#-1"


class _Reader:
    """Reads one loop."""

    def __init__(self, loop: Node) -> None:
        self.loop = loop
        self.body: gs.Graph = loop.attrs["body"]
        self.found = Progressions()
        self._values: dict[int, Any] = {}
        self._inner = {id(tensor) for node in _nodes(self.body) for tensor in node.outputs}
        self._trips: Any = None

    def read(self) -> BagLoop | None:
        try:
            result = self._result()
            return self._bag(result) if result is not None else None
        except (KeyError, IndexError, TypeError, ValueError):
            # operands that no runtime would take
            return None

    def _result(self) -> Any:
        """What an iteration gives, after the loop is known to count bags from 0 up."""
        body, loop = self.body, self.loop
        if len(loop.inputs) == 2:
            if len(body.inputs) != 2 or len(body.outputs) != 2:
                return None
            self._values[id(body.inputs[0])] = Iteration(0)
            self._values[id(body.inputs[1])] = Outer(loop.inputs[1])
            self._trips = Outer(loop.inputs[0])
            if not is_true(loop.inputs[1]) or not self._is_always_true(body.outputs[0]):
                return None
            return self._value(body.outputs[1])
        if len(loop.inputs) != 4 or not loop.inputs[0].is_empty() or len(body.outputs) != 3:
            return None
        sequence, counter = (2, 3) if loop.inputs[2].dtype is None else (3, 2)
        start = loop.inputs[sequence].inputs[0] if loop.inputs[sequence].inputs else None
        if start is None or start.op != "SequenceEmpty" or constant_integer(loop.inputs[counter]) != 0:
            return None
        # a counter that is carried starts at 0 and grows by 1
        self._values[id(body.inputs[counter])] = Iteration(0)
        self._values[id(body.inputs[sequence])] = Sequence()
        if self._value(body.outputs[counter - 1]) != Iteration(1):
            return None
        condition, first = self._value(body.outputs[0]), self._first_condition(loop.inputs[1])
        if not isinstance(condition, Test) or condition.kind != "less" or condition.a != Iteration(1):
            return None
        if first is None or first != self._size(condition.b):
            return None
        self._trips = condition.b
        appended = self._value(body.outputs[sequence - 1])
        return appended.value if isinstance(appended, Appended) else None

    def _first_condition(self, tensor: gs.Tensor) -> Size | None:
        """n, where the loop is entered if 0 < n."""
        less = producer_of(tensor)
        if less is None or less.op != "Less" or constant_integer(less.inputs[0]) != 0:
            return None
        return self.found.scalar(less.inputs[1])

    def _is_always_true(self, tensor: gs.Tensor) -> bool:
        while tensor.inputs and tensor.inputs[0].op in ("Cast", "Identity"):
            tensor = tensor.inputs[0].inputs[0]
        return is_true(tensor) or tensor is self.body.inputs[1]

    # one iteration

    def _value(self, tensor: gs.Tensor) -> Any:
        if id(tensor) in self._values:
            return self._values[id(tensor)]
        if id(tensor) not in self._inner:
            return Outer(tensor)
        node = tensor.inputs[0]
        rule = _RULES.get(node.op)
        self._values[id(tensor)] = None
        value = rule(self, node) if rule is not None and is_standard(node) else None
        if len(node.outputs) == 1:
            self._values[id(tensor)] = value
        return self._values[id(tensor)]

    def _same(self, node: Node) -> Any:
        return self._value(node.inputs[0])

    def _scalar_view(self, node: Node) -> Any:
        value = self._value(node.inputs[0])
        if isinstance(value, (Iteration, Offset, Length, Rest, Count)):
            return value
        return value if isinstance(value, Outer) and constant_integer(value.tensor) is not None else None

    def _unsqueeze(self, node: Node) -> Any:
        value = self._value(node.inputs[0])
        if isinstance(value, Items) and axes_of(node) == [1]:
            return replace(value, column=True)
        return self._scalar_view(node)

    def _add(self, node: Node) -> Any:
        a, b = (self._value(tensor) for tensor in node.inputs)
        if isinstance(b, Iteration):
            a, b = b, a
        step = constant_integer(b.tensor) if isinstance(b, Outer) else None
        return Iteration(a.add + step) if isinstance(a, Iteration) and step is not None else None

    def _sub(self, node: Node) -> Any:
        a, b = (self._value(tensor) for tensor in node.inputs)
        if isinstance(b, Offset) and self._size(a) is not None:
            return Rest(a, b)
        size, less = self._size(a), constant_integer(b.tensor) if isinstance(b, Outer) else None
        return plus(size, number(-less)) if size is not None and less is not None else None

    def _shape(self, node: Node) -> Any:
        value = self._value(node.inputs[0])
        vector = isinstance(value, Outer) and value.tensor.shape is not None and len(value.tensor.shape) == 1
        return Length(value.tensor) if vector else None

    def _count(self, node: Node) -> Any:
        value = self._value(node.inputs[0])
        return Count(value) if isinstance(value, Kept) else self._shape(node)

    def _gather(self, node: Node) -> Any:
        data, index = (self._value(tensor) for tensor in node.inputs)
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
        data, begin, end = (self._value(tensor) for tensor in node.inputs[:3])
        axes = [self._value(tensor) for tensor in node.inputs[3:]]
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
        a, b = (self._value(tensor) for tensor in node.inputs)
        if isinstance(b, Rows):
            a, b = b, a
        fits = isinstance(a, Rows) and isinstance(b, Items) and b.column and (a.begin, a.end) == (b.begin, b.end)
        return replace(a, weights=b.tensor) if fits and a.weights is None else None

    def _reduce(self, node: Node) -> Any:
        value = self._value(node.inputs[0])
        keep = bool(node.attrs.get("keepdims", 1))
        op = node.op.removeprefix("Reduce").lower()
        if axes_of(node) != [0]:
            return None
        if isinstance(value, LastOr) and all(isinstance(v, Rows) for v in (value.last, value.other)):
            return LastOr(Reduced(op, value.last, keep), Reduced(op, value.other, keep))
        return Reduced(op, value, keep) if isinstance(value, Rows) else None

    def _div(self, node: Node) -> Any:
        a, b = (self._value(tensor) for tensor in node.inputs)
        divides = isinstance(a, Reduced) and a.op == "sum" and a.over is None and isinstance(b, Rest)
        return replace(a, over=b) if divides else None

    def _compare(self, node: Node) -> Any:
        a, b = (self._value(tensor) for tensor in node.inputs)
        return Test(node.op.lower(), a, b)

    def _if(self, node: Node) -> Any:
        test = self._value(node.inputs[0])
        branches = [node.attrs[name].outputs for name in ("then_branch", "else_branch")]
        if not isinstance(test, Test) or any(len(outputs) != 1 for outputs in branches):
            return None
        then, otherwise = (self._value(outputs[0]) for outputs in branches)
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
        size, trips = self._size(value), self._size(self._trips)
        return size is not None and trips is not None and size == plus(trips, number(-1))

    def _insert(self, node: Node) -> Any:
        if len(node.inputs) != 2 or not isinstance(self._value(node.inputs[0]), Sequence):
            return None
        value = self._value(node.inputs[1])
        return Appended(value) if value is not None else None

    def _loop(self, node: Node) -> Any:
        """The inner loop that lists the positions of a bag without those of padding."""
        if len(node.inputs) != 4 or not node.inputs[0].is_empty() or len(node.attrs["body"].outputs) != 3:
            return None
        body, condition = node.attrs["body"], self._value(node.inputs[1])
        # the exporter carries the position and the list in either order
        place, kept_place = (2, 3) if isinstance(self._value(node.inputs[2]), Offset) else (3, 2)
        begin, empty = self._value(node.inputs[place]), node.inputs[kept_place]
        if not isinstance(begin, Offset) or not is_small_constant(empty, 8) or values_of(empty).size:
            return None
        if not isinstance(condition, Test) or condition.kind != "less" or condition.a != begin:
            return None
        found = read_padding(self._value, body, place, kept_place)
        if found is None or not isinstance(condition.b, Offset):
            return None
        end, ids, padding, rows = found
        if end != condition.b:
            return None
        kept = Kept(ids, begin, end, padding, rows)
        self._values[id(node.outputs[kept_place - 2])] = kept
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

    # the whole

    def _size(self, value: Any) -> Size | None:
        match value:
            case Size():
                return value
            case Outer(tensor):
                return self.found.scalar(tensor)
            case Length(vector):
                return self.found.length(vector)
        return None

    def _bag(self, result: Any) -> BagLoop | None:
        last, other = (result.last, result.other) if isinstance(result, LastOr) else (result, result)
        if not isinstance(other, Reduced) or not isinstance(last, Reduced):
            return None
        rows = other.rows
        if other.keep != (len(self.loop.outputs) > 1) or last.keep != other.keep:
            return None
        begin, end = rows.begin, rows.end
        if not isinstance(begin, Offset) or not isinstance(end, Offset):
            return None
        length = self.found.length(rows.ids)
        vector, first = _without_slices(begin.vector, begin.add)
        other_vector, second = _without_slices(end.vector, end.add)
        if second == first and _follows(vector, other_vector):
            other_vector, second = vector, first + 1
        if vector is not other_vector or (first, second) != (0, 1) or length is None:
            raise NotABagError("its rows don't lie between one offset and the next")
        offsets, bounds = self._split(vector, length)
        count = self.found.length(offsets)
        wanted = plus(count, number(-1)) if bounds and count is not None else count
        if wanted is None or self._size(self._trips) != wanted:
            raise NotABagError("it doesn't run once for each bag")
        if not self._ends_alike(last, other, bounds, length):
            raise NotABagError("its last bag ends elsewhere than at its last offset")
        if other.over is not None or other.op not in ("sum", "mean", "max"):
            raise NotABagError("it divides by something other than the number of rows")
        if rows.weights is not None and other.op != "sum":
            raise NotABagError("it weighs rows without summing them")
        table = rows.table
        if rows.padding is not None and not 0 <= rows.padding < table.shape[0]:
            raise NotABagError("its padding is no row of the table")
        lowest = other.op == "max" and not other.zero
        return BagLoop(table, rows.ids, offsets, bounds, other.op, rows.weights, rows.padding, lowest, self.loop)

    def _split(self, vector: gs.Tensor, length: Size) -> tuple[gs.Tensor, bool]:
        """Offsets and whether they are bounds: they aren't where the length of the list is appended to them."""
        producer = vector.inputs[0] if vector.inputs else None
        appended = producer is not None and producer.op == "Concat" and len(producer.inputs) == 2
        if producer is not None and appended and self.found.scalar(producer.inputs[1]) == length:
            return producer.inputs[0], False
        return vector, True

    def _ends_alike(self, last: Reduced, other: Reduced, bounds: bool, length: Size) -> bool:
        """Whether the last bag is as the others: it may end with the list where those end at an offset."""
        if last == other:
            return True
        ends_with_list = not bounds or self._fills_list(other.rows, length)
        rows = replace(last.rows, end=other.rows.end)
        whole = last.rows.end == other.rows.end or self._size(last.rows.end) == length
        if last.over is not None:
            rest = last.over
            mean = other.op == "mean" and self._size(rest.length) == length and rest.offset == other.rows.begin
            return ends_with_list and whole and mean and replace(last, op="mean", over=None, rows=rows) == other
        return ends_with_list and whole and replace(last, rows=rows) == other

    def _fills_list(self, rows: Rows, length: Size) -> bool:
        """Whether the last bound is the length of the list."""
        vector, _ = _without_slices(rows.begin.vector, 0)
        ramp = self.found.ramp(vector)
        if ramp is None or ramp.first != 0:
            return False
        bags = plus(ramp.count, number(-1))
        return bags is not None and times(ramp.step, bags) == length


def _without_slices(vector: gs.Tensor, add: int) -> tuple[gs.Tensor, int]:
    """The vector behind `vector[k:]`, and where an element of the latter lies in it."""
    node = producer_of(vector)
    if node is None or node.op != "Slice":
        return vector, add
    operands = [constant_integer(tensor) for tensor in node.inputs[1:]]
    start, end = operands[:2]
    whole = operands[2:] in ([], [0], [0, 1])
    if start is None or start < 0 or end is None or end < _END or not whole:
        return vector, add
    return _without_slices(node.inputs[0], add + start)


def _follows(vector: gs.Tensor, ends: gs.Tensor) -> bool:
    """Whether `ends` is `vector[1:]`, both of them constants."""
    if not is_small_constant(vector, _SMALL) or not is_small_constant(ends, _SMALL):
        return False
    return vector is not ends and np.array_equal(values_of(vector)[1:], values_of(ends))


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


_RULES: dict[str, Callable[[_Reader, Node], Any]] = {
    "Identity": _Reader._same,
    "Cast": _Reader._scalar_view,
    "CastLike": _Reader._scalar_view,
    "Reshape": _Reader._scalar_view,
    "Squeeze": _Reader._scalar_view,
    "Unsqueeze": _Reader._unsqueeze,
    "Add": _Reader._add,
    "Sub": _Reader._sub,
    "Mul": _Reader._mul,
    "Div": _Reader._div,
    "Shape": _Reader._shape,
    "Size": _Reader._count,
    "Gather": _Reader._gather,
    "Slice": _Reader._slice,
    "ReduceSum": _Reader._reduce,
    "ReduceMean": _Reader._reduce,
    "ReduceMax": _Reader._reduce,
    "Equal": _Reader._compare,
    "Less": _Reader._compare,
    "Greater": _Reader._compare,
    "If": _Reader._if,
    "Loop": _Reader._loop,
    "SequenceInsert": _Reader._insert,
}
