"""A bag in the function body of a FusedMultiGather: a Loop over rows, each of which slices its ids out of the list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpiframe.graph_passes.lookups.program import Bag

if TYPE_CHECKING:
    from dpiframe.graph_passes.lookups.body import LookupBody


def write_bag(body: LookupBody, bag: Bag) -> str:
    """The nodes that pool each row's ids: `[rows, width]`."""
    assert bag.id.source is not None
    values = body.reshape(f"source_{bag.id.source}", [-1])
    begins, ends = _offsets(body, bag, values)
    lists = [body.computed(values, [bag.id])]
    if bag.weight.id is not None:
        lists.append(_weights(body, bag))
    kept = _kept(body, bag, lists[0]) if bag.padding is not None else None

    def write(row: str) -> str:
        begin, end = (body.node("Gather", [bounds, row], axis=0) for bounds in (begins, ends))
        parts = [body.node("Slice", [whole, begin, end, body.int64([0])]) for whole in lists]
        if kept is not None:
            chosen = body.node("Slice", [kept, begin, end, body.int64([0])])
            parts = [body.node("Compress", [part, chosen], axis=0) for part in parts]
        rows = body.looked_up(bag.table, parts[0], bag.first, bag.width, 1)
        if bag.weight.id is not None:
            rows = body.node("Mul", [rows, body.unsqueeze(parts[1], 1)])
        return _pooled(body, bag, rows, body.node("Shape", [parts[0]]))

    trips = body.reshape(body.node("Shape", [begins]), [-1])
    first = body.node("Gather", [trips, body.constant(np.array(0, np.int64))], axis=0)
    return body.loop(first, bag.width, write)


def _offsets(body: LookupBody, bag: Bag, values: str) -> tuple[str, str]:
    """Where the bags begin and end: two `[rows, 1]`."""
    source, column = bag.offsets.source, bag.offsets.column
    assert source is not None
    spec = body.program.sources[source]
    first, last = body.int64([1]), body.int64([np.iinfo(np.int64).max])
    if spec.layout == "bounds":
        matrix = body.reshape(f"source_{source}", [spec.columns, -1])
        taken = body.node("Gather", [matrix, body.constant(np.array(column, np.int64))], axis=0)
        bounds = body.computed(taken, [bag.offsets])
        begins = body.node("Slice", [bounds, body.int64([0]), body.int64([-1]), body.int64([0])])
        ends = body.node("Slice", [bounds, first, last, body.int64([0])])
    else:
        begins = body.column_ids(bag.offsets)
        behind = body.node("Slice", [begins, first, last, body.int64([0])])
        ends = body.node("Concat", [behind, body.node("Shape", [values])], axis=0)
        # without rows there is no end either
        ends = body.node("Slice", [ends, body.int64([0]), body.node("Shape", [begins]), body.int64([0])])
    return body.unsqueeze(begins, 1), body.unsqueeze(ends, 1)


def _weights(body: LookupBody, bag: Bag) -> str:
    assert bag.weight.id is not None
    source = bag.weight.id.source
    assert source is not None
    weights = body.reshape(f"source_{source}", [-1])
    return weights if body.source_types[source] == body.table_type else body.node("Cast", [weights], to=body.table_type)


def _kept(body: LookupBody, bag: Bag, ids: str) -> str:
    """Which ids are no padding, counted from the end or not."""
    size = body.program.tables[bag.table].rows
    shifted = body.node("Add", [ids, body.int64([size])])
    counted = body.node("Where", [body.node("Less", [ids, body.int64([0])]), shifted, ids])
    return body.node("Not", [body.node("Equal", [counted, body.int64([bag.padding or 0])])])


def _pooled(body: LookupBody, bag: Bag, rows: str, count: str) -> str:
    """Rows `[count, width]` pooled: `[width]`."""
    if bag.op == "max":
        lowest = np.full((1, bag.width), -np.inf, body.table_dtype)
        # a maximum of nothing is an error in some runtimes
        filled = body.node("Concat", [body.constant(lowest), rows], axis=0)
        largest = body.reduce("ReduceMax", filled, 0, keep=False)
        if bag.lowest:
            return largest
        return body.node("Where", [body.node("Equal", [count, body.int64([0])]), body.scalar(0.0), largest])
    total = body.reduce("ReduceSum", rows, 0, keep=False)
    if bag.op == "sum":
        return total
    some = body.node("Greater", [count, body.int64([0])])
    divisor = body.node("Cast", [body.node("Where", [some, count, body.int64([1])])], to=body.table_type)
    return body.node("Div", [total, divisor])
