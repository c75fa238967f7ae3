"""Hazard: infinity and NaN that get lost in scales and parts, or spread to rows that don't have them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.custom_ops import gemm
from tests.gpu.gemm import CudaGemmProgram

VALUES = [np.inf, -np.inf, np.nan, 3e38]


def check(case: gemm.Case, multiprocessors: int = 0) -> None:
    """Infinity and NaN where they belong; everything else as exact as float32 sums are."""
    with np.errstate(over="ignore"):
        expected = case.expected().astype(np.float32)
    finite = np.isfinite(expected)
    room = 2e-5 * (np.where(finite, np.abs(expected), 0) + np.nan_to_num(case.magnitude(), posinf=0) + 1e-3)
    program = CudaGemmProgram(case, multiprocessors=multiprocessors)
    for kernel in range(program.kernel_count):
        y = program.run(kernel)
        np.testing.assert_array_equal(y[~finite], expected[~finite], err_msg=f"{kernel}")
        with np.errstate(invalid="ignore"):
            errors = np.where(finite, np.abs(y.astype(np.float64) - expected), 0)
        assert (errors <= room).all(), kernel


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("layout", ["nk", "kn"])
def test_in_a(value: float, layout: str) -> None:
    case = gemm.random_case(150, 90, 200, ["add vector 2"], layout)
    case.a[[3, 77, 149], [5, 64, 199]] = value
    case.a[20, 30], case.a[20, 31] = value, -value
    case.weight[0 if layout == "nk" else slice(None), :] = np.abs(case.weight[0 if layout == "nk" else slice(None), :])
    check(case)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("begins", [[0, 100, 40], [1, 101, 300], [64, 64], [200]])
def test_in_rows_of_which_runs_multiply_parts(value: float, begins: list[int]) -> None:
    """Exact products begin where their run does, and what no run multiplies spreads nowhere."""
    case = gemm.random_runs(150, 72, 100, begins, 450, ["add vector 2"])
    case.a[[3, 20, 64, 77, 100, 101, 149], [5, 449, 64, 99, 199, 200, 100]] = value
    check(case)


@pytest.mark.parametrize("value", VALUES)
def test_in_the_weight(value: float) -> None:
    case = gemm.random_case(150, 200, 150, ["relu"])
    case.weight[[3, 150], [5, 64]] = value
    check(case)


@pytest.mark.parametrize("value", VALUES[:3])
def test_in_operands(value: float) -> None:
    case = gemm.random_case(100, 70, 65, ["mul matrix 2", "relu", "add vector 3", "leakyrelu 0.5"])
    case.operands[0][3, 5] = case.operands[1][7] = value
    check(case)


def test_zero_times_infinity() -> None:
    case = gemm.random_case(70, 70, 70)
    case.a[5], case.a[6, 3] = 0, 0
    case.weight[9, 3] = np.inf
    check(case)


def test_infinite_sums_of_finite_products() -> None:
    case = gemm.random_case(70, 70, 70)
    case.a[5] = 1e30
    case.weight[9] = 1e30
    case.weight[10] = -1e30
    check(case)


def test_subnormal_numbers() -> None:
    case = gemm.random_case(70, 70, 70)
    case.a[5] *= np.float32(1e-39)
    case.weight[9] *= np.float32(1e-39)
    check(case)
    case.weight *= np.float32(1e36)
    check(case)
