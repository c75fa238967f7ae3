"""Which of a model's inputs are ids, and which ids are valid: for test inputs that the model can answer."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize import Canonicalize
from dpiframe.graph_passes.inline import inline_lookup_functions
from dpiframe.graph_passes.lookups.interpret import Interpreter
from dpiframe.graph_passes.lookups.symbols import Atoms, Id, TableRow, Test, source_value
from dpiframe.graph_passes.workbench import Workbench

_UNBOUNDED = 1 << 31


def id_ranges(model: onnx.ModelProto) -> dict[str, list[range | None]]:
    """For each graph input that feeds lookups: the valid ids of each of its columns, None for a column without ids.

    Columns are the input's elements without its batch axis, flattened. A length (compared with positions to mask a sequence)
    counts as an id from 0 to one past the last position. Inputs that feed no lookup are left out.
    """
    bench = Workbench(inline_lookup_functions(model))
    Canonicalize()(bench)
    ranges: dict[str, list[range | None]] = {}
    for graph in bench.graphs():
        interpreter = Interpreter(graph, bench, set()).run()
        for index in range(len(interpreter.atoms)):
            _collect(interpreter.atoms[index], interpreter.atoms, bench.graph, ranges)
    return ranges


def _collect(atom: Any, atoms: Atoms, graph: gs.Graph, ranges: dict[str, list[range | None]]) -> None:
    match atom:
        case TableRow(table, expr):
            _narrow(expr, _raw_ids(expr, int(atoms.tables[table].shape[0])), atoms, graph, ranges)
        case Test("lt" | "ge", expr, number):
            known = _column(expr, atoms, graph, ranges)
            if known is not None and known[expr.index] is None:
                known[expr.index] = range(0, number + 2)
            elif known is not None and known[expr.index].start == 0:
                known[expr.index] = range(0, max(known[expr.index].stop, number + 2))


def _raw_ids(expr: Id, rows: int) -> range:
    """Values of the column, from 0 on, for which the id lies in [0, rows)."""
    first = max(0, -(expr.add // expr.mul))
    last = (rows - 1 - expr.add) // expr.mul
    if expr.mod:
        # every value is valid as soon as every remainder is
        return range(0, _UNBOUNDED) if first <= 0 and expr.mod - 1 <= last else range(first, min(expr.mod, last + 1))
    if expr.div != 1:
        return range(first * expr.div, (last + 1) * expr.div)
    return range(first, last + 1)


def _narrow(expr: Id, valid: range, atoms: Atoms, graph: gs.Graph, ranges: dict[str, list[range | None]]) -> None:
    known = _column(expr, atoms, graph, ranges)
    if known is None:
        return
    before = known[expr.index]
    known[expr.index] = (
        valid if before is None else range(max(before.start, valid.start), max(before.start, valid.start, min(before.stop, valid.stop)))
    )


def _column(expr: Id, atoms: Atoms, graph: gs.Graph, ranges: dict[str, list[range | None]]) -> list[range | None] | None:
    tensor = atoms.sources[expr.source]
    if not any(tensor is t for t in graph.inputs):
        return None
    if tensor.name not in ranges:
        value = source_value(tensor, Atoms())
        assert value is not None
        ranges[tensor.name] = [None] * int(value.codes.size)
    return ranges[tensor.name]
