"""Which nodes are products, in which layout, and why others are left alone."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs
import pytest

from dpiframe.graph_passes.canonicalize import Canonicalize
from dpiframe.graph_passes.gemm.product import NotSupportedError, match_product
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import parse, table


def node_of(text: str, **weights: np.ndarray) -> gs.Node:
    """The last node of a model."""
    bench = Workbench(parse(text, **weights))
    Canonicalize()(bench)
    return bench.graph.nodes[-1]


def test_a_gemm_with_a_transposed_weight() -> None:
    product = match_product(
        node_of("(float[b,6] x) => (float[b,4] y) { y = Gemm <transB = 1> (x, W, c) }", W=table(4, 6), c=table(1, 4)[0])
    )
    assert product is not None
    assert (product.layout, product.k, product.n) == ("nk", 6, 4)
    assert product.left.source.name == "x"
    assert product.weight.name == "W"
    assert product.addend is not None
    assert product.addend.name == "c"


def test_a_gemm_as_the_standard_has_it() -> None:
    product = match_product(node_of("(float[b,6] x) => (float[b,4] y) { y = Gemm(x, W) }", W=table(6, 4)))
    assert product is not None
    assert (product.layout, product.k, product.n, product.addend) == ("kn", 6, 4, None)


def test_a_gemm_with_an_empty_addend() -> None:
    product = match_product(
        node_of("(float[b,6] x) => (float[b,4] y) { y = Gemm <beta = 3.0> (x, W, ) }", W=table(6, 4))
    )
    assert product is not None
    assert product.addend is None


@pytest.mark.parametrize("axes", ["b", "b,3", "b,t", "2,b,t"])
def test_a_matmul_of_any_leading_axes(axes: str) -> None:
    product = match_product(
        node_of(f"(float[{axes},6] x) => (float[{axes},4] y) {{ y = MatMul(x, W) }}", W=table(6, 4))
    )
    assert product is not None
    assert (product.layout, product.k, product.n, product.addend) == ("kn", 6, 4, None)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("(float[b,6] x) => (float[b,1] y) { y = MatMul(x, W) }", (6, 1)),
        ("(float[b,6] x) => (float[b,1] y) { y = Gemm <transB = 1> (x, W) }", (1, 6)),
        ("(float[b,1] x) => (float[b,6] y) { y = MatMul(x, W) }", (1, 6)),
        ("(float[b,6] x) => (float[b,6] y) { y = Mul(x, W) }", (1, 6)),
        ("(float[b,6] x) => (float[4,b] y) { t = Transpose(x) y = MatMul(W, t) }", (4, 6)),
    ],
)
def test_what_is_no_such_product(text: str, shape: tuple[int, int]) -> None:
    assert match_product(node_of(text, W=table(*shape))) is None


def test_two_values_are_no_product_with_a_weight() -> None:
    assert match_product(node_of("(float[b,6] x, float[6,4] w) => (float[b,4] y) { y = MatMul(x, w) }")) is None


def test_another_domain_is_another_operator() -> None:
    model = parse(
        "(float[b,6] x) => (float[b,4] y) { y = vendor.MatMul(x, W) }", imports=', "vendor": 1', W=table(6, 4)
    )
    assert match_product(Workbench(model).graph.nodes[-1]) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(float[6,b] x) => (float[b,4] y) { y = Gemm <transA = 1> (x, W) }", "its left operand is transposed"),
        ("(float[b,6] x) => (float[b,4] y) { y = Gemm <alpha = 0.5> (x, W) }", "it scales the product"),
        ("(float[b,6] x) => (float[b,4] y) { y = Gemm <beta = 0.5> (x, W, c) }", "it scales the product"),
        ("(float[6] x) => (float[4] y) { y = MatMul(x, W) }", "the shape of its left operand is unknown"),
    ],
)
def test_products_that_are_left_alone(text: str, reason: str) -> None:
    node = node_of(text, W=table(6, 4), c=table(1, 4)[0])
    with pytest.raises(NotSupportedError, match=reason.replace("(", r"\(")):
        match_product(node)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_types_are_left_alone(dtype: type) -> None:
    kind = {np.float16: "float16", np.float64: "double"}[dtype]
    node = node_of(f"({kind}[b,6] x) => ({kind}[b,4] y) {{ y = MatMul(x, W) }}", W=table(6, 4, dtype))
    with pytest.raises(NotSupportedError, match="not float32"):
        match_product(node)


@pytest.mark.parametrize("shape", [(6, 0), (0, 4)])
def test_empty_weights_are_left_alone(shape: tuple[int, int]) -> None:
    node = node_of(
        f"(float[b,{shape[0]}] x) => (float[b,{shape[1]}] y) {{ y = MatMul(x, W) }}", W=np.zeros(shape, np.float32)
    )
    with pytest.raises(NotSupportedError, match="empty"):
        match_product(node)


def test_a_weight_of_three_axes_is_left_alone() -> None:
    node = node_of("(float[b,6] x) => (float[2,b,4] y) { y = MatMul(x, W) }", W=np.zeros((2, 6, 4), np.float32))
    with pytest.raises(NotSupportedError, match="two axes"):
        match_product(node)


def test_an_unknown_left_shape_is_left_alone() -> None:
    model = parse("(float[b,6] x, int64[n] s) => (float[p,q] y) { r = Reshape(x, s) y = MatMul(r, W) }", W=table(6, 4))
    bench = Workbench(model)
    Canonicalize()(bench)
    with pytest.raises(NotSupportedError, match="unknown"):
        match_product(bench.graph.nodes[-1])


def test_an_unknown_result_shape_is_left_alone() -> None:
    """As where ONNX's inference fails on another node."""
    model = parse("(float[b,6] x) => (float[b,4] y) { p = MatMul(x, W) y = Relu(p) }", W=table(6, 4))
    with pytest.raises(NotSupportedError, match="result is unknown"):
        match_product(Workbench(model).graph.nodes[0])


def test_a_malformed_gemm_is_no_product() -> None:
    model = parse("(float[b,6] x) => (float[b,4] y) { y = Gemm(x) }")
    assert match_product(Workbench(model).graph.nodes[-1]) is None
