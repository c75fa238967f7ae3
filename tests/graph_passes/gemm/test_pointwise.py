"""Convolutions of single places as products, between chains that can move their channels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph_passes.gemm.test_bundle import forms, same, weights
from tests.graph_passes.gemm.test_fuse import cases, fuse
from tests.graph_passes.harness import agree, op_types, optimize, parse


def test_a_compressed_interaction() -> None:
    """An xDeepFM's layer: all pairs of two sets of vectors, mixed by a convolution. (Empty batches are left out: the
    original dies of them in ONNX Runtime.)"""
    model = parse(
        """(float[b,3,5] x, float[b,2,5] z) => (float[b,4] y) {
          e = Einsum <equation = "bhd,bmd->bhmd"> (x, z) r = Reshape(e, flat) c = Conv <kernel_shape = [1]> (r, W, h)
          a = Relu(c) y = ReduceSum <keepdims = 0> (a, last) }""",
        flat=np.array([-1, 6, 5]),
        last=np.array([2]),
        **weights(W=(4, 6, 1), h=(4,)),
    )
    ops = ["Einsum", "Reshape", "Transpose", "FusedGemm", "Transpose", "ReduceSum"]
    same(model, ops, "size 6 4; step add vector 2; step relu", inputs=cases(x=(3, 5), z=(2, 5))[1:])


def test_places_along_two_axes() -> None:
    model = parse(
        """(float[b,6,2,3] x) => (float[b,4,2,3] y) {
          t = Tanh(x) c = Conv(t, W) a = LeakyRelu <alpha = 0.2> (c) y = Exp(a) }""",
        **weights(W=(4, 6, 1, 1)),
    )
    ops = ["Tanh", "Transpose", "FusedGemm", "Transpose", "Exp"]
    same(model, ops, "size 6 4; step leakyrelu 2.0e-01", inputs=cases(x=(6, 2, 3)))


def test_a_weight_on_the_left_of_a_matrix() -> None:
    model = parse(
        """(float[b,6,3] x) => (float[b,4,3] y) { t = Tanh(x) m = MatMul(W, t) a = Relu(m) y = Exp(a) }""",
        **weights(W=(4, 6)),
    )
    same(model, ["Tanh", "Transpose", "FusedGemm", "Transpose", "Exp"], "size 6 4; step relu", inputs=cases(x=(6, 3)))


CONV = "t = Tanh(x) c = Conv (t, W) y = Exp(c)"


@pytest.mark.parametrize(
    ("nodes", "shape"),
    [
        (CONV, (4, 6, 3)),
        (CONV.replace("Conv", "Conv <pads = [1, 1]>"), (4, 6, 1)),
        (CONV.replace("Conv", "Conv <strides = [2]>"), (4, 6, 1)),
        (CONV.replace("Conv", "Conv <group = 2>"), (4, 3, 1)),
        (CONV, (1, 6, 1)),  # one channel is a sum, which chains take in
        ("c = Conv(x, W) y = Exp(c)", (4, 6, 1)),  # nothing before it that could move channels
        ("t = Tanh(x) y = Conv(t, W)", (4, 6, 1)),  # nor after it
        ("t = Tanh(x) c = Conv(t, W) k = MaxPool <kernel_shape = [1]> (c) y = Exp(k)", (4, 6, 1)),
        ("t = Tanh(x) c = Conv(t, W) k = Exp(c) n = Neg(t) m = ReduceSum(n) y = Add(k, m)", (4, 6, 1)),
    ],
)
def test_what_stays_a_convolution(nodes: str, shape: tuple[int, ...]) -> None:
    model = parse(f"(float[b,6,5] x) => (float[b,o,p] y) {{ {nodes} }}", **weights(W=shape))
    result = fuse(model)
    assert "Conv" in op_types(result.model)
    assert not forms(result)


def test_on_a_cpu_nothing_changes() -> None:
    model = parse(f"(float[b,6,5] x) => (float[b,4,5] y) {{ {CONV} }}", **weights(W=(4, 6, 1)))
    result = optimize(model)
    assert op_types(result.model) == ["Tanh", "Conv", "Exp"]
    agree(model, result, *cases(x=(6, 5)), tolerance=1e-6)
