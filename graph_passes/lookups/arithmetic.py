"""Arithmetic on symbolic values: id hashing and offsets, masks, weights, and pooling, as short tables over pairs
of atoms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.lookups.layout import axis_of
from dpiframe.graph_passes.lookups.program import STAR
from dpiframe.graph_passes.lookups.symbols import (
    POSITION_BITS,
    POSITION_MASK,
    VECTORS,
    Atom,
    Atoms,
    Column,
    Complement,
    Id,
    Mask,
    Number,
    Penalized,
    Pooled,
    TableRow,
    Test,
    Value,
    WeightSum,
)

Rule = Callable[[Any, Any], Atom | None]
# What a program says of ids stays where adding one more step can't leave 64 bits.
_LIMIT = 1 << 62
MAX_ADDED_TERMS = 256
"""Rows that a chain of Add nodes may put into one sum; each Add of a longer chain would copy all terms before it."""


def combine(rule: Rule, a: Value, b: Value, atoms: Atoms) -> Value | None:
    """Apply a rule to each pair of elements under broadcasting. A vector keeps its position; two vectors must
    agree in it."""
    rank = max(a.codes.ndim, b.codes.ndim)
    left, right = _to_rank(a, rank), _to_rank(b, rank)
    if left.axes and right.axes and (left.axes, left.dims) != (right.axes, right.dims):
        return None
    rows = left if left.axes else right
    for other in (left.codes, right.codes):
        if any(other.shape[axis] != 1 for axis in rows.axes):
            return None
    try:
        x, y = np.broadcast_arrays(left.codes, right.codes)
    except ValueError:
        return None
    size = len(atoms)
    # both atoms' numbers in one integer: sorting those is far faster than sorting columns
    both = (x.ravel() >> POSITION_BITS) * size + (y.ravel() >> POSITION_BITS)
    pairs, inverse = np.unique(both, return_inverse=True)
    results = np.empty(pairs.size, np.int64)
    for index, (i, j) in enumerate(zip(*divmod(pairs, size), strict=True)):
        atom = rule(atoms[i], atoms[j])
        if atom is None:
            return None
        results[index] = atoms.code(atom)
    positions_x, positions_y = x & POSITION_MASK, y & POSITION_MASK
    vectors = [[i for i in value.atoms if isinstance(atoms[i], VECTORS)] for value in (a, b)]
    if all(vectors):
        meeting = np.isin(x >> POSITION_BITS, vectors[0]) & np.isin(y >> POSITION_BITS, vectors[1])
        if (positions_x != positions_y)[meeting].any():
            return None
    codes = results[inverse.ravel()].reshape(x.shape) + np.maximum(positions_x, positions_y)
    return Value(codes, rows.axes, rows.dims)


def convert(rule: Callable[[Any], Atom | None], value: Value, atoms: Atoms) -> Value | None:
    """Apply a rule to each element."""
    converted = []
    for index in value.atoms:
        atom = rule(atoms[index])
        if atom is None:
            return None
        converted.append(atoms.code(atom))
    places = np.searchsorted(value.atoms, value.codes >> POSITION_BITS)
    codes = np.array(converted, np.int64)[places] + (value.codes & POSITION_MASK)
    return Value(codes, value.axes, value.dims)


def reduce(
    rule: Callable[[list[Any]], Atom | None], value: Value, axes: tuple[int, ...], keep: bool, atoms: Atoms
) -> Value | None:
    """Reduce axes that aren't row axes, each output element by a rule on the list of its atoms.

    Of two row axes the second (a dynamic length) can be reduced too: then every atom stands for all positions.
    """
    if axes == (1,) and value.axes == (0, 1):
        starred = convert(lambda atom: all_positions(atom, atoms), value, atoms)
        if starred is None:
            return None
        return reduce(rule, Value(starred.codes, (0,), value.dims[:1]), axes, keep, atoms)
    if any(axis in value.axes for axis in axes) or not axes:
        return None
    rest = [axis for axis in range(value.codes.ndim) if axis not in axes]
    moved = np.transpose(value.codes, rest + list(axes))
    kept_shape = moved.shape[: len(rest)]
    flat = moved.reshape(int(np.prod(kept_shape, dtype=np.int64)), -1)
    positions = flat & POSITION_MASK
    if (positions != positions[:, :1]).any():
        return None
    groups, inverse = np.unique(flat >> POSITION_BITS, axis=0, return_inverse=True)
    results = np.empty(len(groups), np.int64)
    for index, group in enumerate(groups):
        atom = rule([atoms[i] for i in group])
        if atom is None:
            return None
        results[index] = atoms.code(atom)
    codes = (results[inverse.ravel()] + positions[:, 0]).reshape(kept_shape)
    row_axes = tuple(rest.index(axis) for axis in value.axes)
    reduced = Value(codes, row_axes, value.dims)
    if keep:
        return Value(np.expand_dims(codes, axes), value.axes, value.dims)
    return reduced


def all_positions(atom: Any, atoms: Atoms) -> Atom | None:
    """An atom of one position of a dynamic length, standing for all positions. Needs sources that hold one value a
    position."""
    match atom:
        case Id(source, 0) | Column(source, 0):
            return replace(atom, index=STAR) if len(atoms.sources[source].shape) == 2 else None
        case TableRow(id=expr):
            star = all_positions(expr, atoms)
            return replace(atom, id=star) if isinstance(star, Id) else None
        case Mask(Test("ne" as kind, expr, number)):
            star = all_positions(expr, atoms)
            return Mask(Test(kind, star, number)) if isinstance(star, Id) else None
        case Pooled("sum" as op, ((row, weight),)):
            star, star_weight = all_positions(row, atoms), all_positions(weight, atoms)
            if isinstance(star, TableRow) and isinstance(star_weight, (Mask, Column)):
                return Pooled(op, ((star, star_weight),))
        case Penalized(row, weight, x):
            star, star_weight = all_positions(row, atoms), all_positions(weight, atoms)
            if isinstance(star, TableRow) and isinstance(star_weight, (Mask, Column)):
                return Penalized(star, star_weight, x)
    return None


def matmul(a: Value, b: Value, atoms: Atoms) -> Value | None:
    """A product that pools rows: weights `[..., 1, L]` times rows `[..., L, d]`."""
    if a.codes.ndim != b.codes.ndim or a.codes.ndim < 3 or (a.axes, a.dims) != (b.axes, b.dims):
        return None
    if a.codes.shape[-1] != b.codes.shape[-2] or a.codes.shape[-2] != 1:
        return None
    rank = a.codes.ndim
    weights = Value(np.swapaxes(a.codes, -1, -2), a.axes, a.dims)
    scaled = combine(multiply, weights, b, atoms)
    return reduce(total, scaled, (rank - 2,), True, atoms) if scaled is not None else None


def add(a: Any, b: Any) -> Atom | None:
    match a, b:
        case (Id(), Number(value=int() as n)) | (Number(value=int() as n), Id()):
            expr = a if isinstance(a, Id) else b
            return replace(expr, add=expr.add + n) if abs(expr.add + n) < _LIMIT else None
        case (WeightSum(), Number()) | (Number(), WeightSum()):
            weights, number = (a, b) if isinstance(a, WeightSum) else (b, a)
            return replace(weights, eps=float(np.float32(number.value))) if weights.eps == 0 else None
        case (TableRow() | Pooled(), TableRow() | Pooled()):
            pooled = total([a, b])
            return pooled if isinstance(pooled, Pooled) and len(pooled.terms) <= MAX_ADDED_TERMS else None
        case (TableRow(), Complement(weight=w, factor=f)) | (Complement(weight=w, factor=f), TableRow()):
            return Penalized(a if isinstance(a, TableRow) else b, w, -f)
        case (Number(), Number()):
            return Number(a.value + b.value)
    return None


def subtract(a: Any, b: Any) -> Atom | None:
    match a, b:
        case Id(), Number(value=int() as n):
            return add(a, Number(-n))
        case Number(value=one), (Mask() | Column()) if one == 1:
            return Complement(b, 1.0)
        case TableRow(), Complement(weight=w, factor=f):
            return Penalized(a, w, f)
    return None


def multiply(a: Any, b: Any) -> Atom | None:
    match a, b:
        case (Id(), Number(value=int() as n)) | (Number(value=int() as n), Id()):
            expr = a if isinstance(a, Id) else b
            return replace(expr, mul=expr.mul * n) if expr.add == 0 and 0 < n < _LIMIT // expr.mul else None
        case (Complement(), Number()) | (Number(), Complement()):
            part, number = (a, b) if isinstance(a, Complement) else (b, a)
            return Complement(part.weight, float(np.float32(part.factor * number.value)))
        case (TableRow() as row, (Mask() | Column()) as weight) | ((Mask() | Column()) as weight, TableRow() as row):
            return Pooled("sum", ((row, weight),))
        case (TableRow() as row, Number(value=one)) | (Number(value=one), TableRow() as row) if one == 1:
            return row
    return None


def divide(a: Any, b: Any) -> Atom | None:
    match a, b:
        case Id(), Number(value=int() as n) if n > 0:
            return Id(a.source, a.index, div=n) if a == Id(a.source, a.index) else None
        case Pooled(op="sum"), WeightSum(weights=weights, eps=eps) if tuple(w for _, w in a.terms) == weights:
            return Pooled("mean", a.terms, eps)
        case Pooled(op="sum"), Number(value=n) if n == len(a.terms) and not any(
            w or row.id.index == STAR for row, w in a.terms
        ):
            return Pooled("mean", a.terms)
    return None


def remainder(a: Any, b: Any) -> Atom | None:
    match a, b:
        case Id(mod=0, mul=1, add=0), Number(value=int() as n) if n > 0:
            return replace(a, mod=n)
    return None


def equal(a: Any, b: Any) -> Atom | None:
    match a, b:
        case (Id() as expr, Number(value=int() as n)) | (Number(value=int() as n), Id() as expr):
            return Test("eq", expr, n)
    return None


def less(a: Any, b: Any) -> Atom | None:
    """a < b"""
    match a, b:
        case Number(value=int() as n), Id() if abs(n) < _LIMIT:
            return Test("lt", b, n)
        case Id(), Number(value=int() as n) if abs(n) < _LIMIT:
            return Test("ge", a, n - 1)
    return None


def less_or_equal(a: Any, b: Any) -> Atom | None:
    """a <= b"""
    match a, b:
        case Number(value=int() as n), Id() if abs(n) < _LIMIT:
            return Test("lt", b, n - 1)
        case Id(), Number(value=int() as n) if abs(n) < _LIMIT:
            return Test("ge", a, n)
    return None


def invert(a: Any) -> Atom | None:
    return a.negated() if isinstance(a, Test) else None


def to_float(a: Any) -> Atom | None:
    match a:
        case Test(kind="ne" | "lt"):
            return Mask(a)
        case Mask() | Column() | Complement() | WeightSum():
            return a
        case Number(value=v):
            return Number(float(v))
    return None


def to_int(a: Any) -> Atom | None:
    """A cast to int32 or int64. Both widths of an id mean the same row; what doesn't fit is outside every table."""
    match a:
        case Column(source, index):
            return Id(source, index)
        case Id():
            return a
        case Number(value=v) if math.isfinite(v):
            return Number(int(v))
    return None


def total(parts: list[Any]) -> Atom | None:
    """Sum: of rows and sums of rows, or of weights."""
    if all(isinstance(p, (Mask, Column)) for p in parts):
        return WeightSum(tuple(parts), 0.0)
    terms: list[tuple[TableRow, Any]] = []
    for part in parts:
        match part:
            case TableRow():
                terms.append((part, None))
            case Pooled(op="sum"):
                terms.extend(part.terms)
            case _:
                return None
    if len(terms) == 1 and terms[0][1] is None and terms[0][0].id.index != STAR:
        return terms[0][0]
    # a row added to itself, and that to itself again, would be as many terms as there are paths
    if len(set(terms)) < len(terms):
        return None
    return Pooled("sum", tuple(terms))


def average(parts: list[Any]) -> Atom | None:
    if not all(isinstance(part, TableRow) for part in parts):
        return None
    return Pooled("mean", tuple((part, None) for part in parts))


def largest(parts: list[Any]) -> Atom | None:
    terms: list[tuple[TableRow, Any]] = []
    penalties = {p.x for p in parts if isinstance(p, Penalized)}
    for part in parts:
        match part:
            case TableRow():
                terms.append((part, None))
            case Penalized():
                terms.append((part.row, part.weight))
            case _:
                return None
    if len(penalties) > 1:
        return None
    return Pooled("max", tuple(terms), penalties.pop() if penalties else 0.0)


PAIRS: dict[str, Rule] = {
    "Add": add,
    "Sub": subtract,
    "Mul": multiply,
    "Div": divide,
    "Mod": remainder,
    "Equal": equal,
    "Less": less,
    "LessOrEqual": less_or_equal,
    "Greater": lambda a, b: less(b, a),
    "GreaterOrEqual": lambda a, b: less_or_equal(b, a),
}
REDUCTIONS: dict[str, Callable[[list[Any]], Atom | None]] = {
    "ReduceSum": total,
    "ReduceMean": average,
    "ReduceMax": largest,
}


def reduction_axes(node: gs.Node, operand: np.ndarray | None, rank: int) -> tuple[int, ...]:
    """The axes that a reduction names, by attribute or by operand; empty where it means all or none."""
    given = node.attrs.get("axes") if operand is None else operand.ravel().tolist()
    return tuple(sorted({axis_of(axis, rank) for axis in given or ()}))


def _to_rank(value: Value, rank: int) -> Value:
    missing = rank - value.codes.ndim
    return Value(
        value.codes.reshape((1,) * missing + value.codes.shape), tuple(a + missing for a in value.axes), value.dims
    )
