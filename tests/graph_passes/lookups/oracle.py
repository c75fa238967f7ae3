"""The program format of FusedMultiGather as its documentation words it, row by row in plain Python: slow and easy
to check."""

from __future__ import annotations

import math

import numpy as np

from dpiframe.graph_passes.lookups.program import STAR, Copy, IdExpr, LookupProgram, Pool, Row, Term

_SMALLEST = -(1 << 63)


class OutsideError(Exception):
    """An id outside its table, under the policy `error`."""


def run(program: LookupProgram, sources: list[np.ndarray], tables: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs. Sources and tables as the op takes them."""
    first = sources[0]
    shape = first.shape[-1:] if program.sources[0].layout == "column" else first.shape[: program.rows]
    count = math.prod(shape)
    matrices = [
        source.T
        if spec.layout == "column"
        else source.reshape(count, -1 if count else (0 if spec.columns == STAR else spec.columns))
        for source, spec in zip(sources, program.sources, strict=True)
    ]
    outputs = []
    for number, trailing in enumerate(program.outputs):
        output = np.full((count, math.prod(trailing)), 99, tables[0].dtype)
        covered = np.zeros(math.prod(trailing), int)
        for block in (b for b in program.blocks if b.output == number):
            covered[block.column : block.column + block.width] += 1
            for row in range(count):
                output[row, block.column : block.column + block.width] = _value(program, block, matrices, tables, row)
        assert (covered == 1).all(), "the blocks cover each output exactly once"
        outputs.append(output.reshape(*shape, *trailing))
    return outputs


def _value(
    program: LookupProgram, block: Copy | Row | Pool, matrices: list[np.ndarray], tables: list[np.ndarray], row: int
) -> np.ndarray:
    if isinstance(block, Copy):
        return matrices[block.source][row, block.first : block.first + block.width]
    if isinstance(block, Row):
        return _row(program, tables[block.table], _id(block.id, matrices, row))[block.first : block.first + block.width]
    rows, weights = [], []
    for term in block.terms:
        positions = range(matrices[term.id.source].shape[1]) if term.id.column == STAR else (0,)
        for position in positions:
            values = _row(program, tables[term.table], _id(term.id, matrices, row, position))
            rows.append(values[term.first : term.first + block.width].astype(np.float32))
            weights.append(np.float32(_weight(term, matrices, row, position)))
    if block.op == "max":
        return np.max([r - (1 - w) * np.float32(block.x) for r, w in zip(rows, weights, strict=True)], axis=0)
    total = sum((w * r for r, w in zip(rows, weights, strict=True)), np.zeros(block.width, np.float32))
    if block.op == "sum":
        return total
    with np.errstate(all="ignore"):
        return total / np.float32(sum(weights, np.float32(0)) + np.float32(block.x))


def _weight(term: Term, matrices: list[np.ndarray], row: int, position: int) -> float:
    weight = term.weight
    if weight.kind == "one" or weight.id is None:
        return 1
    if weight.kind == "col":
        column = position if weight.id.column == STAR else weight.id.column
        return float(matrices[weight.id.source][row, column])  # type: ignore[index]
    value = _id(weight.id, matrices, row, position)
    if weight.kind == "ne":
        return float(value != weight.number)
    return float((position if weight.number is None else weight.number) < value)


def _id(expr: IdExpr, matrices: list[np.ndarray], row: int, position: int = 0) -> int:
    if expr.source is None:
        value = expr.column
    else:
        raw = matrices[expr.source][row, position if expr.column == STAR else expr.column]
        if np.issubdtype(raw.dtype, np.floating):
            inside = math.isfinite(raw) and -(2.0**63) <= float(raw) < 2.0**63
            value = math.trunc(float(raw)) if inside else _SMALLEST
        else:
            value = int(raw)
    quotient = abs(value) // expr.div
    value = quotient if value >= 0 else -quotient
    if expr.mod:
        value %= expr.mod
    return (value * expr.mul + expr.add - _SMALLEST) % (1 << 64) + _SMALLEST


def _row(program: LookupProgram, table: np.ndarray, index: int) -> np.ndarray:
    size = len(table)
    if -size <= index < size:
        return table[index]
    if program.bad_ids == "error":
        raise OutsideError(index)
    if program.bad_ids == "zero":
        return np.zeros(table.shape[1], table.dtype)
    return table[0 if index < 0 else size - 1]
