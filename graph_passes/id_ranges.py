"""Which of a model's inputs are ids, and which ids are valid: for test inputs that the model can answer."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from dpiframe.graph_passes.canonicalize import Canonicalize
from dpiframe.graph_passes.inline import inline_lookup_functions
from dpiframe.graph_passes.lookups.interpret import Interpreter
from dpiframe.graph_passes.lookups.symbols import Id, TableRow, Test
from dpiframe.graph_passes.workbench import Workbench

_UNBOUNDED = 1 << 31

Ranges = dict[str, list[range | None]]


def id_ranges(model: onnx.ModelProto) -> Ranges:
    """For each graph input that feeds lookups: the valid ids of each of its columns, None for a column without ids.

    Columns are the input's elements without its batch axis, flattened. A column that is no id, but a length that masks
    a sequence, counts from 0 to one past the last position. Inputs that feed no lookup are left out.
    """
    bench = Workbench(inline_lookup_functions(model))
    Canonicalize()(bench)
    ids: Ranges = {}
    lengths: Ranges = {}
    for graph in bench.graphs():
        interpreter = Interpreter(graph, bench, set()).run()
        atoms = interpreter.atoms
        for index in range(len(atoms)):
            match atoms[index]:
                case TableRow(table, expr):
                    _enter(ids, interpreter, expr, _raw_ids(expr, int(atoms.tables[table].shape[0])), _both)
                case Test("lt" | "ge", expr, number):
                    _enter(lengths, interpreter, expr, range(max(number, 0) + 2), _longer)
    return {name: _merge(ids.get(name), lengths.get(name)) for name in {**ids, **lengths}}


def _enter(
    ranges: Ranges, interpreter: Interpreter, expr: Id, valid: range, combine: Callable[[range, range], range]
) -> None:
    tensor = interpreter.atoms.sources[expr.source]
    if not any(tensor is t for t in interpreter.bench.graph.inputs):
        return
    columns = ranges.setdefault(tensor.name, [None] * interpreter.value(tensor).codes.size)
    before = columns[expr.index]
    columns[expr.index] = valid if before is None else combine(before, valid)


def _raw_ids(expr: Id, rows: int) -> range:
    """Values of the column, from 0 on, for which the id lies in [0, rows)."""
    first = max(0, -(expr.add // expr.mul))
    last = (rows - 1 - expr.add) // expr.mul
    if expr.mod:
        if first <= 0 and expr.mod - 1 <= last:
            # every value is valid as soon as every remainder is
            return range(_UNBOUNDED)
        last = min(expr.mod - 1, last)
    return range(first * expr.div, max(first, last + 1) * expr.div)


def _both(a: range, b: range) -> range:
    start = max(a.start, b.start)
    return range(start, max(start, min(a.stop, b.stop)))


def _longer(a: range, b: range) -> range:
    return range(max(a.stop, b.stop))


def _merge(ids: list[range | None] | None, lengths: list[range | None] | None) -> list[range | None]:
    """Ids where there are any: a mask of ids compares them with numbers, too."""
    if ids is None or lengths is None:
        return ids or lengths or []
    return [mine if mine is not None else other for mine, other in zip(ids, lengths, strict=True)]
