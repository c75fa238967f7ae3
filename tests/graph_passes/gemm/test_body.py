"""The body alone: standard nodes of any opset that compute what the program says."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest

from dpiframe.graph_passes.gemm.body import MIN_OPSET, OUTPUT, body_inputs, gemm_body
from dpiframe.graph_passes.gemm.program import GemmProgram, Step
from tests.graph_passes.harness import op_types, session

K, N = 6, 4
VALUES = np.random.default_rng(0)
A = VALUES.normal(size=(5, K)).astype(np.float32)
W = VALUES.normal(size=(N, K)).astype(np.float32)
OPERANDS = {
    "scalar": VALUES.normal(size=(1,)).astype(np.float32),
    "vector": VALUES.normal(size=(N,)).astype(np.float32),
    "column": VALUES.normal(size=(5, 1)).astype(np.float32),
    "matrix": VALUES.normal(size=(5, N)).astype(np.float32),
}


def run(program: GemmProgram, left: np.ndarray, weight: np.ndarray, opset: int, *operands: np.ndarray) -> np.ndarray:
    nodes = gemm_body(program, left.ndim)
    feed = dict(zip(body_inputs(program), (left, weight, *operands), strict=True))
    declared = [onnx.helper.make_tensor_value_info(name, 1, array.shape) for name, array in feed.items()]
    output = onnx.helper.make_tensor_value_info(OUTPUT, 1, [None] * (left.ndim - program.left_axes + 1))
    graph = onnx.helper.make_graph(nodes, "body", declared, [output])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return np.asarray(session(model).run(None, feed)[0])


def activated(op: str, y: np.ndarray) -> np.ndarray:
    y = y.astype(np.float64)
    match op:
        case "relu":
            return np.maximum(y, 0)
        case "sigmoid":
            return 1 / (1 + np.exp(-y))
        case "tanh":
            return np.tanh(y)
        case "silu":
            return y / (1 + np.exp(-y))
        case "gelu":
            return y * (1 + np.vectorize(math.erf)(y / math.sqrt(2))) / 2
        case "leakyrelu":
            return np.where(y < 0, np.float32(0.2) * y, y)
    raise AssertionError(op)


@pytest.mark.parametrize("opset", [MIN_OPSET, 15, 20, 23])
@pytest.mark.parametrize("op", ["relu", "sigmoid", "tanh", "silu", "gelu", "leakyrelu"])
def test_activations_at_every_opset(op: str, opset: int) -> None:
    step = Step(op, number=0.2 if op == "leakyrelu" else None)
    got = run(GemmProgram("fp32", "nk", K, N, (step,)), A, W, opset)
    np.testing.assert_allclose(got, activated(op, A @ W.T), atol=2e-6)


@pytest.mark.parametrize("kind", sorted(OPERANDS))
@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_operands_of_every_kind(op: str, kind: str) -> None:
    operand = OPERANDS[kind]
    got = run(GemmProgram("fp32", "nk", K, N, (Step(op, kind, 2),)), A, W, MIN_OPSET, operand)
    wanted = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[op](A @ W.T, operand)
    np.testing.assert_allclose(got, wanted, atol=2e-6)


@pytest.mark.parametrize("kind", ["scalar", "vector"])
def test_a_prelu(kind: str) -> None:
    got = run(GemmProgram("fp32", "nk", K, N, (Step("prelu", kind, 2),)), A, W, MIN_OPSET, OPERANDS[kind])
    y = A @ W.T
    np.testing.assert_allclose(got, np.where(y < 0, y * OPERANDS[kind], y), atol=2e-6)


@pytest.mark.parametrize("layout", ["nk", "kn"])
@pytest.mark.parametrize("axes", [(5,), (2, 3), (2, 1, 3)])
def test_layouts_and_leading_axes(layout: str, axes: tuple[int, ...]) -> None:
    left = np.random.default_rng(1).normal(size=(*axes, K)).astype(np.float32)
    program = GemmProgram("fp32", layout, K, N, (Step("add", "vector", 2),))
    got = run(program, left, W if layout == "nk" else np.ascontiguousarray(W.T), MIN_OPSET, OPERANDS["vector"])
    np.testing.assert_allclose(got, left @ W.T + OPERANDS["vector"], atol=2e-6)


@pytest.mark.parametrize("layout", ["nk", "kn"])
@pytest.mark.parametrize("axes", [(5,), (2, 3), (0,)])
@pytest.mark.parametrize("begins", [(3,), (0, 6), (8, 0, 3)])
@pytest.mark.parametrize("left", [1, 2])
def test_runs_of_columns(layout: str, axes: tuple[int, ...], begins: tuple[int, ...], left: int) -> None:
    random = np.random.default_rng(1)
    x = random.normal(size=(*axes, 14)).astype(np.float32)
    weights = random.normal(size=(len(begins), N, K)).astype(np.float32)
    bias = random.normal(size=N * len(begins)).astype(np.float32)
    w = weights.reshape(-1, K) if layout == "nk" else np.ascontiguousarray(weights.reshape(-1, K).T)
    program = GemmProgram("fp32", layout, K, N * len(begins), (Step("add", "vector", 2),), left, 14, begins)
    got = run(program, x if left == 1 else x.reshape(*axes, 7, 2), w, MIN_OPSET, bias)
    parts = [x[..., begin : begin + K] @ weight.T for begin, weight in zip(begins, weights, strict=True)]
    np.testing.assert_allclose(got, np.concatenate(parts, axis=-1) + bias, atol=4e-6)
    assert str(program).splitlines()[4 if left == 1 else 5] == f"runs 14 {' '.join(map(str, begins))}"


def test_a_bias_is_the_gemms_own() -> None:
    steps = (Step("add", "vector", 2), Step("relu"))
    model = onnx.helper.make_model(
        onnx.helper.make_graph(gemm_body(GemmProgram("fp32", "nk", K, N, steps), 2), "g", [], [])
    )
    assert op_types(model) == ["Gemm", "Relu"]


def test_a_program_reads_as_the_document_has_it() -> None:
    steps = (Step("add", "vector", 2), Step("leakyrelu", number=0.01), Step("mul", "matrix", 3))
    assert str(GemmProgram("tf32", "kn", 624, 256, steps)) == (
        "gemm 1\nprecision tf32\nweight kn\nsize 624 256\nstep add vector 2\nstep leakyrelu 1.0e-02\nstep mul matrix 3\n"
    )
