"""Plain bags: filled by groups of threads or by whole blocks, as many as there are and as long as they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tests.custom_ops import reference
from tests.gpu.device import CHECKED, CudaLookupProgram

ROWS = 30  # of each table
PADDING = 7


@dataclass(frozen=True)
class Bag:
    dim: int
    op: str = "sum 0"
    ids: str = "int64"
    weighted: bool = False
    padding: bool = True


def check(
    bags: list[Bag],
    lengths: np.ndarray,
    bad: str = "zero",
    dtype: str = "float32",
    layout: str = "1 row",
    offset_type: str = "int64",
    odd: bool = False,
    multiprocessors: int = 0,
    starts: np.ndarray | None = None,
) -> None:
    """Bags of these lengths, each from a list and a table of its own, with bits and counts of the reference.

    starts: where each begins, and the end of the last; else they stand one behind the other.
    """
    random = np.random.default_rng(len(lengths))
    total = int(lengths.sum())
    if starts is None:
        starts = np.concatenate([[0], np.cumsum(lengths)])
    starts = starts.astype(offset_type)
    columns, kind = layout.split()
    offsets = starts if kind == "bounds" else starts[:-1]
    offsets = np.stack([np.zeros_like(offsets)] * (int(columns) - 1) + [offsets], axis=1 if kind == "row" else 0)
    sources, lines, blocks, tables = [offsets], [f"source {layout}"], [], []
    column = 0
    for bag in bags:
        table = random.standard_normal((ROWS, bag.dim)).astype(dtype)
        table[3, 0], table[4, -1], table[PADDING] = np.nan, np.inf, np.nan if bag.padding else 1
        ids = random.integers(-ROWS - 2, ROWS + 2, total)
        ids[random.random(total) < 0.2] = PADDING
        sources.append(ids.astype(bag.ids))
        lines.append("source * list")
        name = len(sources) - 1
        weight = "one"
        if bag.weighted:
            weights = random.standard_normal(total).astype(np.float32)
            weights[random.random(total) < 0.02] = np.inf
            sources.append(weights)
            lines.append("source * list")
            weight = f"col {name + 1} *"
        number, padding = len(tables), PADDING if bag.padding else "none"
        where = f"0:{int(columns) - 1}"
        blocks.append(f"bag 0 {column} {bag.dim} {bag.op} {number} {name}:* 0 {weight} {where} {padding}")
        column += bag.dim
        tables.append(table)
    head = ["lookup 1", "rows 1", f"bad {bad}", *lines, *(f"table {ROWS} {bag.dim}" for bag in bags)]
    program = "\n".join([*head, f"output {column}", *blocks]) + "\n"
    with np.errstate(invalid="ignore"):
        expected = reference.run(program, sources, tables)
    lookup = CudaLookupProgram(program, odd, multiprocessors)
    assert reference.same_bits(lookup.run(sources, tables)[0], expected.outputs[0])
    assert lookup.bad_id_counts == expected.counts


def ragged(rows: int, longest: int, seed: int = 0) -> np.ndarray:
    """A third of the bags are empty."""
    random = np.random.default_rng(seed)
    return random.integers(0, longest + 1, rows) * (random.random(rows) < 0.67)


@pytest.mark.parametrize("dims", [[1], [3], [4], [8, 1], [16], [48, 20], [64], [68, 7], [128, 64], [260]])
@pytest.mark.parametrize("op", ["sum 0", "mean 0", "max 0", "max -inf", "weighted"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("odd", [False, True])
def test_widths_and_rules(dims: list[int], op: str, dtype: str, odd: bool) -> None:
    """Short bags by groups of threads, and ones of a few ids more by blocks."""
    weighted = op == "weighted"
    rule = "sum 0" if weighted else op
    for longest, ids in ((4, "int32"), (40, "int64")):
        bags = [Bag(dim, rule, ids, weighted, padding=longest == 40) for dim in dims]
        check(bags, ragged(19, longest), dtype=dtype, odd=odd)


@pytest.mark.parametrize("op", ["sum 0", "mean 0", "max 0", "weighted"])
@pytest.mark.parametrize("ids", ["int32", "int64"])
@pytest.mark.parametrize("dim", [4, 16, 64, 30])
def test_a_long_bag_among_short_ones(op: str, ids: str, dim: int) -> None:
    """Several of them in one block of threads, at its start and at its end."""
    weighted = op == "weighted"
    lengths = ragged(1100 if CHECKED else 2500, 3)
    lengths[[0, 1, 4, 40, 255, 256, 1000, -1]] = [129, 3000, 500, 160, 300, 128, 200, 700]
    check([Bag(dim, "sum 0" if weighted else op, ids, weighted)], lengths)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("op", ["sum 0", "mean 0", "max -inf", "weighted"])
@pytest.mark.parametrize("dims", [[64], [4, 100], [10]])
@pytest.mark.parametrize("rows", [1, 5, 60])
def test_few_long_bags(dtype: str, op: str, dims: list[int], rows: int) -> None:
    """Each by a block, or by several that share its chunks."""
    weighted = op == "weighted"
    lengths = ragged(rows, 9000 // rows, seed=2)
    lengths[0] = 2000
    check([Bag(dim, "sum 0" if weighted else op, weighted=weighted) for dim in dims], lengths, dtype=dtype)


@pytest.mark.parametrize("layout", ["1 row", "3 row", "2 column", "1 bounds", "2 bounds"])
@pytest.mark.parametrize("offset_type", ["int32", "int64"])
@pytest.mark.parametrize("bad", ["error", "zero", "clamp"])
@pytest.mark.parametrize("longest", [5, 70])
def test_offsets_and_bad_ids(layout: str, offset_type: str, bad: str, longest: int) -> None:
    check([Bag(20), Bag(64, "max 0", "int32")], ragged(40, longest), bad, layout=layout, offset_type=offset_type)


@pytest.mark.parametrize("rows", [1, 300])
def test_bags_of_more_kinds_than_a_launch_takes(rows: int) -> None:
    dims = [4, 3, 32, 8, 64, 15, 200]
    bags = [
        Bag(dim, ids=ids, weighted=weighted) for dim in dims for ids in ("int32", "int64") for weighted in (False, True)
    ]
    check(bags, ragged(rows, 6, seed=3))


def test_lists_without_ids() -> None:
    check([Bag(64), Bag(5, "max -inf")], np.zeros(9, np.int64))
