"""Hazard: a model whose precision is another one than it says, or that loses more than the documents allow."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from dpiframe.graph_passes.pipeline import PASSES, optimize_model
from dpiframe.graph_passes.streams.assign import AssignStreams
from tests.custom_ops import models
from tests.gpu import device
from tests.graph_passes.harness import op_types, parse

FP32, LOW = 1e-6, 1e-2  # docs/verification.md


def layers() -> onnx.ModelProto:
    """A product, a chain that no product takes in, and a product."""
    random = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    return parse(
        """(float[b,200] x) => (float[b,70] y) {
          p = Gemm(x, V, c) s = Softplus(p) m = ReduceMean(s, last) n = Sub(s, m)
          q = Gemm(n, W, d) y = Sigmoid(q) }""",
        V=weights(200, 130),
        c=weights(130),
        W=weights(130, 70),
        d=weights(70),
        last=np.array([1]),
    )


def optimized_to(precision: str, model: onnx.ModelProto) -> onnx.ModelProto:
    """Without regions, which would hold all nodes as one."""
    passes = [kind for kind in PASSES if kind is not AssignStreams]
    return optimize_model(model, provider="cuda", precision=precision, passes=passes).model


def largest_error(model: onnx.ModelProto, optimized: onnx.ModelProto, rows: int) -> float:
    x = np.random.default_rng(rows).standard_normal((rows, 200)).astype(np.float32)
    (expected,) = models.session(model).run(None, {"x": x})
    (actual,) = device.whole_session(optimized).run(None, {"x": x})
    return float(np.abs(actual - expected).max(initial=0)) / max(1.0, float(np.abs(expected).max(initial=0)))


@pytest.mark.parametrize("rows", [1, 65, 2048])
@pytest.mark.parametrize(("precision", "bound"), [("fp32", FP32), ("tf32", LOW), ("fp16", LOW)])
def test_a_product_a_chain_and_a_product(precision: str, bound: float, rows: int) -> None:
    model = layers()
    optimized = optimized_to(precision, model)
    assert op_types(optimized) == ["FusedGemm", "FusedElementwise", "FusedGemm_1"]
    error = largest_error(model, optimized, rows)
    assert error <= bound
    if precision != "fp32" and rows == 2048:
        assert error > FP32, "the tensor core's one product is what was asked for"


def test_the_environment_overrides_what_the_model_says(monkeypatch: pytest.MonkeyPatch) -> None:
    model = layers()
    low, high = optimized_to("fp16", model), optimized_to("fp32", model)
    monkeypatch.setenv("DPIFRAME_PRECISION", "fp32")
    assert largest_error(model, low, 2048) <= FP32
    monkeypatch.setenv("DPIFRAME_PRECISION", "tf32")
    assert FP32 < largest_error(model, high, 2048) <= LOW
