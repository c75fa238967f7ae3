"""FusedGemm's kernels on the GPU, one by one, and cuBLAS to compare with."""

from __future__ import annotations

import functools

import numpy as np
import onnxruntime as ort
from onnx import helper

from tests.custom_ops import gemm, models
from tests.gpu import device
from tests.gpu.device import DeviceArray


def kernel_names() -> list[str]:
    """All kernels that products of ordinary sizes have to choose from."""
    weight = DeviceArray(np.zeros((64, 64), np.float32))
    names: list[str] = device.kernels().CudaGemm(gemm.random_case(1, 64, 64).program, weight.address).kernel_names
    return names


class CudaGemmProgram:
    """A case's program on the GPU.

    `odd`: addresses suit single values only, and each launch brings the weight. `multiprocessors`: as many are used at
    most, so that a few tiles keep a block busy; 0: all.
    """

    def __init__(self, case: gemm.Case, odd: bool = False, multiprocessors: int = 0) -> None:
        self.case, self.offset = case, 4 if odd else 0
        self.weight = DeviceArray(case.weight, self.offset)
        self.gemm = device.kernels().CudaGemm(case.program, 0 if odd else self.weight.address, multiprocessors)

    @property
    def kernel_count(self) -> int:
        return len(self.gemm.kernel_names)

    def run(self, kernel: int = -1) -> np.ndarray:
        case = self.case
        m = case.a.size // case.row
        a = DeviceArray(case.a, self.offset)
        operands = [DeviceArray(operand, self.offset) for operand in case.operands]
        y = DeviceArray(np.full((m, case.n), np.nan, np.float32), self.offset)
        addresses = [operand.address for operand in operands]
        self.gemm.launch(m, a.address, self.weight.address, addresses, y.address, 0, kernel)
        return y.read()


@functools.cache
def _cublas_session() -> ort.InferenceSession:
    model = models.model_of(
        [helper.make_node("MatMul", ["a", "w"], ["y"])],
        [models.value("a", "float32", ["M", "K"]), models.value("w", "float32", ["K", "N"])],
        [models.value("y", "float32", ["M", "N"])],
        {},
    )
    return device.whole_session(model)


def cublas(case: gemm.Case) -> np.ndarray:
    """The product alone, by cuBLAS in float32."""
    y: np.ndarray = _cublas_session().run(None, {"a": case.a, "w": np.ascontiguousarray(case.nk.T)})[0]
    return y


def error(y: np.ndarray, case: gemm.Case) -> float:
    """The largest error of a product, by the sum of its terms' absolute values."""
    magnitude = np.maximum(case.magnitude(), np.finfo(np.float32).tiny)
    return float((np.abs(y - case.product()) / magnitude).max(initial=0))
