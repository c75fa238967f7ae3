"""Hazard: nodes that work on another axis, or in another order, once the batch is in front; nodes that are computed
twice."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from dpiframe.graph_passes.canonicalize.batch_first import put_batch_first
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import (
    FP32_TOLERANCE,
    agree,
    changes,
    op_types,
    optimize,
    parse,
    same,
    session,
    table,
)

MOVED = "nodes compute with the batch in front"
AWAY = "Transpose <perm = [1, 0, 2]>"


def check(model: onnx.ModelProto) -> list[str]:
    """The operators that are left by this step alone, after what they give was compared."""
    bench = Workbench(model)
    bench.infer_shapes()
    assert put_batch_first(bench, [])
    bench.tidy()
    bench.infer_shapes()
    assert not put_batch_first(bench, [])
    result = bench.to_model()
    onnx.checker.check_model(result, full_check=True)
    for batch in (1, 2, 5):
        x = np.random.default_rng(batch).standard_normal((batch, 3, 4)).astype(np.float32)
        for got, want in zip(session(result).run(None, {"x": x}), session(model).run(None, {"x": x}), strict=True):
            same(got, want, FP32_TOLERANCE, f"batch {batch}")
    return op_types(result)


def on_rows(steps: str, shape: str = "b,3,4", **constants: np.ndarray) -> onnx.ModelProto:
    """Steps from t [3, b, 4] to u, which is turned back."""
    return parse(
        f"(float[b,3,4] x) => (float[{shape}] y) {{ t = {AWAY} (x) {steps} v = {AWAY} (u) y = Neg (v) }}", **constants
    )


ATTENTION = f"""(float[b,3,4] x) => (float[b,3,4] y) {{
    t = {AWAY} (x)
    qkv = MatMul (t, w)  biased = Add (qkv, v)
    parts = Reshape (biased, in_three)  first = Unsqueeze (parts, zero)
    turned = Transpose <perm = [3, 1, 2, 0, 4]> (first)  three = Squeeze (turned, three_axis)
    q = Gather <axis = 0> (three, i0)  k = Gather <axis = 0> (three, i1)  o = Gather <axis = 0> (three, i2)
    qh = Reshape (q, heads)  qt = Transpose <perm = [1, 0, 2]> (qh)
    kh = Reshape (k, heads)  kt = Transpose <perm = [1, 2, 0]> (kh)
    oh = Reshape (o, heads)  ot = Transpose <perm = [1, 0, 2]> (oh)
    scaled = Mul (qt, scale)  scores = MatMul (scaled, kt)  masked = Add (scores, mask)
    weights = Softmax <axis = -1> (masked)  mixed = MatMul (weights, ot)
    back = {AWAY} (mixed)  flat = Reshape (back, in_one)
    out = Gemm <transB = 1> (flat, wo, vo)  lines = Reshape (out, in_lines)
    added = Add (lines, t)  n = LayerNormalization (added, g, h)
    r = Relu (n)  u = {AWAY} (r)  y = Neg (u) }}"""


def attention(**changed: np.ndarray) -> onnx.ModelProto:
    constants = {
        "w": table(4, 12), "v": table(12, 1)[:, 0], "in_three": np.array([3, -1, 3, 4]), "zero": np.array([0]),
        "three_axis": np.array([-2]), "i0": np.array(0), "i1": np.array(1), "i2": np.array(2),
        "heads": np.array([3, -1, 2]), "scale": np.array(0.7, np.float32), "mask": table(3, 3),
        "in_one": np.array([-1, 4]), "wo": table(4, 4), "vo": table(4, 1)[:, 0], "in_lines": np.array([3, -1, 4]),
        "g": table(4, 1)[:, 0], "h": table(4, 1, seed=2)[:, 0],
    }  # fmt: skip
    return parse(ATTENTION, **(constants | changed))


def test_attention_with_the_sequence_in_front() -> None:
    left = check(attention())
    assert left.count("MatMul") == 4
    assert not {"Gemm", "Unsqueeze", "Squeeze"} & set(left)
    # to each head and back, and the keys turned
    assert left.count("Transpose") == 4


def test_attention_among_the_other_steps() -> None:
    model = attention()
    result = optimize(model)
    assert MOVED in "".join(changes(result))
    x = table(5, 12).reshape(5, 3, 4)
    agree(model, result, {"x": x}, {"x": x[:1]}, tolerance=FP32_TOLERANCE)


@pytest.mark.parametrize(
    ("steps", "constants"),
    [
        ("u = Tanh (t)", {}),
        ("u = Mul (t, c)", {"c": np.arange(12, dtype=np.float32).reshape(3, 1, 4)}),
        ("u = Sub (c, t)", {"c": np.arange(3, dtype=np.float32).reshape(3, 1, 1)}),
        ("u = Add (t, c)", {"c": np.arange(4, dtype=np.float32)}),
        ("u = Add (t, c)", {"c": np.ones((1, 1, 1), np.float32)}),
        ("a = Relu (t) u = Add (a, t)", {}),
        ("u = Softmax <axis = 0> (t)", {}),
        ("u = Softmax <axis = 2> (t)", {}),
        ("u = Gather <axis = 0> (t, c)", {"c": np.array([2, 0, 1])}),
        ("u = Gather <axis = -1> (t, c)", {"c": np.array([3, 0, -3, 1])}),
        ("u = MatMul (t, c)", {"c": table(4, 4)}),
        ("s = Unsqueeze (t, c) u = Squeeze (s, c)", {"c": np.array([0])}),
        ("p = Transpose <perm = [2, 1, 0]> (t) a = Abs (p) u = Transpose <perm = [2, 1, 0]> (a)", {}),
    ],
)
def test_single_operators(steps: str, constants: dict[str, np.ndarray]) -> None:
    assert "Transpose" not in check(on_rows(steps, **constants))


def test_rows_picked_from_axes_that_were_put_together() -> None:
    model = parse(
        """(float[b,3,4] x) => (float[b,3] y) {
            t = Transpose <perm = [1, 2, 0]> (x)  f = Reshape (t, flat)  p = Gather <axis = 0> (f, c)
            a = Abs (p)  u = Transpose <perm = [1, 0]> (a)  y = Neg (u) }""",
        flat=np.array([12, -1]),
        c=np.array([11, 0, 5]),
    )
    assert "Transpose" not in check(model)


def test_what_something_else_reads_stays() -> None:
    model = on_rows("a = Exp (t) u = Softmax <axis = 0> (a)")
    model.graph.output.append(onnx.helper.make_tensor_value_info("a", 1, [3, "b", 4]))
    assert MOVED not in "".join(changes(optimize(model)))


def test_a_region_is_moved_though_another_one_stays() -> None:
    model = parse(
        f"""(float[b,3,4] x) => (float[b,3,4] y, float[3,b,4] z) {{
            t = {AWAY} (x)  u = Softmax <axis = 0> (t)  v = {AWAY} (u)  y = Neg (v)
            a = Relu (x)  s = {AWAY} (a)  z = CumSum (s, c) }}""",
        c=np.array(0),
    )
    result = optimize(model)
    assert sorted(op_types(result.model)) == sorted(["Softmax", "Neg", "Relu", "Transpose", "CumSum"])
    agree(model, result, {"x": table(5, 12).reshape(5, 3, 4)}, tolerance=FP32_TOLERANCE)


def test_products_whose_outer_axes_differ_stay() -> None:
    model = parse(
        f"""(float[b,4,4] x) => (float[b,4,4] y) {{
            t = {AWAY} (x)  s = Transpose <perm = [1, 2, 0]> (x)
            p = MatMul (t, s)  u = {AWAY} (p)  y = Neg (u) }}"""
    )
    result = optimize(model)
    assert MOVED not in "".join(changes(result))
    agree(model, result, {"x": table(4, 16).reshape(4, 4, 4)}, tolerance=FP32_TOLERANCE)


@pytest.mark.parametrize("shape", [(3, 1, 4), (1, 1, 4), (3, 4)])
def test_a_normalization_whose_weights_have_more_axes_stays(shape: tuple[int, ...]) -> None:
    """They would meet other axes once the batch is in front."""
    model = on_rows("u = LayerNormalization (t, g)", g=np.ones(shape, np.float32))
    bench = Workbench(model)
    bench.infer_shapes()
    assert not put_batch_first(bench, [])
