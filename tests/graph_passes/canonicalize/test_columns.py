"""Products of column vectors, and what follows them, on rows."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from dpiframe.graph_passes.canonicalize import Canonicalize
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import op_types, parse, same, session, table


def canonical(model: onnx.ModelProto) -> onnx.ModelProto:
    bench = Workbench(model)
    Canonicalize()(bench)
    return bench.to_model()


def check(model: onnx.ModelProto, ops: list[str], *widths: int) -> onnx.ModelProto:
    """The canonical form has these nodes and gives the same answers."""
    result = canonical(model)
    assert op_types(result) == ops
    onnx.checker.check_model(result, full_check=True)
    assert list(result.graph.output) == list(model.graph.output)
    again = canonical(result)
    assert op_types(again) == ops
    before, after = session(model), session(result)
    names = [value.name for value in model.graph.input]
    for batch in (0, 1, 5):
        feed = {name: table(batch, width, seed=i) for i, (name, width) in enumerate(zip(names, widths, strict=True))}
        for got, want in zip(after.run(None, feed), before.run(None, feed), strict=True):
            same(got, want, 1e-6, f"batch {batch}")
    return result


COLUMN = "axes = Constant <value_ints = [2]> () c = Unsqueeze(x, axes)"


def test_a_product_of_a_column() -> None:
    model = parse(
        f"(float[b,6] x) => (float[b,4] y) {{ {COLUMN} p = MatMul(W, c) f = Squeeze(p, axes) y = Neg(f) }}",
        W=table(4, 6),
    )
    check(model, ["Gemm", "Neg"], 6)


def test_a_reshape_makes_a_column_too() -> None:
    model = parse(
        """(float[b,6] x) => (float[b,4] y) {
          shape = Constant <value_ints = [-1, 6, 1]> () c = Reshape(x, shape) p = MatMul(W, c)
          flat = Constant <value_ints = [-1, 4]> () f = Reshape(p, flat) y = Neg(f) }""",
        W=table(4, 6),
    )
    check(model, ["Gemm", "Neg"], 6)


def test_a_cross_layer_of_columns() -> None:
    model = parse(
        f"""(float[b,6] x) => (float[b,6] y) {{ {COLUMN}
          p = MatMul(W, c) q = Add(p, h) m = Mul(c, q) a = Add(m, c) f = Squeeze(a, axes) y = Neg(f) }}""",
        W=table(6, 6),
        h=table(6, 1),
    )
    result = check(model, ["Gemm", "Add", "Mul", "Add", "Neg"], 6)
    assert [list(t.dims) for t in result.graph.initializer if t.name.startswith("h")] == [[6]]


def test_layers_follow_one_another() -> None:
    layers = "".join(
        f"p{i} = MatMul(W{i}, c{i}) q{i} = Add(p{i}, h{i}) m{i} = Mul(c0, q{i}) c{i + 1} = Add(m{i}, c{i}) "
        for i in range(3)
    )
    weights = {f"W{i}": table(6, 6, seed=i) / 3 for i in range(3)} | {f"h{i}": table(6, 1, seed=i) for i in range(3)}
    model = parse(
        f"(float[b,6] x) => (float[b,6] y) {{ axes = Constant <value_ints = [2]> () c0 = Unsqueeze(x, axes) {layers} f = Squeeze(c3, axes) y = Neg(f) }}",
        **weights,
    )
    check(model, [*["Gemm", "Add", "Mul", "Add"] * 3, "Neg"], 6)


def test_a_low_rank_expert() -> None:
    model = parse(
        f"""(float[b,6] x) => (float[b,6] y) {{ {COLUMN}
          p = MatMul(V, c) q = Tanh(p) r = MatMul(C, q) s = Tanh(r) t = MatMul(U, s) f = Squeeze(t, axes) y = Neg(f) }}""",
        V=table(3, 6),
        C=table(3, 3),
        U=table(6, 3),
    )
    check(model, ["Gemm", "Tanh", "Gemm", "Tanh", "Gemm", "Neg"], 6)


def test_a_column_that_another_operator_gives() -> None:
    """Two experts read what a mixture of experts gave: rows come from that by one view for both."""
    model = parse(
        """(float[b,6] x, float[b,6] z) => (float[b,4] y) {
          axes = Constant <value_ints = [2]> () s = Unsqueeze(x, axes) t = Unsqueeze(z, axes)
          e = Concat <axis = 2> (s, t) c = ReduceMax(e, axes)
          p = MatMul(W, c) q = MatMul(V, c) a = Add(p, q) f = Squeeze(a, axes) y = Neg(f) }""",
        W=table(4, 6),
        V=table(4, 6, seed=1),
    )
    ops = ["Unsqueeze", "Unsqueeze", "Concat", "ReduceMax", "Squeeze", "Gemm", "Gemm", "Add", "Neg"]
    check(model, ops, 6, 6)


def test_constants_of_every_form() -> None:
    model = parse(
        f"""(float[b,6] x) => (float[b,6] y) {{ {COLUMN}
          p = MatMul(W, c) q = Add(p, u) r = Mul(v, q) s = Sub(r, w) t = Div(s, z) f = Squeeze(t, axes) y = Neg(f) }}""",
        W=table(6, 6),
        u=table(6, 1).reshape(1, 6, 1),
        v=np.float32([2]),
        w=np.array(3, np.float32),
        z=np.array([[[4]]], np.float32),
    )
    check(model, ["Gemm", "Add", "Mul", "Sub", "Div", "Neg"], 6)


def test_a_column_that_leaves_the_graph_is_a_view() -> None:
    model = parse(f"(float[b,6] x) => (float[b,4,1] y) {{ {COLUMN} y = MatMul(W, c) }}", W=table(4, 6))
    check(model, ["Gemm", "Unsqueeze"], 6)


@pytest.mark.parametrize(
    ("text", "ops"),
    [
        # columns that come in as such
        ("(float[b,6,1] x) => (float[b,4,1] y) { y = MatMul(W, x) }", ["MatMul"]),
        # not a column
        ("(float[b,6,2] x) => (float[b,4,2] y) { y = MatMul(W, x) }", ["MatMul"]),
        # the other side
        ("(float[b,6] x) => (float[b,4] y) { t = Transpose(W) y = MatMul(x, t) }", ["MatMul"]),
    ],
)
def test_what_is_left_as_it_is(text: str, ops: list[str]) -> None:
    assert op_types(canonical(parse(text, W=table(4, 6)))) == ops


def test_an_operator_that_reads_another_shape_stays() -> None:
    model = parse(
        f"""(float[b,6] x, float[b,3] z) => (float[b,6,3] y) {{ {COLUMN} p = MatMul(W, c)
          one = Constant <value_ints = [1]> () d = Unsqueeze(z, one) y = Add(p, d) }}""",
        W=table(6, 6),
    )
    check(model, ["Unsqueeze", "Gemm", "Unsqueeze", "Add"], 6, 3)


def test_a_constant_along_other_axes_stays() -> None:
    model = parse(
        f"(float[b,6] x) => (float[b,6,4] y) {{ {COLUMN} p = MatMul(W, c) y = Add(p, u) }}",
        W=table(6, 6),
        u=table(1, 4),
    )
    check(model, ["Gemm", "Unsqueeze", "Add"], 6)


def test_an_old_opset_stays() -> None:
    model = parse(
        "(float[b,6] x) => (float[b,4,1] y) { c = Unsqueeze <axes = [2]> (x) y = MatMul(W, c) }",
        opset=12,
        W=table(4, 6),
    )
    assert op_types(canonical(model)) == ["Unsqueeze", "MatMul"]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_stay_what_runtimes_multiply(dtype: str) -> None:
    model = parse(
        f"({dtype}[b,6] x) => ({dtype}[b,4] y) {{ {COLUMN} p = MatMul(W, c) f = Squeeze(p, axes) y = Neg(f) }}",
        W=np.arange(24, dtype=dtype).reshape(4, 6),
    )
    result = canonical(model)
    assert op_types(result) == ["Unsqueeze", "MatMul", "Squeeze", "Neg"]
    feed = {"x": np.arange(-6, 6, dtype=dtype).reshape(2, 6)}
    same(session(result).run(None, feed)[0], session(model).run(None, feed)[0], 0, "integers")


def test_weights_are_not_copied() -> None:
    model = parse(
        f"(float[b,6] x) => (float[b,4] y) {{ {COLUMN} p = MatMul(W, c) f = Squeeze(p, axes) y = Neg(f) }}",
        W=table(4, 6),
    )
    assert [(t.name, list(t.dims)) for t in canonical(model).graph.initializer if len(t.dims) == 2] == [("W", [4, 6])]


def test_the_change_is_told() -> None:
    bench = Workbench(
        parse(f"(float[b,6] x) => (float[b,4,1] y) {{ {COLUMN} p = MatMul(W, c) y = Relu(p) }}", W=table(4, 6))
    )
    report = Canonicalize()(bench)
    assert any("1 products of columns are products of rows" in change for change in report.changes)
