"""Hazard: the command on a machine with a GPU: what it takes for granted there, compares and says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

pytest.importorskip("onnx_graphsurgeon")
pytest.importorskip("typer")

import dpiframe
from tests.front_door.helpers import TABLE_ROWS, ctr_model


def command(*arguments: str | Path) -> dict[str, object]:
    start = "from dpiframe.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", start, *map(str, arguments), "--json"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr + done.stdout
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def test_auto_is_cuda_and_its_kernels_are_compared(tmp_path: Path) -> None:
    original = tmp_path / "model.onnx"
    onnx.save(ctr_model(), original)
    answer = command("optimize", original)
    assert answer["provider"] == "cuda"
    assert answer["fused"] is True
    assert "not run" not in json.dumps(answer["notes"])
    checked = command("verify", original, str(answer["output"]))
    assert checked["ok"] is True

    session = dpiframe.InferenceSession(str(answer["output"]), ["CUDAExecutionProvider"])
    plain = ort.InferenceSession(original, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    for rows in (1, 300):
        feeds = {
            "ids": rng.integers(0, TABLE_ROWS, (rows, len(TABLE_ROWS))),
            "dense": rng.standard_normal((rows, 3)).astype(np.float32),
        }
        assert np.abs(session.run(None, feeds)[0] - plain.run(None, feeds)[0]).max() <= 1e-6
    assert dpiframe.bad_ids(session) == []


def test_a_file_for_a_cpu_is_still_made_there(tmp_path: Path) -> None:
    original = tmp_path / "model.onnx"
    onnx.save(ctr_model(), original)
    answer = command("optimize", original, "--provider", "cpu")
    assert answer["provider"] == "cpu"
    operators = {node.op_type for node in onnx.load(str(answer["output"])).graph.node}
    assert not operators & {"FusedGemm", "ParallelRegion"}
