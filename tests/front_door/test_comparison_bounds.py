"""Hazard: a comparison that lets wrong answers pass, or takes right ones for wrong (NaN, infinities, rounding)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpiframe.compare import FLOAT16_BOUND, FLOAT32_BOUND, REDUCED_BOUND, difference, largest_difference

FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)
ARRAYS = hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4), elements=FLOATS)


def differs(a: object, b: object, *, bound: float = FLOAT32_BOUND) -> bool:
    return difference(["y"], [np.asarray(b)], [np.asarray(a)], bound=bound) is not None


@given(ARRAYS)
def test_everything_equals_itself(array: np.ndarray) -> None:
    assert not differs(array.copy(), array)
    assert largest_difference([array], [array.copy()]) == 0


@given(ARRAYS.filter(lambda a: a.size > 0), st.data())
def test_one_changed_element_is_found_and_named(array: np.ndarray, data: st.DataObject) -> None:
    at = tuple(data.draw(st.integers(0, n - 1)) for n in array.shape)
    finite = array[np.isfinite(array)].astype(np.float64)
    scale = max(1.0, float(np.abs(finite).max(initial=0.0)))
    changed = array.astype(np.float64)
    changed[at] = 0.0 if not np.isfinite(array[at]) else changed[at] + 4 * FLOAT32_BOUND * scale
    found = difference(["y"], [array.astype(np.float64)], [changed])
    assert found is not None
    assert found.where == (f"[{', '.join(map(str, at))}]" if at else "")


@pytest.mark.parametrize(
    ("a", "b"),
    [(np.nan, 1.0), (1.0, np.nan), (np.inf, -np.inf), (np.inf, 3e38), (np.nan, np.inf), (-np.inf, np.nan)],
)
def test_special_values_are_only_equal_to_themselves(a: float, b: float) -> None:
    assert differs(np.float32([0, a]), np.float32([0, b]))


@pytest.mark.parametrize(("a", "b", "nan"), [(np.nan, 1.0, True), (np.nan, np.inf, True), (1.0, np.nan, False)])
def test_nan_where_the_original_has_none_is_told_from_the_rest(a: float, b: float, nan: bool) -> None:
    found = difference(["y"], [np.float32([np.nan, b, 1.0])], [np.float32([np.nan, a, np.inf])])
    assert found is not None
    assert found.nan == nan


@pytest.mark.parametrize(
    ("dtype", "asked", "bound"),
    [
        (np.float32, FLOAT32_BOUND, FLOAT32_BOUND),
        (np.float64, FLOAT32_BOUND, FLOAT32_BOUND),
        (np.float16, FLOAT32_BOUND, FLOAT16_BOUND),
        (np.float32, FLOAT16_BOUND, FLOAT16_BOUND),
        (np.float32, REDUCED_BOUND, REDUCED_BOUND),
        (np.float16, REDUCED_BOUND, REDUCED_BOUND),
    ],
)
@pytest.mark.parametrize("largest", [0.25, 8.0])
def test_the_bound_scales_with_the_largest_value_from_one_up(
    dtype: type[np.floating], asked: float, bound: float, largest: float
) -> None:
    b = np.array([largest, 0.0], dtype)
    step = bound * max(1.0, largest)
    assert not differs(np.array([largest, 0.9 * step], dtype), b, bound=asked)
    assert differs(np.array([largest, 1.2 * step], dtype), b, bound=asked)


def test_an_infinity_does_not_loosen_the_bound() -> None:
    assert differs(np.float32([np.inf, 1e-5]), np.float32([np.inf, 0]))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.bool_, np.str_])
def test_other_types_are_equal_or_not(dtype: type[np.generic]) -> None:
    assert not differs(np.array([0, 1]).astype(dtype), np.array([0, 1]).astype(dtype))
    assert differs(np.array([0, 0]).astype(dtype), np.array([0, 1]).astype(dtype))


def test_shapes_and_types_must_agree() -> None:
    shape = difference(["y"], [np.zeros((2, 1))], [np.zeros(2)])
    dtype = difference(["y"], [np.zeros(2, np.float32)], [np.zeros(2)])
    assert str(shape) == "output 'y' in shape is [2], the original's [2, 1]"
    assert str(dtype) == "output 'y' in type is float64, the original's float32"


def test_the_worst_element_is_named_with_both_values() -> None:
    found = difference(["a", "b"], [np.ones(2), np.float32([[0, 0]])], [np.ones(2), np.float32([[0.5, 2]])])
    assert str(found) == "output 'b'[0, 1] is 2.0, the original's 0.0"
