"""Row values: tensors that are computed a row at a time. `[batch, 26, 16]` is one, and so is `[batch, length, 16]`.

The row axes are a tensor's leading dimensions of unknown size, one or two of them; behind them all sizes are numbers.
In a model whose batch size is fixed, the leading dimension that all of its inputs share is the row axis.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.shape_values import Dim
from dpiframe.graph_passes.elementwise.program import Sizes
from dpiframe.graph_passes.workbench import Workbench

Axes = tuple[Dim, ...]
MAX_AXES = 2


def fixed_batch(bench: Workbench) -> int | None:
    """The batch size of a model that knows no other: the leading size of all its inputs."""
    shapes = [t.shape for t in bench.graph.inputs if t.name not in bench.overridable]
    leading = {shape[0] for shape in shapes if shape}
    size = leading.pop() if len(leading) == 1 else None
    return size if isinstance(size, int) and size > 0 else None


def row_axes(shape: Sequence[Dim] | None, batch: int | None) -> Axes | None:
    """The row axes of a tensor of this shape; None where it isn't a row value. batch: what `fixed_batch` gives."""
    if shape is None:
        return None
    dynamic = next((i for i, dim in enumerate(shape) if isinstance(dim, int)), len(shape))
    if dynamic == 0 and batch is not None and len(shape) > 0 and shape[0] == batch:
        dynamic = 1
    axes = tuple(shape[:dynamic])
    if not 1 <= len(axes) <= MAX_AXES or None in axes or not all(_is_size(dim) for dim in shape[dynamic:]):
        return None
    return axes


def place(tensor: gs.Tensor, axes: Axes, rank: int) -> tuple[str, Sizes] | None:
    """How a tensor is read beside row values of this rank, as broadcasting aligns it: which row axes it has (`x`) and
    which it lacks (`-`), and its sizes behind them. None where its dimensions meet a row axis that isn't its own.
    """
    shape = tensor.shape
    if shape is None or len(shape) > rank:
        return None
    aligned = [1] * (rank - len(shape)) + list(shape)
    leading, sizes = aligned[: len(axes)], aligned[len(axes) :]
    if not all(_is_size(dim) for dim in sizes):
        return None
    constant = isinstance(tensor, gs.Constant)
    mask = ""
    for dim, axis in zip(leading, axes, strict=True):
        if dim == axis and not (constant and dim == 1):
            mask += "x"
        elif dim == 1:
            mask += "-"
        else:
            return None
    if "x" not in mask:
        while sizes and sizes[0] == 1:
            del sizes[0]
    elif len(shape) < rank:
        # a tensor that has one of two row axes must show where the other one would be
        return None
    return mask, tuple(sizes)


def _is_size(dim: Dim) -> bool:
    return isinstance(dim, int) and dim > 0
