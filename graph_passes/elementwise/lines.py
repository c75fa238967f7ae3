"""The lines of a program under construction: equal values are one, views of views are one view, and what no output
needs is left out at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpiframe.custom_ops.elementwise_operators import BY_NAME, FLOATS
from dpiframe.graph_passes.elementwise.indices import affine, grid, is_broadcast, natural
from dpiframe.graph_passes.elementwise.program import (
    MAX_ELEMENTS,
    MAX_RANK,
    MAX_VALUES,
    Const,
    ElementwiseProgram,
    Input,
    Line,
    Sizes,
    Value,
    elements,
)

MAX_PICKED = 1 << 14
"""Indices that a program may list for one pick."""


class RefusedError(Exception):
    """What a node does has no place in a program; the message says why.

    telling: whether the node looks as if it might have a place there.
    """

    def __init__(self, reason: str, telling: bool = True) -> None:
        super().__init__(reason)
        self.telling = telling


@dataclass(frozen=True)
class Expr:
    """A value, with Python's operators; a number beside it is a constant of its type."""

    lines: Lines
    number: int

    @property
    def type(self) -> str:
        return self.lines.values[self.number].type

    @property
    def sizes(self) -> Sizes:
        return self.lines.values[self.number].sizes

    def __add__(self, other: Operand) -> Expr:
        return self.lines.apply("add", self, other)

    def __radd__(self, other: float) -> Expr:
        return self.lines.apply("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return self.lines.apply("sub", self, other)

    def __rsub__(self, other: float) -> Expr:
        return self.lines.apply("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return self.lines.apply("mul", self, other)

    def __rmul__(self, other: float) -> Expr:
        return self.lines.apply("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return self.lines.apply("div", self, other)

    def __rtruediv__(self, other: float) -> Expr:
        return self.lines.apply("div", other, self)

    def __neg__(self) -> Expr:
        return self.lines.apply("neg", self)

    def __lt__(self, other: Operand) -> Expr:
        return self.lines.apply("lt", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return self.lines.apply("gt", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return self.lines.apply("ge", self, other)


Operand = Expr | float


class Lines:
    """Values in the order in which they were made. masks: for each, which row axes it depends on."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.values: list[Value] = []
        self.masks: list[str] = []
        self._known: dict[str, int] = {}

    def input(self, kind: str, mask: str, sizes: Sizes) -> Expr:
        """A further input; equal ones aren't the same."""
        _check_sizes(sizes)
        self.values.append(Input(kind, mask, sizes))
        self.masks.append(mask)
        return Expr(self, len(self.values) - 1)

    def const(self, kind: str, number: float) -> Expr:
        return self._put(Const(kind, number), "-" * self.rows)

    def apply(self, name: str, *operands: Operand) -> Expr:
        """An operator of the table."""
        operator = BY_NAME[name]
        kind = next(o.type for o in operands[name == "where" :] if isinstance(o, Expr))
        given = [o if isinstance(o, Expr) else self.const(kind, o) for o in operands]
        if any(o.type != kind for o in given[name == "where" :]) or (name == "where" and given[0].type != "bool"):
            raise RefusedError(f"{name} of {' and '.join(o.type for o in given)}")
        if kind not in operator.types:
            raise RefusedError(f"{name} of {kind}")
        sizes = _broadcast(*(o.sizes for o in given))
        given = [self._without_expansion(given, index, sizes) for index in range(len(given))]
        return self._line(name, "bool" if operator.gives_bool else kind, sizes, given)

    def number_of(self, x: Expr) -> float | None:
        """What a constant is; None for other values."""
        value = self.values[x.number]
        return value.number if isinstance(value, Const) else None

    def cast(self, kind: str, x: Expr) -> Expr:
        return x if x.type == kind else self._line("cast", kind, x.sizes, [x])

    def reduce(self, name: str, x: Expr, axes: Sequence[int], keep: bool) -> Expr:
        """sum, max, min or prod over some of the axes behind the row axes."""
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(x.sizes))
        left = kept if keep else tuple(size for axis, size in enumerate(x.sizes) if axis not in axes)
        if x.type == "bool":
            raise RefusedError(f"{name} of bool")
        if kept == x.sizes:
            return self.reshape(x, left)
        return self._line(name, x.type, left, [x], tuple(sorted(axes)))

    def join(self, axis: int, parts: Sequence[Expr]) -> Expr:
        sizes = list(parts[0].sizes)
        sizes[axis] = sum(part.sizes[axis] for part in parts)
        return self._line("join", parts[0].type, tuple(sizes), parts, (axis,))

    def view(self, x: Expr, index: np.ndarray) -> Expr:
        """Elements of a value: index holds their positions, counted in row-major order."""
        while True:
            below = self._seen_through(x, index)
            if below is None:
                break
            x, index = below
        fit = affine(index)
        if fit is not None:
            if index.shape == x.sizes and fit == (0, *natural(x.sizes)):
                return x
            return self._line("view", x.type, index.shape, [x], fit)
        if index.size > MAX_PICKED:
            raise RefusedError(f"it picks {index.size} elements a row in no order")
        return self._line("pick", x.type, index.shape, [x], tuple(index.ravel().tolist()))

    def reshape(self, x: Expr, sizes: Sizes) -> Expr:
        """The same elements under other sizes."""
        return self.view(x, grid(sizes))

    def expand(self, x: Expr, sizes: Sizes) -> Expr:
        return self.view(x, np.broadcast_to(grid(x.sizes), sizes))

    def program(self, outputs: Sequence[Expr]) -> ElementwiseProgram:
        """The inputs and what the outputs need. Raises RefusedError where a row axis isn't there."""
        for output in outputs:
            if "-" in self.masks[output.number]:
                raise RefusedError("its rows don't come from what it reads")
        needed = {number for number, value in enumerate(self.values) if isinstance(value, Input)}
        waiting = [output.number for output in outputs]
        while waiting:
            number = waiting.pop()
            if number not in needed:
                needed.add(number)
                value = self.values[number]
                waiting.extend(value.operands if isinstance(value, Line) else ())
        order = sorted(needed, key=lambda number: (not isinstance(self.values[number], Input), number))
        place = {number: index for index, number in enumerate(order)}
        if len(order) > MAX_VALUES:
            raise RefusedError(f"more than {MAX_VALUES} values")
        return ElementwiseProgram(
            self.rows, [_renumbered(self.values[number], place) for number in order], [place[o.number] for o in outputs]
        )

    def _line(
        self, name: str, kind: str, sizes: Sizes, operands: Sequence[Expr], numbers: tuple[int, ...] = ()
    ) -> Expr:
        _check_sizes(sizes)
        masks = zip(*(self.masks[o.number] for o in operands), strict=True)
        mask = "".join("x" if "x" in axis else "-" for axis in masks)
        return self._put(Line(name, kind, tuple(sizes), tuple(o.number for o in operands), numbers), mask)

    def _put(self, value: Const | Line, mask: str) -> Expr:
        # as text, nan equals nan and 0 isn't -0
        number = self._known.setdefault(str(value), len(self.values))
        if number == len(self.values):
            self.values.append(value)
            self.masks.append(mask)
        return Expr(self, number)

    def _without_expansion(self, operands: list[Expr], index: int, sizes: Sizes) -> Expr:
        """The operand, or what it repeats, where the operator's own broadcasting does the same."""
        operand = operands[index]
        while True:
            line = self.values[operand.number]
            if not isinstance(line, Line) or line.name != "view":
                return operand
            base = Expr(self, line.operands[0])
            if not is_broadcast(base.sizes, line.sizes, line.numbers):
                return operand
            others = [o.sizes for place, o in enumerate(operands) if place != index]
            if _broadcast(base.sizes, *others) != sizes:
                return operand
            operands[index] = operand = base

    def _seen_through(self, x: Expr, index: np.ndarray) -> tuple[Expr, np.ndarray] | None:
        """The same elements, found in what x is made of; None where x has to be there."""
        line = self.values[x.number]
        if not isinstance(line, Line):
            return None
        if line.name == "view":
            composed = _positions(line)[index]
            if affine(composed) is not None or affine(index) is None:
                return Expr(self, line.operands[0]), composed
        elif line.name == "pick":
            return Expr(self, line.operands[0]), np.array(line.numbers)[index]
        elif line.name == "join":
            return self._part(line, index)
        return None

    def _part(self, line: Line, index: np.ndarray) -> tuple[Expr, np.ndarray] | None:
        """The one part of a join that holds all of these elements."""
        parts = [Expr(self, operand) for operand in line.operands]
        axis = line.numbers[0]
        sizes = [part.sizes[axis] for part in parts]
        inner = elements(line.sizes[axis + 1 :])
        along = index // inner % line.sizes[axis]
        starts = np.cumsum([0, *sizes])
        number = int(np.searchsorted(starts, along.flat[0], side="right")) - 1
        if along.min() < starts[number] or along.max() >= starts[number + 1]:
            return None
        outer = index // (inner * line.sizes[axis])
        within = (outer * sizes[number] + along - starts[number]) * inner + index % inner
        return parts[number], within


def wide(x: Expr) -> Expr:
    """The value in a type that sums and products of several steps are computed in."""
    return x.lines.cast("f32", x) if x.type == "f16" else x


def is_float(x: Expr) -> bool:
    return x.type in FLOATS


def _positions(line: Line) -> np.ndarray:
    offset, *strides = line.numbers
    index: Any = np.full(line.sizes, offset)
    for axis, (size, stride) in enumerate(zip(line.sizes, strides, strict=True)):
        index = index + (np.arange(size) * stride).reshape([-1] + [1] * (len(line.sizes) - axis - 1))
    return index.ravel()


def _broadcast(*sizes: Sizes) -> Sizes:
    try:
        return tuple(np.broadcast_shapes(*sizes))
    except ValueError:
        raise RefusedError(f"sizes {' and '.join(map(str, map(list, sizes)))} don't fit each other") from None


def _check_sizes(sizes: Sizes) -> None:
    if len(sizes) > MAX_RANK:
        raise RefusedError(f"more than {MAX_RANK} axes behind the batch")
    if elements(sizes) > MAX_ELEMENTS:
        raise RefusedError(f"more than {MAX_ELEMENTS} elements a row")


def _renumbered(value: Value, place: dict[int, int]) -> Value:
    if not isinstance(value, Line):
        return value
    return Line(value.name, value.type, value.sizes, tuple(place[o] for o in value.operands), value.numbers)
