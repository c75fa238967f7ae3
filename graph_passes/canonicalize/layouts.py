"""How a tensor lies whose batch axis isn't its first: as a tensor of rows, in another order and with axes put
together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.shape_values import Dim

Groups = list[list[int]]


@dataclass(frozen=True)
class Layout:
    """rows: [batch, *sizes]. axes: for each axis of the tensor itself the axes of `rows` that it is made of, outer ones
    first; 0 is the batch. All of them together are every axis of `rows` once."""

    rows: gs.Tensor
    sizes: tuple[int, ...]
    axes: tuple[tuple[int, ...], ...]

    @property
    def batch(self) -> Dim:
        return self.rows.shape[0]

    @property
    def flat(self) -> list[int]:
        """The axes of `rows`, as the tensor's elements lie."""
        return [axis for part in self.axes for axis in part]

    def size(self, group: Sequence[int]) -> int:
        return prod(self.sizes[axis - 1] for axis in group)

    def others(self, group: Sequence[int]) -> Groups:
        """Each axis of `rows` that is neither the batch nor in the group, in order."""
        return [[axis] for axis in range(1, len(self.sizes) + 1) if axis not in group]

    def like(self, other: Layout) -> bool:
        """Both tensors are made of axes of the same sizes in the same way."""
        parts, theirs = (
            [[-1 if axis == 0 else layout.sizes[axis - 1] for axis in part] for part in layout.axes]
            for layout in (self, other)
        )
        return parts == theirs and self.batch == other.batch


@dataclass
class Regrouped:
    """The axes of `rows` after some were cut in pieces, and what a view's axes are made of."""

    sizes: tuple[int, ...]
    axes: tuple[tuple[int, ...], ...]


def regroup(layout: Layout, shape: Sequence[Dim]) -> Regrouped | None:
    """What a view of this shape, of which one size isn't known, is made of; None where an axis would have to be cut in
    the middle."""
    unknown = [place for place, size in enumerate(shape) if not isinstance(size, int)]
    if len(unknown) != 1 or 0 in shape:
        return None
    pieces = [[axis, layout.sizes[axis - 1] if axis else 0] for axis in layout.flat]
    front = [_take(pieces, int(size or 0), 0) for size in shape[: unknown[0]]]
    back = [_take(pieces, int(size or 0), -1) for size in reversed(shape[unknown[0] + 1 :])]
    if None in front or None in back:
        return None
    groups = [*front, pieces, *back[::-1]]
    # the pieces of an axis lie beside each other, so in any order of the axes they are where the axis was
    found = [piece for group in groups for piece in group or ()]
    ordered = sorted(found, key=lambda piece: piece[0])
    number = {id(piece): index for index, piece in enumerate(ordered)}
    axes = tuple(tuple(number[id(piece)] for piece in group or ()) for group in groups)
    return Regrouped(tuple(size for _, size in ordered[1:]), axes)


def _take(pieces: list[list[int]], size: int, end: int) -> list[list[int]] | None:
    """The pieces at one end that make up an axis of this size, taken off; the last one may be cut in two."""
    taken: list[list[int]] = []
    while size > 1:
        if not pieces or pieces[end][0] == 0:
            return None
        axis, own = pieces[end]
        if size % own == 0:
            taken.append(pieces.pop(end))
            size //= own
        elif own % size == 0:
            pieces[end] = [axis, own // size]
            taken.append([axis, size])
            size = 1
        else:
            return None
    return taken if end == 0 else taken[::-1]
