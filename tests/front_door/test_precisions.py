"""Hazard: a precision that is not written into the file, or that loosens what it doesn't concern."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import dpiframe
from dpiframe.errors import UsageError, VerificationError
from dpiframe.verification import verify


def layer(path: Path) -> Path:
    weight = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w"], ["p"], transB=1), helper.make_node("Relu", ["p"], ["y"])],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8])],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16"])
def test_the_precision_is_in_the_program_and_the_properties(tmp_path: Path, precision: str) -> None:
    original = layer(tmp_path / "model.onnx")
    result = dpiframe.optimize(original, provider="cuda", precision=precision)  # type: ignore[arg-type]
    model = onnx.load(result.output)
    (node,) = model.graph.node
    assert f"\nprecision {precision}\n" in node.attribute[0].s.decode()
    assert {p.key: p.value for p in model.metadata_props}["dpiframe.precision"] == precision


def test_an_unknown_precision_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="precision 'bf16': choose one of fp32, tf32, fp16"):
        dpiframe.optimize(layer(tmp_path / "model.onnx"), precision="bf16")  # type: ignore[arg-type]


def test_what_runs_on_a_cpu_is_held_to_float32(tmp_path: Path) -> None:
    original = layer(tmp_path / "model.onnx")
    optimized = dpiframe.optimize(original, provider="cuda", precision="fp16").output
    model = onnx.load(optimized)
    weight = model.graph.initializer[0]
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) + np.float32(1e-3), weight.name))
    onnx.save(model, optimized)
    with pytest.raises(VerificationError, match="output 'y'"):
        verify(original, optimized, provider="cpu")
