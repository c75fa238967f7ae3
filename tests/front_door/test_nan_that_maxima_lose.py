"""Hazard: ONNX Runtime's ReduceMax and ReduceMin lose NaN at some places of a row, and a fused one keeps them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import dpiframe
from dpiframe.graph_passes.elementwise import fuse
from tests.front_door.helpers import ctr_model

DENSE = 13
NOTE = "ReduceMax and ReduceMin are left to ONNX Runtime, which loses NaN in them: a NaN kept makes case 'NaN"
REASON = "ONNX Runtime's own loses NaN, and the answers then differ"


def model_with(op: str, *, first: str = "row_0") -> onnx.ModelProto:
    """Lookups beside the extreme value of a row of `first`, then arithmetic of dense values."""
    model = ctr_model()
    model.graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", DENSE]))
    model.graph.output.append(helper.make_tensor_value_info("extreme", TensorProto.FLOAT, ["batch", 1]))
    model.graph.initializer.append(numpy_helper.from_array(np.array([1]), "last"))
    model.graph.node.extend(
        [
            helper.make_node("Tanh", ["x"], ["small"], name="small"),
            helper.make_node("Mul", ["small", "x"], ["curved"], name="curved"),
            helper.make_node("Concat", [first, "curved"], ["long"], name="long", axis=1),
            helper.make_node(op, ["long", "last"], ["most"], name="most"),
            helper.make_node("Mul", ["most", "most"], ["extreme"], name="square"),
        ]
    )
    return model


def optimized(folder: Path, model: onnx.ModelProto) -> dpiframe.OptimizeResult:
    onnx.save(model, folder / "model.onnx")
    return dpiframe.optimize(folder / "model.onnx", provider="cpu")


def programs(path: Path) -> str:
    return "".join(a.s.decode() for n in onnx.load(path).graph.node for a in n.attribute if a.name == "program")


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_onnx_runtime_loses_them(op: str) -> None:
    """What docs/verification.md says of it; where this fails, nothing is left alone any more."""
    text = f"(float[b,n] x) => (float[b,1] y) <int64[1] axis = {{1}}> {{ y = {op}(x, axis) }}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 20]> g {text}')
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    row = np.arange(DENSE, dtype=np.float32)
    first, last = row.copy(), row.copy()
    first[0] = last[-1] = np.nan
    answers = session.run(None, {"x": np.stack([first, last])})[0]
    assert np.isnan(answers[0])
    assert not np.isnan(answers[1])


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_the_one_node_is_left_alone(op: str, tmp_path: Path, without_latency: None) -> None:
    result = optimized(tmp_path, model_with(op))
    assert result.verification is not None
    assert result.verification.mismatch is None
    assert result.lookups_fused == 3
    assert result.refusals_by_reason()[REASON] == ["most"]
    assert len(result.notes) == 1
    assert result.notes[0].startswith(NOTE)
    assert "tanh f32" in programs(result.output)
    assert [node.op_type for node in onnx.load(result.output).graph.node].count(op) == 1

    again = dpiframe.optimize(result.output, tmp_path / "again.onnx", provider="cpu")
    assert not again.fused
    assert (tmp_path / "again.onnx").read_bytes() == result.output.read_bytes()


def test_where_none_is_lost_it_is_fused(tmp_path: Path, without_latency: None) -> None:
    """NaN comes first in the row."""
    result = optimized(tmp_path, model_with("ReduceMax", first="x"))
    assert "max f32" in programs(result.output)
    assert result.notes == []


def test_nan_of_another_cause_is_an_error(
    tmp_path: Path, without_latency: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program of a function that gives NaN for half of all numbers."""
    text = fuse.ElementwiseProgram.__str__
    monkeypatch.setattr(fuse.ElementwiseProgram, "__str__", lambda self: text(self).replace("tanh", "log"))
    with pytest.raises(dpiframe.VerificationError, match="--without fuse_elementwise"):
        optimized(tmp_path, model_with("ReduceMax", first="x"))
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]
