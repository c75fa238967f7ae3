"""Hazard: numbers that lose their digits, on the GPU."""

from __future__ import annotations

import pytest

from tests.gpu.device import whole_session
from tests.graph_passes.elementwise.test_accuracy import check_nearly_constant_rows


@pytest.mark.parametrize("spread", [0, 1e-4, 1e-2, 1])
@pytest.mark.parametrize("average", [0, 1, -10, 1000, 1e6])
def test_layer_normalization_of_nearly_constant_rows(average: float, spread: float) -> None:
    check_nearly_constant_rows(average, spread, whole_session)
