"""Hazard: a FusedGemm node in a session that takes what it should refuse, or refuses what it should take."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

from tests.custom_ops import gemm, models

STEPS = ["add vector 2", "mul matrix 3", "add matrix 4"]


@pytest.mark.parametrize("layout", ["nk", "kn"])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("batch", [0, 1, 3, 100])
def test_batches(layout: str, constant: bool, batch: int) -> None:
    case = gemm.random_case(batch, 30, 30, STEPS, layout)
    session = models.session(gemm.gemm_model(case, constant), threads=2)
    (y,) = session.run(None, gemm.feeds(case, constant))
    np.testing.assert_allclose(y, case.expected(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16"])
def test_every_precision_is_float32_here(precision: str) -> None:
    case = gemm.random_case(10, 30, 40, precision=precision)
    (y,) = models.session(gemm.gemm_model(case)).run(None, gemm.feeds(case))
    np.testing.assert_allclose(y, case.expected(), rtol=1e-5, atol=1e-5)


def test_leading_axes() -> None:
    case = gemm.random_case(12, 5, 7, ["add vector 2"])
    expected = case.expected().reshape(3, 4, 5)
    case.a = case.a.reshape(3, 4, 7)
    session = models.session(gemm.gemm_model(case))
    np.testing.assert_allclose(session.run(None, gemm.feeds(case))[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axes", [(2, 3), (1, 6), (3, 1, 2)])
def test_several_axes_of_a_make_up_k(axes: tuple[int, ...]) -> None:
    case = gemm.random_case(10, 5, 6, ["add vector 2"])
    expected = case.expected().reshape(2, 5, 5)
    model = gemm.gemm_model(case)
    attribute = model.graph.node[0].attribute[0]
    attribute.s = attribute.s.replace(b"\nstep", f"\nleft {len(axes)}\nstep".encode(), 1)
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, [None] * (2 + len(axes))))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    session = models.session(model)
    assert len(session.get_outputs()[0].shape) == 3
    case.a = case.a.reshape(2, 5, *axes)
    np.testing.assert_allclose(session.run(None, gemm.feeds(case))[0], expected, rtol=1e-5, atol=1e-5)
    case.a = case.a[..., : axes[-1] - 1]
    with pytest.raises(Exception, match=f"its last {len(axes)} axes are 6"):
        session.run(None, gemm.feeds(case))


@pytest.mark.parametrize("layout", ["nk", "kn"])
def test_runs_of_columns_multiply_parts_of_a_row(layout: str) -> None:
    case = gemm.random_runs(10, 5, 6, [12, 0, 3], 20, ["add vector 2", "mul matrix 3"], layout)
    session = models.session(gemm.gemm_model(case))
    np.testing.assert_allclose(session.run(None, gemm.feeds(case))[0], case.expected(), rtol=1e-5, atol=1e-5)
    case.a = case.a[:, 1:].copy()
    model = gemm.gemm_model(case)
    program = model.graph.node[0].attribute[0]
    program.s = program.s.replace(b"runs 19", b"runs 20")
    with pytest.raises(Exception, match=r"input 'a' has shape \[10, 19\], but .* its last axis is 20"):
        models.session(model).run(None, gemm.feeds(case))


def test_the_body_is_what_runs_without_the_library() -> None:
    """The same file, with and without the library: the node's function body is standard nodes."""
    case = gemm.random_case(20, 16, 16, [*STEPS, "relu"])
    model = gemm.gemm_model(case)
    body = [
        helper.make_node("Gemm", ["a", "w", "o0"], ["p"], transB=1),
        helper.make_node("Mul", ["p", "o1"], ["q"]),
        helper.make_node("Add", ["q", "o2"], ["r"]),
        helper.make_node("Relu", ["r"], ["y"]),
    ]
    function = helper.make_function(
        "dpiframe", "FusedGemm", ["a", "w", "o0", "o1", "o2"], ["y"], body, [helper.make_opsetid("", 20)], ["program"]
    )
    model.functions.append(function)
    onnx.checker.check_model(model, full_check=True)
    plain = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    fused = models.session(model)
    fed = gemm.feeds(case)
    np.testing.assert_allclose(fused.run(None, fed)[0], plain.run(None, fed)[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(fused.run(None, fed)[0], case.expected(), rtol=1e-5, atol=1e-5)


def test_the_shape_of_the_result_is_inferred() -> None:
    """An If around nodes without a known rank fails; a Reshape by constant shapes checks its input's size."""
    case = gemm.random_case(6, 4, 5)
    node = gemm.gemm_node(case.program, ["a", "w"])
    nodes = [node, helper.make_node("Shape", ["y"], ["shape"])]
    model = models.model_of(
        nodes,
        [models.value("a", "float32", ["B", 5])],
        [models.value("shape", "int64", [2])],
        {"w": case.weight},
    )
    assert models.session(model).run(None, {"a": case.a})[0].tolist() == [6, 4]


def test_other_names_of_the_pool() -> None:
    case = gemm.random_case(3, 4, 5)
    for op in ("FusedGemm_1", "FusedGemm_63"):
        model = gemm.gemm_model(case)
        model.graph.node[0].op_type = op
        (y,) = models.session(model).run(None, gemm.feeds(case))
        np.testing.assert_allclose(y, case.expected(), rtol=1e-5, atol=1e-5)


def failing(model: onnx.ModelProto) -> str:
    with pytest.raises(Exception, match="FusedGemm node 'gemm'") as error:
        models.session(model)
    return str(error.value)


def test_what_a_node_may_not_say() -> None:
    case = gemm.random_case(3, 4, 5, ["add vector 2"])
    model = gemm.gemm_model(case)
    model.graph.node[0].attribute[0].s = b"gemm 1\nprecision fp32\nweight nk\nsize 5 four\n"
    assert "FusedGemm node 'gemm': attribute 'program', line 4, field 3 (N)" in failing(model)
    model = gemm.gemm_model(case)
    del model.graph.node[0].input[2]
    assert "FusedGemm node 'gemm': has 2 inputs, but its program needs 3" in failing(model)
    model = gemm.gemm_model(case)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(case.weight.T.copy(), "w"))
    assert "input 'w' has shape [5, 4], but the program says [4, 5]" in failing(model)
    model = gemm.gemm_model(case)
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(case.operands[0].astype(np.float64), "o0"))
    assert "input 'o0' is not float32" in failing(model)


def test_what_a_call_may_not_bring() -> None:
    case = gemm.random_case(3, 4, 5, ["mul matrix 2"])
    session = models.session(gemm.gemm_model(case, batch="B"))
    with pytest.raises(Exception, match=r"input 'o0' has shape \[2, 4\], but as a matrix needs 12 elements"):
        session.run(None, {"a": case.a, "o0": case.operands[0][:2]})
    model = gemm.gemm_model(case)
    model.graph.input[0].CopyFrom(models.value("a", "float32", None))
    with pytest.raises(Exception, match=r"input 'a' has shape \[3, 4\], but .* its last axis is 5"):
        models.session(model).run(None, {"a": case.a[:, :4].copy(), "o0": case.operands[0]})


def test_the_precision_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    case = gemm.random_case(3, 4, 5)
    monkeypatch.setenv("DPIFRAME_PRECISION", "tf32")
    models.session(gemm.gemm_model(case))
    monkeypatch.setenv("DPIFRAME_PRECISION", "bf16")
    assert 'DPIFRAME_PRECISION is "bf16": fp32, tf32 or fp16' in failing(gemm.gemm_model(case))
