"""What may be done to a product's elements as they are made."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs
import pytest

from dpiframe.graph_passes.canonicalize import Canonicalize
from dpiframe.graph_passes.gemm.epilogue import Following, following, operand_kind
from dpiframe.graph_passes.graphs import values_of
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import parse, table


def after(text: str, inputs: str = "", outputs: str = "float[b,4] y", **weights: np.ndarray) -> Following | None:
    """What follows the product p of x and W."""
    model = parse(f"(float[b,6] x{inputs}) => ({outputs}) {{ p = MatMul(x, W) {text} }}", W=table(6, 4), **weights)
    bench = Workbench(model)
    Canonicalize()(bench)
    (product,) = [node for node in bench.graph.nodes if node.op == "MatMul"]
    return following(product.outputs[0], bench.output_ids())


def described(found: Following | None) -> list[tuple[str, str]]:
    assert found is not None
    return [(operation.op, operation.kind) for operation in found.operations]


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("y = Relu(p)", "relu"),
        ("y = Sigmoid(p)", "sigmoid"),
        ("y = Tanh(p)", "tanh"),
        ("y = Gelu(p)", "gelu"),
        ('y = Gelu <approximate = "none"> (p)', "gelu"),
        ("y = LeakyRelu(p)", "leakyrelu"),
    ],
)
def test_activations(text: str, op: str) -> None:
    assert described(after(text)) == [(op, "")]


def test_a_leaky_relu_brings_its_slope() -> None:
    found = after("y = LeakyRelu <alpha = 0.2> (p)")
    assert found is not None
    assert found.operations[0].number == pytest.approx(0.2)
    default = after("y = LeakyRelu(p)")
    assert default is not None
    assert default.operations[0].number == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("float[1] o", "scalar"),
        ("float[1,1] o", "scalar"),
        ("float o", "scalar"),
        ("float[4] o", "vector"),
        ("float[1,4] o", "vector"),
        ("float[b,1] o", "column"),
        ("float[b,4] o", "matrix"),
    ],
)
@pytest.mark.parametrize(
    ("text", "op"), [("Add(p, o)", "add"), ("Add(o, p)", "add"), ("Mul(o, p)", "mul"), ("Sub(p, o)", "sub")]
)
def test_operands_of_every_kind(declared: str, kind: str, text: str, op: str) -> None:
    found = after(f"y = {text}", f", {declared}")
    assert described(found) == [(op, kind)]
    assert found is not None
    assert found.operations[0].operand is not None
    assert found.operations[0].operand.name == "o"


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        ("y = Add(p, o)", "float[c,4] o"),  # broadcasts where c is 1
        ("y = Add(p, o)", "float[2,b,4] o"),
        ("y = Add(p, o)", "float[?,4] o"),
        ("y = Sub(o, p)", "float[b,4] o"),
        ("y = Div(p, o)", "float[b,4] o"),
        ("y = Pow(p, o)", "float[b,4] o"),
        ("y = Max(p, o)", "float[b,4] o"),
        ("y = PRelu(p, o)", "float[b,4] o"),
        ("y = PRelu(o, p)", "float[b,4] o"),
        ("y = MatMul(p, o)", "float[4,4] o"),
        ("y = vendor.Relu(p)", "float[4] o"),
        ("y = Mul(p, p)", "float[4] o"),
        ('y = Gelu <approximate = "tanh"> (p)', "float[4] o"),
    ],
)
def test_what_ends_an_epilogue(text: str, declared: str) -> None:
    model = parse(
        f"(float[b,6] x, {declared}) => (float[b,4] y) {{ p = MatMul(x, W) {text} }}",
        imports=', "vendor": 1',
        W=table(6, 4),
    )
    bench = Workbench(model)
    (product,) = [node for node in bench.graph.nodes if node.outputs[0].name == "p"]
    bench.infer_shapes()
    assert following(product.outputs[0], bench.output_ids()) is None


def test_a_prelu_with_a_slope_a_column() -> None:
    assert described(after("y = PRelu(p, s)", s=table(1, 4)[0])) == [("prelu", "vector")]
    assert described(after("y = PRelu(p, s)", s=table(1, 1)[0])) == [("prelu", "scalar")]


def test_a_value_that_is_needed_itself_ends_the_epilogue() -> None:
    assert after("y = Relu(p)", outputs="float[b,4] p, float[b,4] y") is None
    assert after("y = Relu(p) z = Neg(p)", outputs="float[b,4] y, float[b,4] z") is None


def test_a_value_that_a_branch_reads_too_ends_the_epilogue() -> None:
    text = """(float[b,6] x, bool flag) => (float[b,4] y, float[b,4] z) {
      p = MatMul(x, W)
      y = Relu(p)
      z = If (flag) <then_branch = t () => (float[b,4] u) { u = Neg(p) }, else_branch = e () => (float[b,4] v) { v = Abs(p) }>
    }"""
    bench = Workbench(parse(text, W=table(6, 4)))
    bench.infer_shapes()
    (product,) = [node for node in bench.graph.nodes if node.op == "MatMul"]
    assert following(product.outputs[0], bench.output_ids()) is None


@pytest.mark.parametrize("text", ["s = Sigmoid(p) y = Mul(p, s)", "s = Sigmoid(p) y = Mul(s, p)"])
def test_a_swish(text: str) -> None:
    found = after(text)
    assert described(found) == [("silu", "")]
    assert found is not None
    assert [node.op for node in found.nodes] == ["Sigmoid", "Mul"]
    assert found.result.name == "y"


@pytest.mark.parametrize(
    ("text", "outputs"),
    [
        ("s = Sigmoid(p) y = Mul(p, s)", "float[b,4] y, float[b,4] s"),
        ("s = Sigmoid(p) y = Mul(p, s) z = Neg(s)", "float[b,4] y, float[b,4] z"),
        ("s = Sigmoid(p) y = Add(p, s)", "float[b,4] y"),
        ("s = Tanh(p) y = Mul(p, s)", "float[b,4] y"),
    ],
)
def test_what_is_no_swish(text: str, outputs: str) -> None:
    assert after(text, outputs=outputs) is None


def test_a_batch_normalization_is_a_scale_and_a_shift() -> None:
    draw = np.random.default_rng(0)
    scale, shift, mean = (draw.normal(size=4).astype(np.float32) for _ in range(3))
    variance = draw.uniform(0.1, 2, 4).astype(np.float32)
    found = after("y = BatchNormalization <epsilon = 0.001> (p, s, h, m, v)", s=scale, h=shift, m=mean, v=variance)
    assert described(found) == [("mul", "vector"), ("add", "vector")]
    assert found is not None
    factor, addend = (values_of(operation.operand) for operation in found.operations)
    np.testing.assert_allclose(factor, scale / np.sqrt(variance + 0.001), rtol=1e-6)
    np.testing.assert_allclose(addend, shift - mean * scale / np.sqrt(variance + 0.001), rtol=1e-5, atol=1e-6)


def test_a_batch_normalization_with_values_that_come_in_ends_the_epilogue() -> None:
    assert after("y = BatchNormalization(p, s, s, s, v)", ", float[4] v", s=table(1, 4)[0]) is None


def test_a_batch_normalization_in_training_ends_the_epilogue() -> None:
    text = "y, m, v = BatchNormalization <training_mode = 1> (p, s, s, s, s)"
    assert after(text, s=np.abs(table(1, 4)[0])) is None


def test_an_operand_of_another_type_has_no_kind() -> None:
    value = gs.Variable("v", np.dtype(np.float32), ["b", 4])
    assert operand_kind(value, gs.Variable("o", np.dtype(np.float16), [4])) == ""
    assert operand_kind(value, gs.Variable("o", np.dtype(np.float32), None)) == ""


def test_a_value_of_one_column_takes_scalars_before_vectors() -> None:
    value = gs.Variable("v", np.dtype(np.float32), ["b", 1])
    assert operand_kind(value, gs.Variable("o", np.dtype(np.float32), [1])) == "scalar"
    assert operand_kind(value, gs.Variable("o", np.dtype(np.float32), ["b", 1])) == "matrix"
