"""Hazard: a kernel that is created while its weight is still on the way to the GPU, behind other work."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from tests.custom_ops import gemm
from tests.gpu.device import DeviceArray, kernels

CYCLES = 200_000_000  # about 0.1 s


@pytest.mark.parametrize("layout", ["nk", "kn"])
def test_a_weight_that_is_on_its_way_is_waited_for(layout: str) -> None:
    case = gemm.random_case(70, 131, 200, ["relu"], layout)
    host = torch.from_numpy(case.weight).pin_memory()
    weight = torch.zeros(host.shape, device="cuda")
    torch.cuda.synchronize()
    torch.cuda._sleep(CYCLES)
    weight.copy_(host, non_blocking=True)
    made = kernels().CudaGemm(case.program, weight.data_ptr())
    a = DeviceArray(case.a)
    for kernel in range(len(made.kernel_names)):
        y = DeviceArray(np.full((70, 131), np.nan, np.float32))
        made.launch(70, a.address, weight.data_ptr(), [], y.address, 0, kernel)
        np.testing.assert_allclose(y.read(), case.expected(), rtol=1e-5, atol=1e-5)
