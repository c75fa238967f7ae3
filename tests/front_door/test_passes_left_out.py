"""Hazard: a pass that runs although it was left out, or a name that leaves out nothing."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import dpiframe
from dpiframe.errors import UsageError
from dpiframe.graph_passes.pipeline import PASSES
from dpiframe.optimizer import FUSIONS
from tests.front_door.test_precisions import layer


def ops(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def test_every_pass_between_the_first_and_the_last_can_be_left_out() -> None:
    assert tuple(kind.name for kind in PASSES[1:-1]) == FUSIONS


def test_one_pass_is_left_out(model_file: Path) -> None:
    assert "FusedMultiGather" in ops(dpiframe.optimize(model_file).output)
    result = dpiframe.optimize(model_file, without=["fuse_lookups"])
    assert "FusedMultiGather" not in ops(result.output)
    assert "FusedElementwise" in ops(result.output)
    assert [report.name for report in result.reports] == [kind.name for kind in PASSES if kind.name != "fuse_lookups"]


def test_all_are_left_out(tmp_path: Path) -> None:
    original = layer(tmp_path / "model.onnx")
    result = dpiframe.optimize(original, provider="cuda", without=FUSIONS)
    assert not result.fused
    assert result.output.read_bytes() == original.read_bytes()


@pytest.mark.parametrize("name", ["canonicalize", "cleanup", "fuse", ""])
def test_a_name_that_is_none_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=f"without '{name}': choose one of fuse_lookups, fuse_gemm"):
        dpiframe.optimize(layer(tmp_path / "model.onnx"), without=[name])


def test_one_name_for_a_list_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"without 'fuse_lookups': give a list of passes, \['fuse_lookups'\] for one"):
        dpiframe.optimize(layer(tmp_path / "model.onnx"), without="fuse_lookups")
