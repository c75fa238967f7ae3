"""Hazard: what a block kept of one tile reaches another. Blocks go on from tile to tile, and fetch for the next early.

On four multiprocessors a block has ten tiles and more (under a checker six), so that all memory for tiles' vectors is
used again; with K of one chunk as soon as can be.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.custom_ops import gemm
from tests.gpu import test_gemm_special_values
from tests.gpu.device import CHECKED, DeviceArray
from tests.gpu.gemm import CudaGemmProgram
from tests.gpu.test_gemm_kernels import check

ROWS = 700 if CHECKED else 1300
FEW = 4
VECTORS = ["add vector 2", "mul vector 3", "add vector 4"]


@pytest.mark.parametrize(("m", "n", "k"), [(9000, 300, 40), (9000, 260, 130), (5000, 640, 200)])
def test_more_tiles_than_multiprocessors(m: int, n: int, k: int) -> None:
    check(gemm.random_case(m, n, k, [*VECTORS, "mul matrix 5"]))


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("vectors", [0, 1, 2, 3])
def test_ten_tiles_of_one_chunk(vectors: int, odd: bool) -> None:
    check(gemm.random_case(ROWS, 640, 40, VECTORS[:vectors]), odd, FEW)


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("vectors", [0, 1, 2, 3])
def test_ten_tiles_of_three_chunks(vectors: int, odd: bool) -> None:
    check(gemm.random_case(ROWS, 640, 130, VECTORS[:vectors]), odd, FEW)


@pytest.mark.parametrize("odd", [False, True])
def test_runs_of_columns(odd: bool) -> None:
    check(gemm.random_runs(ROWS, 160, 40, [0, 4, 40, 60], 100, VECTORS[:2]), odd, FEW)


@pytest.mark.parametrize("value", test_gemm_special_values.VALUES)
def test_special_values_in_the_first_a_middle_and_the_last_tile(value: float) -> None:
    """Their rows are computed again while the copies for the next tile are under way."""
    case = gemm.random_case(ROWS, 640, 40, ["add vector 2", "relu"])
    case.a[[0, 1, ROWS // 2, ROWS - 1], [3, 39, 0, 20]] = value
    test_gemm_special_values.check(case, FEW)


def test_one_column_whose_weight_no_parts_can_stand_for() -> None:
    case = gemm.random_case(ROWS, 640, 40, ["add vector 2"])
    case.weight[333, 7] = np.inf
    test_gemm_special_values.check(case, FEW)


def test_a_vector_that_the_kernel_before_writes() -> None:
    """A kernel starts early: it may fetch its weight, and nothing that another one still writes."""
    first = gemm.random_case(1, 640, 512)
    second = gemm.random_case(ROWS, 640, 40, ["add vector 2"])
    second.operands[0] = first.product().astype(np.float32)[0]
    expected = second.expected()
    writes, reads = CudaGemmProgram(first), CudaGemmProgram(second, multiprocessors=FEW)
    row, a = DeviceArray(first.a), DeviceArray(second.a)
    for kernel in range(reads.kernel_count):
        vector = DeviceArray(np.full(640, np.nan, np.float32))
        y = DeviceArray(np.full((ROWS, 640), np.nan, np.float32))
        writes.gemm.launch(1, row.address, writes.weight.address, [], vector.address, 0, -1)
        reads.gemm.launch(ROWS, a.address, reads.weight.address, [vector.address], y.address, 0, kernel)
        np.testing.assert_allclose(y.read(), expected, rtol=0, atol=1e-4, err_msg=f"{kernel}")
