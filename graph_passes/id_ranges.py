"""Which of a model's inputs are ids, and which ids are valid: for test inputs that the model can answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import onnx
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize import Canonicalize
from dpiframe.graph_passes.graphs import is_standard
from dpiframe.graph_passes.inline import inline_lookup_functions, inline_our_functions
from dpiframe.graph_passes.list_columns import Column, Lengths, Offsets
from dpiframe.graph_passes.lookups.interpret import Interpreter
from dpiframe.graph_passes.lookups.symbols import Atoms, Bagged, Id, TableRow, Test, source_value
from dpiframe.graph_passes.workbench import Workbench

_UNBOUNDED = 1 << 31
# From an input that holds offsets or lengths to the offsets that a lookup sees: what moves numbers, or adds them up.
_MOVES = ("Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Concat", "CumSum")

Ranges = dict[str, list[Column]]
_Ranges = dict[str, list[range | None]]


def id_ranges(model: onnx.ModelProto) -> Ranges:
    """For each graph input that feeds lookups: the valid ids of each of its columns, None for a column without ids.

    Columns are the input's elements without its batch axis, flattened. A column that is no id, but a length that masks
    a sequence, counts from 0 to one past the last position. Offsets into a list of ids name that input, and so do
    lengths, where a model adds them up to offsets. Inputs that feed no lookup are left out.
    """
    bench = Workbench(inline_lookup_functions(inline_our_functions(model)))
    Canonicalize()(bench)
    ids: _Ranges = {}
    lengths: _Ranges = {}
    offsets: Ranges = {}
    for graph in bench.graphs():
        interpreter = Interpreter(graph, bench, set()).run()
        atoms = interpreter.atoms
        for index in range(len(atoms)):
            match atoms[index]:
                case TableRow(table, expr):
                    _enter(ids, interpreter, expr, _raw_ids(expr, int(atoms.tables[table].shape[0])), _both)
                case Bagged(table=table, id=expr, offsets=place, bounds=bounds):
                    whole = _raw_ids(expr, int(atoms.tables[table].shape[0]))
                    for column in range(_columns(interpreter, expr.source)):
                        _enter(ids, interpreter, replace(expr, index=column), whole, _both)
                    _enter_offsets(offsets, interpreter, place, bounds, atoms.sources[expr.source])
                case Test("lt" | "ge", expr, number):
                    _enter(lengths, interpreter, expr, range(max(number, 0) + 2), _longer)
    return {name: _merge(ids.get(name), lengths.get(name)) for name in {**ids, **lengths}} | offsets


def _columns(interpreter: Interpreter, source: int) -> int:
    """How many elements a source has in a row of its batch; one where it is a list of any length."""
    value = source_value(interpreter.atoms.sources[source], Atoms())
    return int(value.codes.size) if value is not None else 1


def _enter_offsets(ranges: Ranges, interpreter: Interpreter, place: Id, bounds: bool, into: gs.Tensor) -> None:
    tensor = interpreter.atoms.sources[place.source]
    if place != Id(place.source, place.index):
        return
    if _is_input(tensor, interpreter):
        columns = ranges.setdefault(tensor.name, [None] * _columns(interpreter, place.source))
        columns[place.index] = Offsets(into.name, closed=bounds)
        return
    for origin, ops in _origins(tensor, interpreter, frozenset()):
        if origin is into or not _is_input(into, interpreter):
            continue
        if "CumSum" in ops:
            ranges[origin.name] = [Lengths(into.name)]
        elif origin.shape is not None and len(origin.shape) == 1:
            # what is cut off may be the end of the last bag
            ranges[origin.name] = [Offsets(into.name, closed=bounds or "Slice" in ops)]


def _origins(
    tensor: gs.Tensor, interpreter: Interpreter, ops: frozenset[str]
) -> Iterator[tuple[gs.Tensor, frozenset[str]]]:
    """The graph's inputs that offsets are made of, and the operators on the way."""
    if _is_input(tensor, interpreter):
        yield tensor, ops
    elif tensor.inputs and is_standard(tensor.inputs[0]) and tensor.inputs[0].op in _MOVES:
        node = tensor.inputs[0]
        for moved in node.inputs if node.op == "Concat" else node.inputs[:1]:
            yield from _origins(moved, interpreter, ops | {node.op})


def _is_input(tensor: gs.Tensor, interpreter: Interpreter) -> bool:
    return any(tensor is given for given in interpreter.bench.graph.inputs)


def _enter(
    ranges: _Ranges, interpreter: Interpreter, expr: Id, valid: range, combine: Callable[[range, range], range]
) -> None:
    tensor = interpreter.atoms.sources[expr.source]
    if not _is_input(tensor, interpreter):
        return
    columns = ranges.setdefault(tensor.name, [None] * _columns(interpreter, expr.source))
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


def _merge(ids: list[range | None] | None, lengths: list[range | None] | None) -> list[Column]:
    """Ids where there are any: a mask of ids compares them with numbers, too."""
    if ids is None or lengths is None:
        return [*(ids or lengths or [])]
    return [mine if mine is not None else other for mine, other in zip(ids, lengths, strict=True)]
