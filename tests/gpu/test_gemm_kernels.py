"""Hazard: a kernel that is right for sizes it was made for and wrong at the edges of its tiles. Every kernel runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.custom_ops import gemm
from tests.gpu.device import CHECKED
from tests.gpu.gemm import CudaGemmProgram

BOUND = {"fp32": 1e-6, "tf32": 2e-3, "fp16": 2e-3}


def check(case: gemm.Case, odd: bool = False, multiprocessors: int = 0) -> None:
    """Every kernel's result within a bound by the largest value of the row."""
    program = CudaGemmProgram(case, odd, multiprocessors)
    expected = case.expected()
    scale = np.maximum(np.abs(expected).max(axis=-1, keepdims=True, initial=0), case.magnitude()) + 1
    for kernel in [-1, *range(program.kernel_count)]:
        y = program.run(kernel)
        np.testing.assert_array_less(np.abs(y - expected) / scale, 4 * BOUND[case.precision], err_msg=f"{kernel}")


# Sizes at and beside the ends of tiles, chunks of K and vectors of 4.
ROWS = [1, 2, 7, 8, 9, 15, 16, 63, 64, 65, 127, 128, 129, 200, 300]
COLUMNS = [1, 2, 3, 8, 9, 12, 63, 64, 65, 80, 100, 128, 130, 160, 161, 256]
DEPTHS = [1, 3, 4, 32, 33, 36, 63, 64, 65, 68, 127, 128, 130, 200, 512, 516, 600]


@settings(deadline=None, max_examples=6 if CHECKED else 100)
@given(
    m=st.sampled_from(ROWS),
    n=st.sampled_from(COLUMNS),
    k=st.sampled_from(DEPTHS),
    layout=st.sampled_from(["nk", "kn"]),
    precision=st.sampled_from(["fp32", "fp32", "tf32", "fp16"]),
    odd=st.booleans(),
)
def test_sizes(m: int, n: int, k: int, layout: str, precision: str, odd: bool) -> None:
    steps = ["add vector 2", "mul matrix 3", "add matrix 4"]
    check(gemm.random_case(m, n, k, steps, layout, m * n + k, precision), odd)


@settings(deadline=None, max_examples=3 if CHECKED else 40)
@given(m=st.integers(1, 700), n=st.integers(1, 400), k=st.integers(1, 900), odd=st.booleans())
def test_any_size(m: int, n: int, k: int, odd: bool) -> None:
    check(gemm.random_case(m, n, k, ["relu"], seed=k), odd)


@settings(deadline=None, max_examples=4 if CHECKED else 60)
@given(
    m=st.sampled_from(ROWS),
    n=st.sampled_from([1, 4, 7, 8, 16, 64, 72, 80, 128, 136]),
    k=st.sampled_from(DEPTHS),
    begins=st.lists(st.sampled_from([0, 1, 4, 64, 100, 128, 200]), min_size=1, max_size=6),
    layout=st.sampled_from(["nk", "kn"]),
    odd=st.booleans(),
)
def test_runs_of_columns(m: int, n: int, k: int, begins: list[int], layout: str, odd: bool) -> None:
    steps = ["add vector 2", "mul matrix 3", "add column 4"]
    check(gemm.random_runs(m, n, k, begins, k + 200, steps, layout), odd)


def test_as_many_runs_as_there_may_be() -> None:
    check(gemm.random_runs(300, 8, 8, [8 * (i % 16) for i in range(128)], 128, ["relu"]))
    check(gemm.random_runs(300, 16, 64, list(range(0, 512, 4)), 575, ["relu"]))


@pytest.mark.parametrize("step", gemm.ALL_STEPS)
@pytest.mark.parametrize("odd", [False, True])
def test_every_step(step: str, odd: bool) -> None:
    check(gemm.random_case(70, 132, 40, [step]), odd)
    check(gemm.random_case(3, 131, 40, [step]), odd)


def test_sixteen_steps() -> None:
    steps = ["add vector 2", "relu", "mul column 3", "sub scalar 4", "tanh", "add matrix 5", "sigmoid", "mul matrix 5"]
    check(gemm.random_case(100, 100, 100, [*steps, *steps]))


def test_no_rows() -> None:
    program = CudaGemmProgram(gemm.random_case(0, 100, 100, ["add vector 2"]))
    for kernel in [-1, *range(program.kernel_count)]:
        assert program.run(kernel).shape == (0, 100)


@pytest.mark.parametrize(("m", "n", "k"), [(2048, 256, 624), (2048, 624, 624), (2048, 1248, 1248), (16384, 1, 256)])
def test_sizes_of_models(m: int, n: int, k: int) -> None:
    check(gemm.random_case(m, n, k, ["add vector 2", "relu"]))


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(200, 100, 300)] if CHECKED else [(300, 256, 1000), (4096, 256, 624), (2048, 624, 624)]
)
def test_results_are_the_same_from_run_to_run(m: int, n: int, k: int, precision: str) -> None:
    """Copies that arrive in another order than they were started, and warps that are late, must change nothing."""
    program = CudaGemmProgram(gemm.random_case(m, n, k, precision=precision))
    for kernel in range(program.kernel_count):
        first = program.run(kernel)
        for _ in range(2 if CHECKED else 15):
            np.testing.assert_array_equal(program.run(kernel), first, err_msg=f"{kernel}")


@pytest.mark.parametrize("depth", [16, 64])
def test_a_kernel_that_there_is_not(depth: int) -> None:
    program = CudaGemmProgram(gemm.random_case(4, 8, depth))
    for kernel in (-2, program.kernel_count, 2**31 - 1):
        with pytest.raises(IndexError, match=f"kernel is {kernel}: -1 to {program.kernel_count - 1}"):
            program.run(kernel)
