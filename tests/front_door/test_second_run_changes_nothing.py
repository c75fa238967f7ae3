"""Hazard: a file that needs no work comes out changed; the same input gives another output."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import dpiframe
from tests.front_door.helpers import ctr_model, model_without_lookups, save_with_external_data

pytestmark = pytest.mark.usefixtures("without_latency")


def test_an_optimized_file_stays_byte_for_byte(model_file: Path) -> None:
    first = dpiframe.optimize(model_file)
    second = dpiframe.optimize(first.output)
    assert first.fused
    assert not second.fused
    assert second.notes == ["this model is already optimized: the output is an unchanged copy"]
    assert second.output.read_bytes() == first.output.read_bytes()


@pytest.mark.parametrize("policy", ["zero", "clamp"])
def test_what_an_optimized_file_has_of_a_policy_stays(model_file: Path, policy: str) -> None:
    """Whoever asks for another policy must hear that the file keeps its own."""
    first = dpiframe.optimize(model_file, bad_ids=policy)  # type: ignore[arg-type]
    for asked in (None, policy):
        assert dpiframe.optimize(first.output, bad_ids=asked).output.read_bytes() == first.output.read_bytes()  # type: ignore[arg-type]
    target = model_file.with_name("other.onnx")
    with pytest.raises(dpiframe.UsageError, match=f"optimized already, with --bad-ids {policy}, .* --bad-ids error"):
        dpiframe.optimize(first.output, target, bad_ids="error")
    assert not target.exists()
    # It is the nodes that have the policy: tools that build models lose metadata.
    model = onnx.load(first.output)
    del model.metadata_props[:]
    onnx.save(model, first.output)
    with pytest.raises(dpiframe.UsageError, match=f"optimized already, with --bad-ids {policy}, .* --bad-ids error"):
        dpiframe.optimize(first.output, target, bad_ids="error")


def test_lookups_that_come_later_have_the_policy_of_those_before(model_file: Path) -> None:
    first = dpiframe.optimize(model_file, bad_ids="zero")
    model = onnx.load(first.output)
    table = onnx.numpy_helper.from_array(np.ones((3, 2), np.float32), "late_table")
    model.graph.initializer.append(table)
    model.graph.input.append(onnx.helper.make_tensor_value_info("late", onnx.TensorProto.INT64, ["late_batch"]))
    model.graph.output.append(onnx.helper.make_tensor_value_info("rows", onnx.TensorProto.FLOAT, ["late_batch", 2]))
    model.graph.node.append(onnx.helper.make_node("Gather", ["late_table", "late"], ["rows"]))
    path = model_file.with_name("more.onnx")
    onnx.save(model, path)
    second = dpiframe.optimize(path)
    assert second.lookups_fused == 1
    assert {entry.key: entry.value for entry in onnx.load(second.output).metadata_props}["dpiframe.bad_ids"] == "zero"
    session = dpiframe.InferenceSession(second.output, ["CPUExecutionProvider"])
    feeds = {value.name: np.zeros([2, *value.shape[1:]], onnx_type(value.type)) for value in session.get_inputs()}
    feeds["late"] = np.array([1, 7])
    np.testing.assert_array_equal(session.run(["rows"], feeds)[0], [[1, 1], [0, 0]])


def onnx_type(name: str) -> type:
    return {"tensor(int64)": np.int64, "tensor(float)": np.float32}[name]


def test_the_same_input_gives_the_same_bytes(tmp_path: Path, model_file: Path) -> None:
    outputs = [dpiframe.optimize(model_file, tmp_path / name).output for name in ("first.onnx", "second.onnx")]
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_a_model_with_nothing_to_fuse_is_copied(tmp_path: Path) -> None:
    model = model_without_lookups()
    # Fields in an order that no library writes: only a copy keeps them so.
    graph = onnx.ModelProto(graph=model.graph).SerializeToString()
    model.ClearField("graph")
    (tmp_path / "plain.onnx").write_bytes(graph + model.SerializeToString())
    result = dpiframe.optimize(tmp_path / "plain.onnx")
    assert result.notes == ["nothing in this model can be fused: the output is an unchanged copy"]
    assert result.output.read_bytes() == (tmp_path / "plain.onnx").read_bytes()


def test_copying_an_optimized_file_elsewhere_brings_its_data(tmp_path: Path) -> None:
    source = dpiframe.optimize(save_with_external_data(ctr_model(), tmp_path / "model.onnx")).output
    (tmp_path / "there").mkdir()
    copy = dpiframe.optimize(source, tmp_path / "there" / "again.onnx", external_data="copy").output
    assert copy.read_bytes() == source.read_bytes()
    assert (tmp_path / "there" / "tables.bin").read_bytes() == (tmp_path / "tables.bin").read_bytes()
