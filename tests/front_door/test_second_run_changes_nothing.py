"""Hazard: a file that needs no work comes out changed; the same input gives another output."""

from __future__ import annotations

from pathlib import Path

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
