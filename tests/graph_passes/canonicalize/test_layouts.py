"""Hazard: a view of a tensor whose batch isn't in front is taken to be made of other axes than it is."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpiframe.graph_passes.canonicalize.layouts import Layout, regroup

BATCH = 5


def layout(sizes: tuple[int, ...], *axes: tuple[int, ...]) -> Layout:
    return Layout(gs.Variable("rows", np.float32, ["b", *sizes]), sizes, axes)


def lying(values: np.ndarray, axes: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """The tensor that rows of these values make under such axes."""
    turned = values.transpose([axis for part in axes for axis in part])
    return turned.reshape([int(np.prod([values.shape[axis] for axis in part])) for part in axes])


def divided(draw: st.DrawFn, size: int) -> list[int]:
    """Sizes whose product this is."""
    parts = []
    while size > 1 and draw(st.booleans()):
        part = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
        parts.append(part)
        size //= part
    return [*parts, size]


@given(st.data())
def test_a_view_has_the_same_elements(data: st.DataObject) -> None:
    sizes = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 12]), min_size=1, max_size=3)))
    order = data.draw(st.permutations(range(len(sizes) + 1)))
    given_layout = layout(sizes, *((axis,) for axis in order))
    place = order.index(0)
    front = [size for axis in order[:place] for size in divided(data.draw, sizes[axis - 1])]
    back = [size for axis in order[place + 1 :] for size in divided(data.draw, sizes[axis - 1])]
    # some of both are put together with the batch
    taken = data.draw(st.integers(0, len(front))), data.draw(st.integers(0, len(back)))
    shape = [*front[: taken[0]], "?", *back[taken[1] :]]
    found = regroup(given_layout, shape)
    assert found is not None
    values = np.arange(BATCH * int(np.prod(sizes))).reshape(BATCH, *sizes)
    want = lying(values, given_layout.axes).reshape([-1 if size == "?" else size for size in shape])
    np.testing.assert_array_equal(lying(values.reshape(BATCH, *found.sizes), found.axes), want)


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ([2, "?", 9], "an axis of 16 is no multiple of 9"),
        (["?", "?", 16], "two sizes aren't known"),
        ([31, 4, 16], "the batch isn't there"),
        ([31, "?", 0], "it has no elements"),
        ([62, "?", 16], "it takes more than lies before the batch"),
    ],
)
def test_views_that_are_made_of_no_whole_axes(shape: list[int | str], why: str) -> None:
    assert regroup(layout((31, 16), (1,), (0,), (2,)), shape) is None, why


def test_layouts_that_are_alike() -> None:
    one = layout((3, 4), (1,), (0,), (2,))
    assert one.like(layout((4, 3), (2,), (0,), (1,)))
    assert not one.like(layout((4, 3), (1,), (0,), (2,)))
    assert not one.like(layout((3, 4), (1,), (0, 2)))
