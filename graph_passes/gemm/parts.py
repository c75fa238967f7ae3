"""Where the values of a left operand lie: views, and parts of rows, that a product can read where they are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.graphs import is_standard, values_of

MAX_LEFT_AXES = 8
MAX_ROW = 1 << 20
_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


@dataclass(frozen=True)
class Part:
    """The values from `begin` on in each row of `source`, whose rows are its axes from `leading` on, one after the
    other."""

    source: gs.Tensor
    leading: int
    begin: int = 0

    @property
    def row(self) -> int:
        """Values of a row."""
        return math.prod(self.source.shape[self.leading :])

    @property
    def left_axes(self) -> int:
        return len(self.source.shape) - self.leading


def find_part(tensor: gs.Tensor, leading: int, whole_rows: bool = False) -> Part:
    """What a tensor is a view or a part of, as far up as its rows are rows there, too: `leading` axes stay as they are.

    whole_rows: only where these are the source's whole rows.
    """
    part = Part(tensor, leading)
    while (above := _above(part)) is not None:
        if whole_rows and above.row != part.row:
            break
        part = above
    return part


def _above(part: Part) -> Part | None:
    """One step up."""
    tensor = part.source
    producer = tensor.inputs[0] if tensor.inputs else None
    if producer is None or not is_standard(producer) or not producer.inputs:
        return None
    source = producer.inputs[0]
    if isinstance(source, gs.Constant) or not _same_rows(source, tensor, part.leading):
        return None
    if producer.op in _VIEWS:
        above = Part(source, part.leading, part.begin)
        return above if above.row == part.row else None
    first = _first_picked(producer, tensor)
    if first is None:
        return None
    axis, start = first
    # what is picked must lie together
    if axis < part.leading or math.prod(source.shape[part.leading : axis]) != 1:
        return None
    return Part(source, part.leading, part.begin + start * math.prod(source.shape[axis + 1 :]))


def _same_rows(source: gs.Tensor, tensor: gs.Tensor, leading: int) -> bool:
    if source.shape is None or tensor.shape is None or not leading < len(source.shape) <= leading + MAX_LEFT_AXES:
        return False
    rows, sizes = list(source.shape)[:leading], list(source.shape)[leading:]
    if None in rows or rows != list(tensor.shape)[:leading] or not all(isinstance(size, int) for size in sizes):
        return False
    return 0 < math.prod(sizes) <= MAX_ROW


def _first_picked(node: gs.Node, output: gs.Tensor) -> tuple[int, int] | None:
    """(axis, index) where what a Split, Slice or Gather gives begins, if it is a run of an axis."""
    shape = node.inputs[0].shape
    if node.op == "Split":
        axis = int(node.attrs.get("axis", 0)) % len(shape)
        start = 0
        for tensor in node.outputs:
            if tensor is output:
                break
            size = tensor.shape[axis] if tensor.shape is not None else None
            if not isinstance(size, int):
                return None
            start += size
        return axis, start
    if node.op == "Slice":
        listed = [_listed(node, index) for index in range(1, 5)]
        starts, _, axes, steps = listed
        if starts is None or starts.size != 1 or axes is None or (steps is not None and steps[0] != 1):
            return None
        axis = int(axes[0]) % len(shape)
        size = shape[axis]
        if not isinstance(size, int):
            return None
        first = int(starts[0])
        return axis, min(max(first + size if first < 0 else first, 0), size)
    if node.op == "Gather":
        axis = int(node.attrs.get("axis", 0)) % len(shape)
        index = _listed(node, 1)
        if index is None or index.size != 1 or not isinstance(shape[axis], int):
            return None
        return axis, int(index[0]) % shape[axis]
    return None


def _listed(node: gs.Node, index: int) -> np.ndarray | None:
    """A constant operand's values in a row."""
    if len(node.inputs) <= index or not is_small_constant(node.inputs[index]):
        return None
    return values_of(node.inputs[index]).reshape(-1)
