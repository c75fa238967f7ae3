"""Operators that only move elements, as index arithmetic: each says which element of its operand comes where."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpiframe.graph_passes.elementwise.indices import grid
from dpiframe.graph_passes.elementwise.lines import Expr, RefusedError
from dpiframe.graph_passes.elementwise.operands import Operands

IN_PLACE = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"}
"""Operators whose result is their operand's memory, which ONNX Runtime doesn't copy."""


def _reshape(n: Operands) -> Expr:
    # what the shape is, inference has found; where it is computed, the body could not hold it
    for index in range(1, len(n.node.inputs)):
        n.listed(index)
    x = n.row()
    if np.prod(x.sizes) != np.prod(n.sizes):
        raise RefusedError("it moves elements from one row to another")
    return n.lines.reshape(x, n.sizes)


def _squeeze(n: Operands) -> Expr:
    if n.axes() is None:
        raise RefusedError("it squeezes whatever axis is of size 1")
    return _reshape(n)


def _transpose(n: Operands) -> Expr:
    x = n.row()
    order = list(n.attribute("perm", range(n.rank)[::-1]))
    if order[: n.rows] != list(range(n.rows)):
        raise RefusedError("it moves the batch axis")
    return n.lines.view(x, grid(x.sizes).transpose([axis - n.rows for axis in order[n.rows :]]))


def _slice(n: Operands) -> Expr:
    x = n.row()
    starts, ends, axes, steps = (n.listed(index) for index in range(1, 5))
    if starts is None or ends is None:
        raise RefusedError("it says not where to start and end")
    listed = range(starts.size) if axes is None else axes.tolist()
    cuts = [slice(None)] * len(x.sizes)
    for position, axis in enumerate(listed):
        step = 1 if steps is None else int(steps[position])
        cuts[n.axis(axis)] = slice(int(starts[position]), _end(int(ends[position]), step), step)
    return n.lines.view(x, grid(x.sizes)[tuple(cuts)])


def _end(end: int, step: int) -> int | None:
    """A slice's end as Python takes it: far below 0 means to the first element, backwards."""
    return None if step < 0 and end < -(1 << 30) else end


def _gather(n: Operands) -> Expr:
    x = n.row()
    axis = n.axis(n.attribute("axis", 0))
    index = n.constant(1)
    size = x.sizes[axis]
    if index is None or (index < -size).any() or (index >= size).any():
        raise RefusedError("it picks what isn't there")
    return n.lines.view(x, np.take(grid(x.sizes), index % size, axis=axis))


def _expand(n: Operands) -> Expr:
    n.listed(1)
    return n.lines.expand(n.row(), n.sizes)


def _tile(n: Operands) -> Expr:
    x, repeats = n.row(), n.listed(1)
    if repeats is None or (repeats[: n.rows] != 1).any():
        raise RefusedError("it repeats rows")
    # an axis of its own for the repetitions, so that each step is a view
    apart = [part for size, times in zip(x.sizes, repeats[n.rows :], strict=True) for part in (1, size)]
    wanted = [part for size, times in zip(x.sizes, repeats[n.rows :], strict=True) for part in (int(times), size)]
    repeated = np.broadcast_to(grid(x.sizes).reshape(apart), wanted)
    return n.lines.reshape(n.lines.view(x, repeated), n.sizes)


def _concat(n: Operands) -> Expr:
    parts = [n.row(index) for index in range(len(n.node.inputs))]
    axis = n.axis(n.attribute("axis", 0))
    return n.lines.join(axis, parts) if len(parts) > 1 else parts[0]


def split(n: Operands) -> list[Expr]:
    x = n.row()
    n.listed(1)
    axis = n.axis(n.attribute("axis", 0))
    first, parts = 0, []
    for output in range(len(n.node.outputs)):
        sizes = n.sizes_of(output)
        taken = range(first, first + sizes[axis])
        first = taken.stop
        parts.append(n.lines.view(x, np.take(grid(x.sizes), taken, axis=axis)))
    return parts


VIEWS: dict[str, Callable[[Operands], Expr]] = {
    "Reshape": _reshape,
    "Flatten": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _reshape,
    "Transpose": _transpose,
    "Slice": _slice,
    "Gather": _gather,
    "Expand": _expand,
    "Tile": _tile,
    "Concat": _concat,
}
