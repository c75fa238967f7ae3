"""Einsum nodes that are matrix products, and those that aren't."""

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


def einsum(equation: str, left: str, right: str, result: str) -> onnx.ModelProto:
    return parse(
        f'(float[{left}] x, float[{right}] w) => (float[{result}] y) {{ e = Einsum <equation = "{equation}"> (x, w) y = Relu(e) }}'
    )


@pytest.mark.parametrize("equation", ["ij,jk->ik", "bx,xo->bo", " i j , j k -> i k "])
def test_a_product_of_matrices(equation: str) -> None:
    model = einsum(equation, "b,6", "6,4", "b,4")
    result = canonical(model)
    assert op_types(result) == ["MatMul", "Relu"]
    onnx.checker.check_model(result, full_check=True)
    for batch in (0, 1, 5):
        feed = {"x": table(batch, 6), "w": table(6, 4)}
        same(session(result).run(None, feed)[0], session(model).run(None, feed)[0], 1e-6, equation)


def test_a_product_of_more_rows() -> None:
    model = einsum("bfi,io->bfo", "b,3,6", "6,4", "b,3,4")
    result = canonical(model)
    assert op_types(result) == ["MatMul", "Relu"]
    feed = {"x": np.random.default_rng(0).normal(size=(5, 3, 6)).astype(np.float32), "w": table(6, 4)}
    same(session(result).run(None, feed)[0], session(model).run(None, feed)[0], 1e-6, "rows")


@pytest.mark.parametrize(
    ("equation", "left", "right", "result"),
    [
        ("bik,bjk->bij", "b,3,6", "b,2,6", "b,3,2"),
        ("bhik,bhjk->bhij", "b,2,3,6", "b,2,4,6", "b,2,3,4"),
    ],
)
def test_a_product_of_rows(equation: str, left: str, right: str, result: str) -> None:
    model = einsum(equation, left, right, result)
    after = canonical(model)
    assert op_types(after) == ["Transpose", "MatMul", "Relu"]
    onnx.checker.check_model(after, full_check=True)
    for batch in (1, 5):  # ONNX Runtime's own Einsum of an empty batch ends the process
        shapes = [[batch, *map(int, text.split(",")[1:])] for text in (left, right)]
        rng = np.random.default_rng(batch)
        feed = {name: rng.normal(size=shape).astype(np.float32) for name, shape in zip("xw", shapes, strict=True)}
        same(session(after).run(None, feed)[0], session(model).run(None, feed)[0], 1e-6, equation)


@pytest.mark.parametrize(
    ("equation", "left", "right", "result"),
    [
        ("bik,bjk->bji", "b,3,6", "b,2,6", "b,2,3"),
        ("bik,bjk->bij", "b,3,6", "1,2,6", "b,3,2"),
        ("bik,bjk->bij", "b,3,6", "b,1,6", "b,3,1"),
        ("ij,kj->ik", "b,6", "4,6", "b,4"),
        ("ij,jk->ki", "b,6", "6,4", "4,b"),
        ("ij,jk->i", "b,6", "6,4", "b"),
        ("ij,ij->ij", "b,6", "b,6", "b,6"),
        ("ij,ji->ij", "b,6", "6,b", "b,6"),
        ("ij,jk", "b,6", "6,4", "b,4"),
        ("...j,jk->...k", "b,6", "6,4", "b,4"),
        ("bhd,bmd->bhmd", "b,3,6", "b,2,6", "b,3,2,6"),
        ("bij,bjk->bik", "b,3,6", "b,6,2", "b,3,2"),
        ("ij,jk->ik", "b,6", "6,1", "b,1"),
    ],
)
def test_what_is_no_such_product(equation: str, left: str, right: str, result: str) -> None:
    assert op_types(canonical(einsum(equation, left, right, result))) == ["Einsum", "Relu"]


@pytest.mark.parametrize(("left", "right"), [("b,1", "6,4"), ("b,6", "1,4")])
def test_an_operand_that_is_repeated_along_the_sum(left: str, right: str) -> None:
    """What Einsum allows and MatMul doesn't."""
    model = einsum("ij,jk->ik", left, right, "b,4")
    result = canonical(model)
    assert op_types(result) == ["Einsum", "Relu"]
    feed = {"x": table(5, int(left[-1])), "w": table(int(right[0]), 4)}
    same(session(result).run(None, feed)[0], session(model).run(None, feed)[0], 1e-6, left)


def test_a_sum_over_an_axis_of_unknown_size_is_left() -> None:
    """It may be one on either side."""
    assert op_types(canonical(einsum("ij,jk->ik", "b,n", "6,4", "b,4"))) == ["Einsum", "Relu"]


def test_three_operands_are_left() -> None:
    model = parse(
        '(float[b,6] x, float[6,4] w, float[4,2] v) => (float[b,2] y) { e = Einsum <equation = "ij,jk,kl->il"> (x, w, v) y = Relu(e) }'
    )
    assert op_types(canonical(model)) == ["Einsum", "Relu"]


def test_a_graph_output_keeps_its_name() -> None:
    model = parse('(float[b,6] x, float[6,4] w) => (float[b,4] y) { y = Einsum <equation = "ij,jk->ik"> (x, w) }')
    result = canonical(model)
    assert op_types(result) == ["MatMul"]
    assert [value.name for value in result.graph.output] == ["y"]


def test_another_domain_is_another_operator() -> None:
    model = parse(
        '(float[b,6] x, float[6,4] w) => (float[b,4] y) { y = vendor.Einsum <equation = "ij,jk->ik"> (x, w) }',
        imports=', "vendor": 1',
    )
    assert op_types(canonical(model)) == ["Einsum"]
