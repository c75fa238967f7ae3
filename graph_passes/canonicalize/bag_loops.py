"""The loops that PyTorch's exporters write for nn.EmbeddingBag, run on symbols: what one iteration computes tells
whether it pools the rows of one bag.

One exporter writes a Loop that scans (slice the ids, Gather, reduce), the other a Gather of all rows and a Loop that
appends to a sequence, with an If for empty bags, another for the last bag, and an inner Loop that drops padding. Any
mix of these is understood. Offsets are taken to be in order and not below 0, as PyTorch wants them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.bag_iteration import Iterations
from dpiframe.graph_passes.canonicalize.bag_symbols import (
    Appended,
    Iteration,
    LastOr,
    Offset,
    Outer,
    Reduced,
    Rows,
    Sequence,
    Test,
    constant_integer,
    is_true,
    producer_of,
)
from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.canonicalize.progressions import Progressions
from dpiframe.graph_passes.canonicalize.shape_values import Dim
from dpiframe.graph_passes.canonicalize.sizes import Size, number, plus, times
from dpiframe.graph_passes.graphs import Node, is_standard, values_of

_SMALL = 1 << 16
_END = 1 << 31


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


class OpenEndError(NotABagError):
    """A loop over bags whose last, if it has ids, ends with the list and not at its bound; see last_bags."""

    def __init__(self, bounds: gs.Tensor, ids: gs.Tensor, op: str) -> None:
        super().__init__("its last bag ends with the list and not at its last offset")
        self.bounds, self.ids, self.op = bounds, ids, op


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
        self.inside = Iterations(self.body)
        self.found = self.inside.found

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
            self.inside.values[id(body.inputs[0])] = Iteration(0)
            self.inside.values[id(body.inputs[1])] = Outer(loop.inputs[1])
            self.inside.trips = Outer(loop.inputs[0])
            if not is_true(loop.inputs[1]) or not self._is_always_true(body.outputs[0]):
                return None
            return self.inside.value(body.outputs[1])
        if len(loop.inputs) != 4 or not loop.inputs[0].is_empty() or len(body.outputs) != 3:
            return None
        sequence, counter = (2, 3) if loop.inputs[2].dtype is None else (3, 2)
        start = loop.inputs[sequence].inputs[0] if loop.inputs[sequence].inputs else None
        if start is None or start.op != "SequenceEmpty" or constant_integer(loop.inputs[counter]) != 0:
            return None
        # a counter that is carried starts at 0 and grows by 1
        self.inside.values[id(body.inputs[counter])] = Iteration(0)
        self.inside.values[id(body.inputs[sequence])] = Sequence()
        if self.inside.value(body.outputs[counter - 1]) != Iteration(1):
            return None
        condition = self.inside.value(body.outputs[0])
        if not isinstance(condition, Test) or condition.kind != "less" or condition.a != Iteration(1):
            return None
        if not self._is_entered(loop.inputs[1], self.inside.size(condition.b)):
            return None
        self.inside.trips = condition.b
        appended = self.inside.value(body.outputs[sequence - 1])
        return appended.value if isinstance(appended, Appended) else None

    def _is_entered(self, condition: gs.Tensor, trips: Size | None) -> bool:
        """Whether the loop is entered where 0 < trips."""
        if trips is None or is_true(condition):
            return trips is not None and (trips.number or 0) > 0
        less = producer_of(condition)
        if less is None or less.op != "Less" or constant_integer(less.inputs[0]) != 0:
            return False
        return self.found.scalar(less.inputs[1]) == trips

    def _is_always_true(self, tensor: gs.Tensor) -> bool:
        while tensor.inputs and tensor.inputs[0].op in ("Cast", "Identity"):
            tensor = tensor.inputs[0].inputs[0]
        return is_true(tensor) or tensor is self.body.inputs[1]

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
        if wanted is None or self.inside.size(self.inside.trips) != wanted:
            raise NotABagError("it doesn't run once for each bag")
        if not self._ends_alike(last, other, bounds, length):
            if self._ends_alike(last, other, False, length):
                raise OpenEndError(vector, rows.ids, other.op)
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
        whole = last.rows.end == other.rows.end or self.inside.size(last.rows.end) == length
        if last.over is not None:
            rest = last.over
            mean = other.op == "mean" and self.inside.size(rest.length) == length and rest.offset == other.rows.begin
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
