"""Views as index arithmetic: which element of its source each element of a view is."""

from __future__ import annotations

import numpy as np

from dpiframe.graph_passes.elementwise.program import Sizes, elements

Affine = tuple[int, ...]
"""An offset, then a stride for each axis."""


def grid(sizes: Sizes) -> np.ndarray:
    """The position of every element, in row-major order."""
    return np.arange(elements(sizes)).reshape(sizes)


def natural(sizes: Sizes) -> tuple[int, ...]:
    """The strides of a value in row-major order; 0 for axes of one element."""
    return tuple(0 if size == 1 else elements(sizes[axis + 1 :]) for axis, size in enumerate(sizes))


def affine(index: np.ndarray) -> Affine | None:
    """Offset and strides, where the positions follow from such; strides of axes of one element are 0."""
    first = int(index.flat[0])
    corner = (0,) * index.ndim
    strides = []
    for axis, size in enumerate(index.shape):
        step = (*corner[:axis], 1, *corner[axis + 1 :])
        strides.append(int(index[step]) - first if size > 1 else 0)
    expected = np.full((), first)
    for axis, (size, stride) in enumerate(zip(index.shape, strides, strict=True)):
        expected = expected + (np.arange(size) * stride).reshape([-1] + [1] * (index.ndim - axis - 1))
    return (first, *strides) if np.array_equal(np.broadcast_to(expected, index.shape), index) else None


def is_broadcast(source: Sizes, sizes: Sizes, fit: Affine) -> bool:
    """Whether the view repeats its source just as broadcasting would."""
    if fit[0] != 0 or len(source) > len(sizes):
        return False
    aligned = (1,) * (len(sizes) - len(source)) + source
    fits = all(mine in (1, size) for mine, size in zip(aligned, sizes, strict=True))
    return fits and fit[1:] == natural(aligned)
