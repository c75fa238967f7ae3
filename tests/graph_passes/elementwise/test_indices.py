"""Hazard: a view reads other elements than the operator that it stands for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpiframe.graph_passes.elementwise.indices import affine, grid, is_broadcast, natural

sizes = st.lists(st.integers(1, 4), max_size=4).map(tuple)


def positions(fit: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Element (i, j, ...) of a view is element OFFSET + i * STRIDE0 + j * STRIDE1 + ... of its operand."""
    result = np.empty(shape, np.int64)
    for place in np.ndindex(*shape):
        result[place] = fit[0] + sum(i * stride for i, stride in zip(place, fit[1:], strict=True))
    return result


def test_natural_strides() -> None:
    assert natural((26, 16)) == (16, 1)
    assert natural((3, 1, 2)) == (2, 0, 1)
    assert natural(()) == ()
    assert natural((1,)) == (0,)


@pytest.mark.parametrize(
    ("index", "want"),
    [
        (grid((2, 3)), (0, 3, 1)),
        (grid((2, 3)).T, (0, 1, 3)),
        (grid((2, 3))[::-1, 1:], (4, -3, 1)),
        (grid((4,))[1::2], (1, 2)),
        (grid((4,))[::-1], (3, -1)),
        (np.broadcast_to(grid((3,)), (2, 3)), (0, 0, 1)),
        (grid((2, 3)).reshape(6), (0, 1)),
        (np.array(5), (5,)),
        (np.array([5]), (5, 0)),
        (np.array([[5], [7]]), (5, 2, 0)),
    ],
)
def test_views_with_strides(index: np.ndarray, want: tuple[int, ...]) -> None:
    assert affine(index) == want


@pytest.mark.parametrize(
    "index",
    [np.array([0, 1, 3]), np.array([0, 0, 1]), grid((2, 3)).T.reshape(6), np.array([[0, 1], [2, 4]])],
)
def test_views_without(index: np.ndarray) -> None:
    assert affine(index) is None


@given(sizes, st.data())
def test_whatever_fits_is_the_same_view(shape: tuple[int, ...], data: st.DataObject) -> None:
    index = grid(shape)
    for axis in range(index.ndim):
        step = data.draw(st.sampled_from([1, 2, -1]))
        index = np.flip(index, axis) if step < 0 else index
        index = np.take(index, range(0, index.shape[axis], abs(step)), axis)
    index = index.transpose(data.draw(st.permutations(range(index.ndim))))
    fit = affine(index)
    assert fit is not None
    np.testing.assert_array_equal(positions(fit, index.shape), index)


@given(st.lists(st.integers(0, 7), min_size=1, max_size=6))
def test_a_fit_is_found_only_where_there_is_one(listed: list[int]) -> None:
    index = np.array(listed)
    steps = np.diff(index)
    fit = affine(index)
    assert (fit is not None) == (len(set(steps.tolist())) <= 1)


@given(sizes, sizes)
def test_repeating_as_broadcasting_does(source: tuple[int, ...], target: tuple[int, ...]) -> None:
    try:
        index = np.broadcast_to(grid(source), target)
    except ValueError:
        return
    fit = affine(index)
    assert fit is not None
    assert is_broadcast(source, target, fit)


@pytest.mark.parametrize(
    ("source", "target", "fit"),
    [
        ((3,), (3,), (0, -1)),
        ((3,), (3,), (1, 1)),
        ((2, 3), (3, 2), (0, 1, 3)),
        ((3,), (3, 2), (0, 1, 0)),
        ((2, 3), (3,), (0, 1)),
        ((4,), (2,), (0, 1)),
        ((4,), (2, 2), (0, 2, 1)),
    ],
)
def test_other_views_are_no_broadcasts(source: tuple[int, ...], target: tuple[int, ...], fit: tuple[int, ...]) -> None:
    assert not is_broadcast(source, target, fit)
