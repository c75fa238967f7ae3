"""Hazard: pooled values: weights, empty bags, padding rows that hold NaN, order of sums, widths that don't divide."""

from __future__ import annotations

import numpy as np
import pytest

from dpiframe.custom_ops._kernels import LookupProgram
from tests.custom_ops import reference

HEAD = "lookup 1\nrows 1\nbad error\nsource * row\nsource * row\nsource 2 row\ntable 60 {dim}\noutput {dim}\n"
WEIGHTS = ["one", "ne 0:* 0", "ne 2:0 7", "lt * 2:1", "lt 3 2:0", "col 1 *"]


def case(length: int, dim: int, rows: int = 19) -> tuple[list[np.ndarray], list[np.ndarray]]:
    random = np.random.default_rng(length * 1000 + dim)
    ids = random.integers(0, 60, (rows, length))
    weights = random.standard_normal((rows, length)).astype(np.float32)
    lengths = np.stack([random.integers(0, 9, rows), random.integers(0, length + 2, rows)], axis=1)
    return [ids, weights, lengths], [random.standard_normal((60, dim)).astype(np.float32)]


def check(program: str, sources: list[np.ndarray], tables: list[np.ndarray]) -> np.ndarray:
    expected = reference.run(program, sources, tables).outputs[0]
    for baseline in (False, True):
        for threads in (1, 3):
            (actual,) = LookupProgram(program, baseline).run(sources, tables, threads)
            assert reference.same_bits(actual, expected)
    return expected


@pytest.mark.parametrize("op", ["sum 1 0", "mean 1 0", "mean 1 1e-8", "max 1 0", "max 1 1e9"])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_every_pooling_with_every_weight(op: str, weight: str) -> None:
    sources, tables = case(13, 16)
    check(HEAD.format(dim=16) + f"pool 0 0 16 {op}\nterm 0 0:* 0 {weight}\n", sources, tables)


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 7, 8, 15, 16, 31, 33, 64, 65, 100, 127, 128, 129, 300])
@pytest.mark.parametrize("op", ["sum", "max"])
def test_every_width(dim: int, op: str) -> None:
    sources, tables = case(5, dim)
    check(HEAD.format(dim=dim) + f"pool 0 0 {dim} {op} 1 0\nterm 0 0:* 0 one\n", sources, tables)


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 128, 129, 500])
def test_every_length(length: int) -> None:
    sources, tables = case(length, 8, rows=5)
    check(HEAD.format(dim=8) + "pool 0 0 8 mean 1 1e-8\nterm 0 0:* 0 ne 0:* 3\n", sources, tables)


def test_terms_with_and_without_star_are_joined_in_order() -> None:
    sources, tables = case(70, 8)
    program = HEAD.format(dim=8) + "pool 0 0 8 sum 4 0\nterm 0 2:0 0 one\nterm 0 0:* 0 col 1 *\nterm 0 =5 0 one\n"
    check(program + "term 0 0:*/2+1 0 lt * 2:1\n", sources, tables)


def test_more_terms_than_a_batch_holds() -> None:
    random = np.random.default_rng(0)
    tables = [random.standard_normal((50, 1)).astype(np.float32) for _ in range(200)]
    program = "lookup 1\nrows 1\nbad error\nsource 200 row\n" + "table 50 1\n" * 200
    program += "output 1\npool 0 0 1 sum 200 0\n" + "".join(f"term {i} 0:{i} 0 one\n" for i in range(200))
    check(program, [random.integers(0, 50, (33, 200))], tables)


def test_a_weight_of_zero_multiplies_the_row() -> None:
    """NaN and infinity in a padding row come through, as they do in the standard nodes."""
    table = np.ones((3, 2), np.float32)
    table[0] = [np.nan, np.inf]
    ids = np.array([[1, 0], [1, 2]])
    program = (
        "lookup 1\nrows 1\nbad error\nsource * row\ntable 3 2\noutput 2\npool 0 0 2 {op} 1 {x}\nterm 0 0:* 0 ne 0:* 0\n"
    )
    assert np.isnan(check(program.format(op="sum", x=0), [ids], [table])[0]).all()
    np.testing.assert_array_equal(check(program.format(op="sum", x=0), [ids], [table])[1], [2, 2])
    np.testing.assert_array_equal(check(program.format(op="max", x=1e9), [ids], [table]), [[np.nan, np.inf], [1, 1]])


def test_the_maximum_keeps_nan_wherever_it_stands() -> None:
    table = np.array([[1], [np.nan], [2]], np.float32)
    program = "lookup 1\nrows 1\nbad error\nsource * row\ntable 3 1\noutput 1\npool 0 0 1 max 1 0\nterm 0 0:* 0 one\n"
    ids = np.array([[1, 0, 2], [0, 1, 2], [0, 2, 1]])
    assert np.isnan(check(program, [ids], [table])).all()


def test_bags_without_any_column() -> None:
    program = "lookup 1\nrows 1\nbad error\nsource * row\ntable 3 2\noutput 6\n"
    program += "".join(f"pool 0 {2 * i} 2 {op} 1 0\nterm 0 0:* 0 one\n" for i, op in enumerate(["sum", "mean", "max"]))
    values = check(program, [np.zeros((4, 0), np.int64)], [np.ones((3, 2), np.float32)])
    np.testing.assert_array_equal(values, np.tile([0, 0, np.nan, np.nan, -np.inf, -np.inf], (4, 1)))


def test_a_column_layout_source_is_pooled_over_its_columns() -> None:
    random = np.random.default_rng(1)
    program = "lookup 1\nrows 1\nbad error\nsource 6 column\nsource 6 row\ntable 9 4\noutput 4\n"
    program += "pool 0 0 4 sum 1 0\nterm 0 0:* 0 col 1 *\n"
    sources = [random.integers(0, 9, (6, 21)), random.standard_normal((21, 6)).astype(np.float32)]
    check(program, sources, [random.standard_normal((9, 4)).astype(np.float32)])


def test_weights_of_another_length_are_refused() -> None:
    program = LookupProgram(HEAD.format(dim=4) + "pool 0 0 4 sum 1 0\nterm 0 0:* 0 col 1 *\n")
    sources, tables = case(5, 4)
    sources[1] = sources[1][:, :4].copy()
    with pytest.raises(ValueError, match="source 1 has another number of columns than source 0"):
        program.run(sources, tables)


@pytest.mark.parametrize(("op", "value"), [("sum", 0), ("mean", np.nan), ("max", -np.inf)])
def test_a_sequence_of_no_positions(op: str, value: float) -> None:
    """Nothing of the pool before it comes through."""
    program = (
        "lookup 1\nrows 1\nbad error\nsource 1 row\nsource * row\ntable 5 3\noutput 6\n"
        f"pool 0 0 3 {op} 1 0\nterm 0 0:0 0 one\npool 0 3 3 {op} 1 0\nterm 0 1:* 0 one\n"
    )
    output = LookupProgram(program).run([np.array([1, 2]), np.zeros((2, 0), np.int64)], [np.ones((5, 3), np.float32)])[
        0
    ]
    np.testing.assert_array_equal(output, [[1, 1, 1, value, value, value]] * 2)
