"""Layout operators on symbolic values: each is the numpy operator of the same meaning, kept away from the row axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.shape_plumbing import solve_reshape
from dpiframe.graph_passes.canonicalize.shape_values import Dim
from dpiframe.graph_passes.lookups.symbols import MAX_ELEMENTS, Value

Constant = np.ndarray | None
"""A node's operand where it is a small constant."""


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front. Raises IndexError where there is no such axis."""
    if not -rank <= axis < rank:
        raise IndexError(f"there is no axis {axis} of {rank}")
    return int(axis) % rank


def reshape_to(value: Value, shape: Sequence[Dim]) -> Value | None:
    """The same elements in row-major order under another shape, if the row axes stay whole in it."""
    old, codes = value.shape, value.codes
    before = [int(np.prod(codes.shape[:axis], dtype=np.int64)) for axis in value.axes]
    axes: list[int] = []
    for dim, static in zip(value.dims, before, strict=True):
        start = axes[-1] + 1 if axes else 0
        product = int(np.prod([d for i, d in enumerate(shape[:start]) if i not in axes and isinstance(d, int)]))
        for axis in range(start, len(shape)):
            if shape[axis] == dim and product == static:
                axes.append(axis)
                break
            size = shape[axis]
            if not isinstance(size, int):
                return None
            product *= size
        else:
            return None
    sizes = [1 if axis in axes else dim for axis, dim in enumerate(shape)]
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) != len(sizes) or np.prod(known) != codes.size or len(old) == 0:
        return None
    return Value(codes.reshape(known), tuple(axes), value.dims)


def reshape(node: gs.Node, value: Value, target: Constant = None) -> Value | None:
    if target is not None:
        dims = solve_reshape(value.shape, [int(d) for d in target], bool(node.attrs.get("allowzero", 0)))
    else:
        dims = list(node.outputs[0].shape) if node.outputs[0].shape is not None else None
    return reshape_to(value, dims) if dims is not None else None


def flatten(node: gs.Node, value: Value) -> Value | None:
    axis = node.attrs.get("axis", 1)
    shape = value.shape
    axis = axis + len(shape) if axis < 0 else axis
    if axis == 0 or value.axes != tuple(range(len(value.axes))) or len(value.axes) != 1:
        return None
    if any(d != 1 for d in shape[1:axis]):
        return None
    return reshape_to(value, [shape[0], int(np.prod([int(str(d)) for d in shape[axis:]], dtype=np.int64))])


def squeeze(node: gs.Node, value: Value, axes: Constant = None) -> Value | None:
    listed = _axes(node, axes, value.codes.ndim)
    if listed is None:
        if any(dim == 1 or not isinstance(dim, int) for dim in value.dims):
            # all axes of size 1 go: the row axes, too, where a batch holds a single row
            return None
        listed = tuple(a for a in range(value.codes.ndim) if value.codes.shape[a] == 1 and a not in value.axes)
    if any(axis in value.axes or value.codes.shape[axis] != 1 for axis in listed):
        return None
    return Value(np.squeeze(value.codes, listed), _without(value.axes, listed), value.dims)


def unsqueeze(node: gs.Node, value: Value, axes: Constant = None) -> Value | None:
    given = node.attrs.get("axes") if axes is None else axes.ravel().tolist()
    if given is None:
        return None
    rank = value.codes.ndim + len(given)
    new = sorted(axis_of(axis, rank) for axis in given)
    kept = [axis for axis in range(rank) if axis not in new]
    return Value(np.expand_dims(value.codes, tuple(new)), tuple(kept[axis] for axis in value.axes), value.dims)


def transpose(node: gs.Node, value: Value) -> Value | None:
    order = list(node.attrs.get("perm", range(value.codes.ndim)[::-1]))
    moved = [order.index(axis) for axis in value.axes]
    if moved != sorted(moved):
        return None
    return Value(np.transpose(value.codes, order), tuple(moved), value.dims)


def concat(node: gs.Node, *values: Value) -> Value | None:
    axis = axis_of(node.attrs["axis"], values[0].codes.ndim)
    first = values[0]
    if axis in first.axes or any(v.axes != first.axes or v.dims != first.dims for v in values):
        return None
    return Value(np.concatenate([v.codes for v in values], axis), first.axes, first.dims)


def split(node: gs.Node, value: Value, sizes: Constant = None) -> list[Value] | None:
    axis = axis_of(node.attrs.get("axis", 0), value.codes.ndim)
    if axis in value.axes:
        return None
    given = node.attrs.get("split") if sizes is None else sizes.ravel().tolist()
    if given is None:
        count = len(node.outputs)
        each = -(-value.codes.shape[axis] // count)
        given = [each] * (count - 1) + [value.codes.shape[axis] - each * (count - 1)]
    if len(given) != len(node.outputs) or sum(given) != value.codes.shape[axis]:
        return None
    pieces = np.split(value.codes, np.cumsum(given)[:-1], axis)
    return [Value(piece, value.axes, value.dims) for piece in pieces]


def slice_(node: gs.Node, value: Value, *operands: Constant) -> Value | None:
    starts, ends, axes_, steps_ = (*operands, None, None, None, None)[:4]
    if starts is None or ends is None:
        return None
    axes = list(range(starts.size)) if axes_ is None else axes_.tolist()
    steps = [1] * starts.size if steps_ is None else steps_.tolist()
    selection: list[slice] = [slice(None)] * value.codes.ndim
    for start, end, axis, step in zip(starts.tolist(), ends.tolist(), axes, steps, strict=True):
        axis = axis_of(axis, value.codes.ndim)
        if axis in value.axes:
            return None
        size = value.codes.shape[axis]
        selection[axis] = slice(start, None if step < 0 and end < -size else end, step)
    codes = value.codes[tuple(selection)]
    return Value(codes, value.axes, value.dims) if codes.size else None


def pick(node: gs.Node, value: Value, index: np.ndarray) -> Value | None:
    """Gather with a constant index along an axis that isn't a row axis."""
    axis = axis_of(node.attrs.get("axis", 0), value.codes.ndim)
    if axis in value.axes:
        return None
    size = value.codes.shape[axis]
    if ((index < -size) | (index >= size)).any():
        return None
    codes = np.take(value.codes, index.astype(np.int64), axis)
    shift = index.ndim - 1
    return Value(codes, tuple(a if a < axis else a + shift for a in value.axes), value.dims)


def pick_nd(node: gs.Node, value: Value, index: np.ndarray) -> Value | None:
    """GatherND with a constant index over leading axes that aren't row axes."""
    depth = index.shape[-1]
    if node.attrs.get("batch_dims", 0) or any(axis < depth for axis in value.axes):
        return None
    sizes = value.codes.shape[:depth]
    if ((index < np.negative(sizes)) | (index >= sizes)).any():
        return None
    codes = value.codes[tuple(np.moveaxis(index, -1, 0))]
    shift = index.ndim - 1 - depth
    return Value(codes, tuple(axis + shift for axis in value.axes), value.dims)


def expand(node: gs.Node, value: Value, target: Constant = None) -> Value | None:
    shape: list[Dim] | None = [int(d) for d in target] if target is not None else None
    if shape is None:
        shape = list(node.outputs[0].shape) if node.outputs[0].shape is not None else None
    if shape is None:
        return None
    missing = max(0, len(shape) - value.codes.ndim)
    codes = value.codes.reshape((1,) * missing + value.codes.shape)
    axes = tuple(axis + missing for axis in value.axes)
    shape = [*[1] * (codes.ndim - len(shape)), *shape]
    sizes: list[int] = []
    for axis, (own, wanted) in enumerate(zip(codes.shape, shape, strict=True)):
        if axis in axes:
            if wanted not in (1, value.dims[axes.index(axis)]):
                return None
            sizes.append(1)
        elif isinstance(wanted, int) and wanted > 0 and (wanted in (1, own) or own == 1):
            sizes.append(max(own, wanted))
        else:
            return None
    return Value(np.broadcast_to(codes, sizes), axes, value.dims)


def tile(node: gs.Node, value: Value, repeats: np.ndarray) -> Value | None:
    if repeats.size != value.codes.ndim:
        return None
    if any(int(repeats[axis]) != 1 for axis in value.axes) or value.codes.size * int(np.prod(repeats)) > MAX_ELEMENTS:
        return None
    return Value(np.tile(value.codes, [int(r) for r in repeats]), value.axes, value.dims)


def _axes(node: gs.Node, axes: Constant, rank: int) -> tuple[int, ...] | None:
    given = node.attrs.get("axes") if axes is None else axes.ravel().tolist()
    return None if given is None else tuple(axis_of(axis, rank) for axis in given)


def _without(axes: tuple[int, ...], removed: Sequence[int]) -> tuple[int, ...]:
    return tuple(axis - sum(r < axis for r in removed) for axis in axes)


# One row of the table: operator, and whether its further operands are optional constants, constants it can't do
# without, or values.
VIEWS: dict[str, Callable[..., Value | list[Value] | None]] = {
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Transpose": transpose,
    "Split": split,
    "Slice": slice_,
    "Expand": expand,
}
PICKS: dict[str, Callable[[gs.Node, Value, np.ndarray], Value | None]] = {
    "Gather": pick,
    "GatherND": pick_nd,
    "Tile": tile,
}
