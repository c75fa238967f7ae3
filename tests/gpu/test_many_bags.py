"""More short bags with wide rows than groups of threads run at once: each fills several, one after the other.

Hazard: what a group still has on its way of one bag, or already has of the next, meets another's sum.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu.device import CHECKED
from tests.gpu.test_plain_bags import Bag, check, ragged

ROWS = 9_001


def short_bags(rows: int = ROWS) -> np.ndarray:
    """A long run of empty ones among them, one of a whole ring and more, and some that a whole block fills."""
    lengths = ragged(rows, 5)
    lengths[rows // 3 : rows // 3 + 100] = 0
    lengths[rows // 2] = 11
    if not CHECKED:
        lengths[[0, 17, 18, rows * 2 // 3, rows - 1]] = [700, 130, 128, 2000, 131]
    return lengths


@pytest.mark.parametrize("op", ["sum 0", "mean 0", "max 0", "max -inf", "weighted"])
@pytest.mark.parametrize("ids", ["int32", "int64"])
@pytest.mark.parametrize(("dims", "dtype"), [([64], "float32"), ([128, 256], "float16"), ([200, 68], "float32")])
def test_widths_and_rules(op: str, ids: str, dims: list[int], dtype: str) -> None:
    weighted = op == "weighted"
    bags = [Bag(dim, "sum 0" if weighted else op, ids, weighted, padding=dim % 8 == 0) for dim in dims]
    check(bags, short_bags(), dtype=dtype)


@pytest.mark.parametrize("layout", ["1 row", "3 row", "2 column", "1 bounds", "2 bounds"])
@pytest.mark.parametrize("bad", ["error", "zero", "clamp"])
def test_offsets_and_bad_ids(layout: str, bad: str) -> None:
    check([Bag(128)], short_bags(), bad, layout=layout, offset_type="int32")


@pytest.mark.parametrize("rows", [3167, 3168, 3169, 6336, 6337, 25_344])
def test_as_many_as_fill_blocks_and_one_more(rows: int) -> None:
    """On a GPU with 132 multiprocessors 3168 such bags are filled at once."""
    check([Bag(128)], short_bags(rows))


def test_addresses_that_suit_single_values_only() -> None:
    check([Bag(64)], short_bags(), odd=True)


def test_lists_without_ids() -> None:
    check([Bag(64), Bag(128, "max -inf")], np.zeros(ROWS, np.int64))


def test_a_list_of_one_bag_alone() -> None:
    lengths = np.zeros(ROWS, np.int64)
    lengths[ROWS - 2] = 100
    check([Bag(64, "mean 0")], lengths)
