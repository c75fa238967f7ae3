"""Hazard: a model that cancels large values shows the last bit of what it adds up, and can't be optimized."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import dpiframe
from dpiframe.graph_passes.elementwise import fuse
from tests.front_door.helpers import ctr_model

WIDTH = 300


def cancelling_model(factor: float) -> onnx.ModelProto:
    """Lookups beside the sine of a sum of values of either sign, as large as the factor."""
    model = ctr_model()
    rng = np.random.default_rng(0)
    model.graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDTH]))
    model.graph.output.append(helper.make_tensor_value_info("wave", TensorProto.FLOAT, ["batch", 1]))
    weights = (factor * rng.standard_normal(WIDTH)).astype(np.float32)
    for name, array in (("weights", weights), ("last", np.array([1]))):
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    model.graph.node.extend(
        [
            helper.make_node("Tanh", ["x"], ["small"], name="small"),
            helper.make_node("Mul", ["small", "weights"], ["terms"], name="terms"),
            helper.make_node("Abs", ["terms"], ["curved"], name="curved"),
            helper.make_node("ReduceSum", ["curved", "last"], ["total"], name="total"),
            helper.make_node("Sin", ["total"], ["wave"], name="wave"),
        ]
    )
    return model


def optimized(folder: Path, factor: float) -> dpiframe.OptimizeResult:
    path = folder / "model.onnx"
    onnx.save(cancelling_model(factor), path)
    return dpiframe.optimize(path, provider="cpu")


def programs(path: Path) -> str:
    return "".join(a.s.decode() for n in onnx.load(path).graph.node for a in n.attribute if a.name == "program")


def test_where_they_do_not_show_sums_are_fused(tmp_path: Path, without_latency: None) -> None:
    result = optimized(tmp_path, 0.001)
    assert "sum f32" in programs(result.output)
    assert result.notes == []


def test_where_they_show_only_what_gives_the_same_bits_is_fused(tmp_path: Path, without_latency: None) -> None:
    result = optimized(tmp_path, 30.0)
    assert result.fused
    assert result.lookups_fused == 3
    assert result.verification is not None
    assert result.verification.mismatch is None
    found = programs(result.output)
    assert "mul f32" in found
    assert not any(name in found for name in ("sum f32", "tanh f32", "sin f32"))
    reason = "its last bit can differ, and the answers then differ by more"
    assert set(result.refusals_by_reason()[reason]) >= {"small", "total", "wave"}
    assert len(result.notes) == 1
    assert result.notes[0].startswith("sums and inexact functions are left to ONNX Runtime: a last bit makes case '")

    again = dpiframe.optimize(result.output, tmp_path / "again.onnx", provider="cpu")
    assert not again.fused
    assert (tmp_path / "again.onnx").read_bytes() == result.output.read_bytes()


def test_a_function_that_is_wrong_is_no_rounding(
    tmp_path: Path, without_latency: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program of another function."""
    text = fuse.ElementwiseProgram.__str__
    monkeypatch.setattr(fuse.ElementwiseProgram, "__str__", lambda self: text(self).replace("tanh", "neg"))
    with pytest.raises(dpiframe.VerificationError, match="--without fuse_elementwise"):
        optimized(tmp_path, 30.0)
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]
