"""Hazard: products that are wrong at the edges of blocks, or with one layout, operand or step and not with others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpiframe.custom_ops._kernels import GemmProgram
from tests.custom_ops import gemm


def check(case: gemm.Case, threads: int = 1) -> None:
    y = GemmProgram(case.program).run(case.a, case.weight, case.operands, threads)
    expected = case.expected()
    assert y.shape == expected.shape
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-5)


@settings(deadline=None, max_examples=60)
@given(
    m=st.integers(0, 70),
    n=st.integers(1, 140),
    k=st.integers(1, 600),
    layout=st.sampled_from(["nk", "kn"]),
    threads=st.integers(1, 3),
)
def test_products(m: int, n: int, k: int, layout: str, threads: int) -> None:
    check(gemm.random_case(m, n, k, ["add vector 2", "relu"], layout, seed=m), threads)


@pytest.mark.parametrize("step", gemm.ALL_STEPS)
def test_every_step(step: str) -> None:
    check(gemm.random_case(35, 70, 20, [step]))


def test_a_cross_layer() -> None:
    check(gemm.random_case(50, 66, 66, ["add vector 2", "mul matrix 3", "add matrix 4"]))


def test_an_operand_may_be_read_twice() -> None:
    check(gemm.random_case(9, 5, 7, ["mul matrix 2", "relu", "add matrix 2", "mul vector 3", "sub vector 3"]))


@settings(deadline=None, max_examples=60)
@given(
    m=st.integers(0, 70),
    n=st.integers(1, 70),
    k=st.integers(1, 300),
    begins=st.lists(st.integers(0, 90), min_size=1, max_size=5),
    layout=st.sampled_from(["nk", "kn"]),
    threads=st.integers(1, 3),
)
def test_runs_of_columns(m: int, n: int, k: int, begins: list[int], layout: str, threads: int) -> None:
    check(gemm.random_runs(m, n, k, begins, k + 90, ["add vector 2", "mul matrix 3"], layout), threads)


def test_leading_axes_are_rows() -> None:
    case = gemm.random_case(24, 5, 7, ["mul matrix 2", "add vector 3"])
    expected = case.expected().reshape(2, 3, 4, 5)
    case.a = case.a.reshape(2, 3, 4, 7)
    y = GemmProgram(case.program).run(case.a, case.weight, case.operands)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layout", ["nk", "kn"])
def test_infinity_and_nan_pass(layout: str) -> None:
    case = gemm.random_case(40, 70, 33, ["relu"], layout)
    case.a[3, 5], case.a[7, 0], case.a[9, :] = np.inf, np.nan, 0
    case.weight[2, 3] = -np.inf
    y = GemmProgram(case.program).run(case.a, case.weight)
    np.testing.assert_allclose(y, case.expected(), rtol=1e-5, atol=1e-5)


def test_arrays_that_do_not_fit_are_errors() -> None:
    case = gemm.random_case(4, 5, 6, ["add vector 2"])
    program = GemmProgram(case.program)
    with pytest.raises(ValueError, match="other rows"):
        program.run(case.a[:, :5].copy(), case.weight, case.operands)
    with pytest.raises(ValueError, match="weight has another size"):
        program.run(case.a, case.weight[:4], case.operands)
    with pytest.raises(ValueError, match="takes 1 operands"):
        program.run(case.a, case.weight)
    with pytest.raises(ValueError, match="operand 0 has another size"):
        program.run(case.a, case.weight, [case.operands[0][:4]])
