"""Hazard: numbers that lose their digits where a fused node computes in another order than the nodes that it replaced."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.graph_passes.elementwise.programs import elementwise_nodes
from tests.graph_passes.harness import Arrays, optimize, parse, session

Session = Callable[[onnx.ModelProto], onnxruntime.InferenceSession]


def check_nearly_constant_rows(average: float, spread: float, fused: Session, original: Session = session) -> None:
    """Layer normalization of them is as near to the exact values as ONNX Runtime's own, and 1e-6 near."""
    size = 48
    scale = np.linspace(0.5, 2, size, dtype=np.float32)
    model = parse(
        f"(float[b,{size}] x) => (float[b,{size}] y) {{ n = LayerNormalization(x, scale) y = Tanh(n) }}", scale=scale
    )
    made = optimize(model, provider="cuda").model
    assert len(elementwise_nodes(made)) == 1
    x = (average + spread * np.random.default_rng(0).normal(size=(200, size))).astype(np.float32)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    exact = np.tanh(centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * scale)
    case: Arrays = {"x": x}

    def error(of: onnxruntime.InferenceSession) -> float:
        return float(np.abs(of.run(None, case)[0] - exact).max())

    assert error(fused(made)) <= max(error(original(model)), 1e-6)


@pytest.mark.parametrize("spread", [0, 1e-4, 1e-2, 1])
@pytest.mark.parametrize("average", [0, 1, -10, 1000, 1e6])
def test_layer_normalization_of_nearly_constant_rows(average: float, spread: float) -> None:
    check_nearly_constant_rows(average, spread, lambda model: session(model, True))
