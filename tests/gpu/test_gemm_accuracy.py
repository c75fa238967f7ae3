"""Hazard: tensor cores that lose what float32 keeps. `fp32` may be no more than four times less exact than cuBLAS."""

from __future__ import annotations

import numpy as np
import pytest

from tests.custom_ops import gemm
from tests.gpu.device import CHECKED
from tests.gpu.gemm import CudaGemmProgram, cublas, error

SIZES = [(128, 64, 64), (300, 80, 624), (260, 130, 1248), (96, 64, 4096), (9, 40, 100), (257, 3, 333), (100, 100, 33)]
QUICK = 4  # from here on also under a checker
# A product of few terms may be exact by chance.
LEAST = 2.0**-25


def powers(random: np.random.Generator, shape: tuple[int, ...], exponents: int) -> np.ndarray:
    return np.exp2(random.integers(-exponents, exponents + 1, shape)).astype(np.float32)


def scaled_rows(case: gemm.Case, random: np.random.Generator) -> None:
    case.a *= powers(random, (case.a.shape[0], 1), 20)
    case.weight *= powers(random, (case.n, 1), 20)


def scaled_inside(case: gemm.Case, random: np.random.Generator) -> None:
    """Columns of A and what undoes it in the weight: every product counts, though factors differ by 2^40."""
    factors = powers(random, (1, case.k), 20)
    case.a *= factors
    case.weight /= factors


def scaled_both(case: gemm.Case, random: np.random.Generator) -> None:
    scaled_rows(case, random)
    scaled_inside(case, random)


def scaled_freely(case: gemm.Case, random: np.random.Generator) -> None:
    case.a *= powers(random, case.a.shape, 20)
    case.weight *= powers(random, case.weight.shape, 20)


def one_sided(case: gemm.Case, _: np.random.Generator) -> None:
    """All products of one sign: errors of one sign add up."""
    case.a[:] = np.abs(case.a)
    case.weight[:] = np.abs(case.weight)


def cancelling(case: gemm.Case, random: np.random.Generator) -> None:
    """The second half of each sum undoes the first but for a millionth."""
    half = case.k // 2
    case.a[:, half : 2 * half] = case.a[:, :half]
    case.weight[:, half : 2 * half] = -case.weight[:, :half] * (
        1 + 1e-6 * random.standard_normal((case.n, half)).astype(np.float32)
    )


def with_zeros(case: gemm.Case, random: np.random.Generator) -> None:
    case.a[:] = np.maximum(case.a, 0)
    case.a[::7] = 0
    case.weight[random.random(case.weight.shape) < 0.3] = 0


def decayed(case: gemm.Case, random: np.random.Generator) -> None:
    """Weights that were never used and shrank, and activations of saturated functions."""
    case.weight[:, random.random(case.k) < 0.2] *= np.float32(1e-30)
    case.a *= np.exp(-30 * random.random(case.a.shape)).astype(np.float32)


def one_large_value(case: gemm.Case, _: np.random.Generator) -> None:
    """What the largest value of a row hides from its scale must count where its weight is 0."""
    case.a[:, case.k // 3] = 1e20
    case.weight[:, case.k // 3] = 0


def tiny(case: gemm.Case, _: np.random.Generator) -> None:
    case.a *= np.float32(1e-37)
    case.weight *= np.float32(1e10)


def large(case: gemm.Case, _: np.random.Generator) -> None:
    case.a *= np.float32(1e30)
    case.weight *= np.float32(1e5)


def plain(case: gemm.Case, _: np.random.Generator) -> None:
    pass


DATA = [
    plain,
    one_sided,
    scaled_rows,
    scaled_inside,
    scaled_both,
    scaled_freely,
    cancelling,
    with_zeros,
    decayed,
    one_large_value,
    tiny,
    large,
]


@pytest.mark.parametrize("data", DATA, ids=lambda data: data.__name__)
def test_no_more_than_four_times_the_error_of_cublas(data) -> None:  # type: ignore[no-untyped-def]
    worst = []
    for seed, (m, n, k) in list(enumerate(SIZES))[QUICK if CHECKED else 0 :]:
        case = gemm.random_case(m, n, k, seed=seed)
        data(case, np.random.default_rng(seed))
        theirs = error(cublas(case), case)
        program = CudaGemmProgram(case)
        for kernel in [-1, *range(program.kernel_count)]:
            ours = error(program.run(kernel), case)
            worst.append((ours / max(theirs, LEAST), ours, theirs, (m, n, k), kernel))
    assert max(worst)[0] <= 4, max(worst)


@pytest.mark.parametrize("precision", ["tf32", "fp16"])
@pytest.mark.parametrize("data", [plain, scaled_rows, scaled_inside, with_zeros], ids=lambda data: data.__name__)
def test_one_product_keeps_11_bits(data, precision: str) -> None:  # type: ignore[no-untyped-def]
    case = gemm.random_case(200, 130, 624, precision=precision)
    data(case, np.random.default_rng(0))
    program = CudaGemmProgram(case)
    for kernel in range(program.kernel_count):
        assert error(program.run(kernel), case) <= 2.0**-10
