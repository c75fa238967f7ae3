"""More bags than groups of threads run at once: each group fills several, one after the other.

Hazard: what a group still has on its way of one bag, or already has of the next, meets another's sum; what it had
there meets a long bag, which the whole block fills in the same memory; and ids of bags that stand one behind the other
are read together, which those of others are not.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu.test_plain_bags import Bag, check, ragged

ROWS = 501
FEW = 2  # multiprocessors: with four blocks each, groups of 32 threads fill eight bags


def short_bags(rows: int = ROWS) -> np.ndarray:
    """A run of empty ones among them, one of more than a batch or two, and some that a whole block fills."""
    lengths = ragged(rows, 5)
    lengths[rows // 5 : rows // 4] = 0
    lengths[rows // 2] = 11
    if rows > 90:
        lengths[rows - 1] = 131
    if rows > 400:
        lengths[[0, 17, 18]] = [140, 129, 128]
    return lengths


@pytest.mark.parametrize("op", ["sum 0", "mean 0", "max 0", "max -inf", "weighted"])
@pytest.mark.parametrize("ids", ["int32", "int64"])
@pytest.mark.parametrize(
    ("dims", "dtype"),
    [
        ([64], "float32"),
        ([128, 256], "float16"),
        ([200, 68], "float32"),
        ([16, 20], "float32"),
        ([8, 32], "float16"),
    ],
)
def test_widths_and_rules(op: str, ids: str, dims: list[int], dtype: str) -> None:
    weighted = op == "weighted"
    bags = [Bag(dim, "sum 0" if weighted else op, ids, weighted, padding=dim % 8 == 0) for dim in dims]
    check(bags, short_bags(), dtype=dtype, multiprocessors=FEW)


@pytest.mark.parametrize("layout", ["1 row", "3 row", "2 column", "1 bounds", "2 bounds"])
@pytest.mark.parametrize("bad", ["error", "zero", "clamp"])
def test_offsets_and_bad_ids(layout: str, bad: str) -> None:
    check([Bag(128)], short_bags(), bad, layout=layout, offset_type="int32", multiprocessors=FEW)


@pytest.mark.parametrize("rows", [16, 17, 64, 65, 2048, 2049, 5000])
def test_as_many_as_fill_blocks_and_one_more(rows: int) -> None:
    """Beyond 2048 a block's threads can't find the ranges of all that there are for it, and there are more blocks."""
    check([Bag(128)], short_bags(rows), multiprocessors=FEW)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 31, 32, 33, 64])
@pytest.mark.parametrize("dim", [16, 128])
def test_bags_that_end_where_a_batch_or_a_window_of_ids_does(dim: int, length: int) -> None:
    """Groups of 4 threads fill up to four bags, of 32 more."""
    rows = 1000 if dim == 16 else 130
    check([Bag(dim, "mean 0", padding=False)], np.full(rows, length), multiprocessors=1 if dim == 16 else FEW)


@pytest.mark.parametrize("op", ["sum 0", "max -inf", "weighted"])
@pytest.mark.parametrize("dim", [16, 64, 128])
def test_bags_of_many_windows(dim: int, op: str) -> None:
    weighted = op == "weighted"
    lengths = ragged(300, 300)
    lengths[[0, 5, 6, 150, 299]] = 1500
    check([Bag(dim, "sum 0" if weighted else op, "int32", weighted)], lengths, multiprocessors=1)


@pytest.mark.parametrize("order", ["any", "falling", "steps back", "all one"])
@pytest.mark.parametrize("layout", ["1 row", "1 bounds"])
@pytest.mark.parametrize("op", ["sum 0", "weighted"])
def test_bags_that_do_not_stand_one_behind_the_other(order: str, layout: str, op: str) -> None:
    """Offsets below 0 and beyond the list among them."""
    random = np.random.default_rng(7)
    total = 3 * ROWS
    starts = np.sort(random.integers(0, total, ROWS + 1))
    if order == "any":
        starts = random.integers(-total - 5, total + 5, ROWS + 1)
    elif order == "falling":
        starts = starts[::-1].copy()
    elif order == "steps back":
        starts[::4] -= 20
    else:
        starts[:] = total // 2
    lengths = np.full(ROWS, 3)
    weighted = op == "weighted"
    for dim, multiprocessors in ((16, 1), (128, FEW)):
        bag = Bag(dim, "sum 0", weighted=weighted)
        check([bag], lengths, layout=layout, multiprocessors=multiprocessors, starts=starts)


def test_on_all_multiprocessors() -> None:
    lengths = short_bags(20_001)
    lengths[[4096, 13_000]] = [2000, 700]
    check([Bag(64), Bag(128, ids="int32")], lengths)


def test_addresses_that_suit_single_values_only() -> None:
    check([Bag(64)], short_bags(), odd=True, multiprocessors=FEW)


def test_fewer_bags_of_many_tables_than_groups() -> None:
    """A block's groups all have one before any has two."""
    check([Bag(128) for _ in range(40)], short_bags(21), multiprocessors=FEW)


def test_lists_without_ids() -> None:
    check([Bag(64), Bag(128, "max -inf")], np.zeros(ROWS, np.int64), multiprocessors=FEW)


def test_a_list_of_one_bag_alone() -> None:
    lengths = np.zeros(ROWS, np.int64)
    lengths[ROWS - 2] = 100
    check([Bag(64, "mean 0")], lengths, multiprocessors=FEW)
