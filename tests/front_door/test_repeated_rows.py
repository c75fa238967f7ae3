"""Hazard: a user's rows, repeated to a batch size, are no longer the rows that the user gave."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpiframe.graph_passes.list_columns import Lengths, Offsets
from dpiframe.input_specs import InputSpec
from dpiframe.inputs import CaseMaker
from dpiframe.repeated_rows import repeated_rows


def spec(name: str, dtype: str, *shape: int | str | None) -> InputSpec:
    return InputSpec(name, np.dtype(dtype), shape)


def bags_of(ids: np.ndarray, offsets: np.ndarray) -> list[list[int]]:
    ends = [*offsets[1:], len(ids)]
    return [ids[begin:end].tolist() for begin, end in zip(offsets, ends, strict=True)]


BAGS = st.lists(st.lists(st.integers(0, 98), max_size=4), min_size=1, max_size=5)
LIST = CaseMaker(
    [spec("ids", "int64", "n"), spec("offsets", "int64", "batch")], {"ids": [range(99)], "offsets": [Offsets("ids")]}
)


@given(BAGS, st.integers(1, 12))
def test_bags_are_repeated_whole(bags: list[list[int]], batch: int) -> None:
    sizes = [len(bag) for bag in bags]
    feeds = {"ids": np.array(list(chain(*bags)), np.int64), "offsets": np.cumsum(sizes) - sizes}
    taken = repeated_rows(feeds, batch, LIST)
    assert bags_of(taken["ids"], taken["offsets"]) == [bags[i % len(bags)] for i in range(batch)]


@given(BAGS, st.integers(2, 12))
def test_offsets_that_end_with_the_list(bags: list[list[int]], batch: int) -> None:
    """One more than bags, so there are one bag less than rows."""
    maker = CaseMaker(LIST.specs, {"ids": [range(99)], "offsets": [Offsets("ids", closed=True)]})
    bounds = np.cumsum([0, *(len(bag) for bag in bags)])
    taken = repeated_rows({"ids": np.array(list(chain(*bags)), np.int64), "offsets": bounds}, batch, maker)
    assert taken["offsets"].shape == (batch,)
    assert taken["offsets"][-1] == len(taken["ids"])
    assert bags_of(taken["ids"], taken["offsets"][:-1]) == [bags[i % len(bags)] for i in range(batch - 1)]


@given(BAGS, st.integers(1, 12))
def test_bags_with_lengths(bags: list[list[int]], batch: int) -> None:
    maker = CaseMaker(
        [spec("ids", "int64", "n"), spec("lengths", "int32", "batch")],
        {"ids": [range(99)], "lengths": [Lengths("ids")]},
    )
    sizes = np.array([len(bag) for bag in bags], np.int32)
    taken = repeated_rows({"ids": np.array(list(chain(*bags)), np.int64), "lengths": sizes}, batch, maker)
    lengths = taken["lengths"]
    assert lengths.dtype == np.int32
    assert bags_of(taken["ids"], np.cumsum(lengths) - lengths) == [bags[i % len(bags)] for i in range(batch)]


def test_lengths_of_several_features() -> None:
    """Their bags lie row by row."""
    maker = CaseMaker(
        [spec("ids", "int64", "n"), spec("lengths", "int64", "batch", 2)],
        {"ids": [range(99)], "lengths": [Lengths("ids")]},
    )
    feeds = {"ids": np.array([1, 2, 3, 7, 8]), "lengths": np.array([[1, 2], [0, 2]])}
    taken = repeated_rows(feeds, 3, maker)
    np.testing.assert_array_equal(taken["lengths"], [[1, 2], [0, 2], [1, 2]])
    np.testing.assert_array_equal(taken["ids"], [1, 2, 3, 7, 8, 1, 2, 3])


def test_what_is_as_long_as_the_list_goes_with_it() -> None:
    maker = CaseMaker(
        [
            spec("ids", "int32", "n"),
            spec("weights", "float32", "n"),
            spec("offsets", "int32", "batch"),
            spec("x", "float32", "batch", 2),
        ],
        {"ids": [range(9)], "offsets": [Offsets("ids")]},
    )
    feeds = {
        "ids": np.array([5, 6, 7], np.int32),
        "weights": np.array([0.5, 0.6, 0.7], np.float32),
        "offsets": np.array([0, 1], np.int32),
        "x": np.arange(4, dtype=np.float32).reshape(2, 2),
    }
    taken = repeated_rows(feeds, 3, maker)
    np.testing.assert_array_equal(taken["ids"], [5, 6, 7, 5])
    np.testing.assert_array_equal(taken["weights"], np.array([0.5, 0.6, 0.7, 0.5], np.float32))
    np.testing.assert_array_equal(taken["offsets"], [0, 1, 3])
    np.testing.assert_array_equal(taken["x"], [[0, 1], [2, 3], [0, 1]])
    assert {name: values.dtype for name, values in taken.items()} == {
        name: values.dtype for name, values in feeds.items()
    }


def test_what_was_given_stays_as_it_is() -> None:
    feeds = {"ids": np.arange(3), "offsets": np.array([0, 2])}
    repeated_rows(feeds, 5, LIST)
    np.testing.assert_array_equal(feeds["offsets"], [0, 2])


@pytest.mark.parametrize("length", ["n", 4])
def test_a_list_that_can_not_be_repeated_stays_whole(length: int | str) -> None:
    """Of fixed length, or with several columns of offsets: these are repeated, and still point into it."""
    offsets = spec("offsets", "int64", "batch", 2) if length == "n" else spec("offsets", "int64", "batch")
    maker = CaseMaker(
        [spec("ids", "int64", length), offsets], {"ids": [range(9)], "offsets": [Offsets("ids")] * len(offsets.shape)}
    )
    feeds = {"ids": np.arange(4), "offsets": np.zeros((1, *offsets.shape[1:]), np.int64)}
    taken = repeated_rows(feeds, 3, maker)
    np.testing.assert_array_equal(taken["ids"], feeds["ids"])
    assert taken["offsets"].shape == (3, *offsets.shape[1:])
