"""More short bags with wide rows than groups of threads run at once: each fills several, one after the other.

Hazard: what a group still has on its way of one bag, or already has of the next, meets another's sum; and what it had
there meets a long bag, which the whole block fills in the same memory.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu.test_plain_bags import Bag, check, ragged

ROWS = 501
FEW = 2  # multiprocessors: six blocks run at once, and most groups fill six bags


def short_bags(rows: int = ROWS) -> np.ndarray:
    """A run of empty ones among them, one of a whole ring and more, and some that a whole block fills."""
    lengths = ragged(rows, 5)
    lengths[rows // 5 : rows // 4] = 0
    lengths[rows // 2] = 11
    if rows > 90:
        lengths[rows - 1] = 131
    if rows > 400:
        lengths[[0, 17, 18]] = [140, 129, 128]
    assert lengths.sum() <= 4 * rows, "longer ones are filled another way"
    return lengths


@pytest.mark.parametrize("op", ["sum 0", "mean 0", "max 0", "max -inf", "weighted"])
@pytest.mark.parametrize("ids", ["int32", "int64"])
@pytest.mark.parametrize(("dims", "dtype"), [([64], "float32"), ([128, 256], "float16"), ([200, 68], "float32")])
def test_widths_and_rules(op: str, ids: str, dims: list[int], dtype: str) -> None:
    weighted = op == "weighted"
    bags = [Bag(dim, "sum 0" if weighted else op, ids, weighted, padding=dim % 8 == 0) for dim in dims]
    check(bags, short_bags(), dtype=dtype, multiprocessors=FEW)


@pytest.mark.parametrize("layout", ["1 row", "3 row", "2 column", "1 bounds", "2 bounds"])
@pytest.mark.parametrize("bad", ["error", "zero", "clamp"])
def test_offsets_and_bad_ids(layout: str, bad: str) -> None:
    check([Bag(128)], short_bags(), bad, layout=layout, offset_type="int32", multiprocessors=FEW)


@pytest.mark.parametrize("rows", [48, 49, 96, 97, 1536, 1537, 5000])
def test_as_many_as_fill_blocks_and_one_more(rows: int) -> None:
    """48 bags are filled at once; beyond 1536 a block's threads can't find the ranges of all, and there are more."""
    check([Bag(128)], short_bags(rows), multiprocessors=FEW)


def test_on_all_multiprocessors() -> None:
    lengths = short_bags(20_001)
    lengths[[4096, 13_000]] = [2000, 700]
    check([Bag(64), Bag(128, ids="int32")], lengths)


def test_addresses_that_suit_single_values_only() -> None:
    check([Bag(64)], short_bags(), odd=True, multiprocessors=FEW)


def test_lists_without_ids() -> None:
    check([Bag(64), Bag(128, "max -inf")], np.zeros(ROWS, np.int64), multiprocessors=FEW)


def test_a_list_of_one_bag_alone() -> None:
    lengths = np.zeros(ROWS, np.int64)
    lengths[ROWS - 2] = 100
    check([Bag(64, "mean 0")], lengths, multiprocessors=FEW)
