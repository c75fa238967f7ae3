"""Hazard: half precision: conversions, subnormals, rounding ties, sums that must be kept in float32."""

from __future__ import annotations

import numpy as np
import pytest

from dpiframe.custom_ops._kernels import LookupProgram
from tests.custom_ops import reference

COPY = "lookup 1\nrows 1\nbad error\nsource {columns} row\ntable 1 1\noutput {columns}\ncopy 0 0 {columns} 0 0\n"
SUM = "lookup 1\nrows 1\nbad error\nsource * row\ntable {rows} {dim}\noutput {dim}\npool 0 0 {dim} {op} 1 {x}\n"
BASELINE = pytest.mark.parametrize("baseline", [False, True])
ALL_HALVES = np.arange(1 << 16, dtype=np.uint16)


@BASELINE
def test_every_half_survives_a_copy_and_a_lookup(baseline: bool) -> None:
    table = ALL_HALVES.view(np.float16).reshape(-1, 16)
    program = LookupProgram(
        "lookup 1\nrows 1\nbad error\nsource 1 row\nsource 16 row\ntable 4096 16\noutput 32\n"
        "row 0 0 16 0 0:0 0\ncopy 0 16 16 1 0\n",
        baseline,
    )
    (values,) = program.run([np.arange(4096).reshape(-1, 1), table], [table])
    np.testing.assert_array_equal(values.view(np.uint16), np.tile(table.view(np.uint16), (1, 2)))


@BASELINE
def test_every_half_becomes_the_right_float_and_back(baseline: bool) -> None:
    """A sum over one row converts to float32 and back, which changes no value."""
    table = ALL_HALVES.view(np.float16).reshape(-1, 16)
    program = LookupProgram(SUM.format(rows=4096, dim=16, op="sum", x=0) + "term 0 0:* 0 one\n", baseline)
    (values,) = program.run([np.arange(4096).reshape(-1, 1)], [table])
    with np.errstate(invalid="ignore"):
        expected = (np.float32(0) + table.astype(np.float32)).astype(np.float16)
    assert reference.same_bits(values, expected)


@BASELINE
def test_float32_is_rounded_to_nearest_even(baseline: bool) -> None:
    halves = ALL_HALVES.view(np.float16).astype(np.float32)
    finite = np.sort(halves[np.isfinite(halves)])
    middles = ((finite[:-1].astype(np.float64) + finite[1:]) / 2).astype(np.float32)
    around = [np.nextafter(middles, np.float32(np.inf)), np.nextafter(middles, np.float32(-np.inf))]
    edges = np.array([65519.99, 65520, 65520.01, 1e38, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 2.0**-25, 0, -0.0])
    values = np.concatenate([finite, middles, *around, edges.astype(np.float32)])
    values = values[: len(values) // 4 * 4].reshape(-1, 4).copy()
    program = LookupProgram(COPY.format(columns=4), baseline)
    (rounded,) = program.run([values], [np.zeros((1, 1), np.float16)])
    with np.errstate(over="ignore"):
        assert reference.same_bits(rounded, values.astype(np.float16))


@BASELINE
@pytest.mark.parametrize("dim", [1, 3, 8, 13, 16, 40, 64, 77])
@pytest.mark.parametrize("op", ["sum", "mean", "max"])
def test_pooling(dim: int, op: str, baseline: bool) -> None:
    random = np.random.default_rng(dim)
    table = (random.standard_normal((30, dim)) * 100).astype(np.float16)
    program = SUM.format(rows=30, dim=dim, op=op, x=0) + "term 0 0:* 0 ne 0:* 4\n"
    ids = random.integers(0, 30, (11, 9))
    (values,) = LookupProgram(program, baseline).run([ids], [table])
    assert reference.same_bits(values, reference.run(program, [ids], [table]).outputs[0])


def test_sums_are_rounded_once() -> None:
    """4096 ones: in half precision the sum would stop at 2048."""
    program = LookupProgram(SUM.format(rows=2, dim=1, op="sum", x=0) + "term 0 0:* 0 one\n")
    (values,) = program.run([np.ones((1, 4096), np.int64)], [np.ones((2, 1), np.float16)])
    np.testing.assert_array_equal(values, [[4096]])


def test_half_precision_weights() -> None:
    random = np.random.default_rng(0)
    table = random.standard_normal((9, 5)).astype(np.float16)
    program = "lookup 1\nrows 1\nbad error\nsource 3 row\nsource 3 row\ntable 9 5\noutput 5\n"
    program += "pool 0 0 5 sum 1 0\nterm 0 0:* 0 col 1 *\n"
    sources = [random.integers(0, 9, (7, 3)), random.standard_normal((7, 3)).astype(np.float16)]
    (values,) = LookupProgram(program).run(sources, [table])
    assert reference.same_bits(values, reference.run(program, sources, [table]).outputs[0])
