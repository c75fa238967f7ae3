"""Hazard: Ctrl-C, a kill or a crash leaves temporary files or processes behind, or half an output."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import dpiframe
from dpiframe import optimizer
from dpiframe.graph_passes import pipeline
from tests.front_door.helpers import ctr_model, fingerprint, save_with_external_data, script

SECONDS = 60


def slow_model() -> onnx.ModelProto:
    """Takes long enough to be interrupted while it is verified: a product of two large matrices behind the click."""
    model = ctr_model()
    head = next(n for n in model.graph.node if n.name == "head")
    at = list(model.graph.node).index(head)
    size = 1500
    square = np.ones((size, size), np.float32)
    model.graph.initializer.append(numpy_helper.from_array(square, "square"))
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0), "zero"))
    nodes = [
        helper.make_node("ReduceSum", ["logit"], ["total"], name="total", keepdims=0),
        helper.make_node("Add", ["square", "total"], ["shifted"], name="shift"),
        helper.make_node("MatMul", ["shifted", "square"], ["product"], name="slow"),
        helper.make_node("ReduceMax", ["product"], ["top"], name="top", keepdims=0),
        helper.make_node("Mul", ["top", "zero"], ["nothing"], name="nothing"),
        helper.make_node("Add", ["logit", "nothing"], ["late"], name="late"),
    ]
    for i, node in enumerate(nodes):
        model.graph.node.insert(at + i, node)
    head.input[0] = "late"
    return model


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "the command did not get there"
        time.sleep(0.01)


def children_of(pid: int) -> list[int]:
    """Linux: the process's own children."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize(("number", "code", "mode"), [(signal.SIGINT, 130, "copy"), (signal.SIGTERM, 143, "reference")])
def test_a_signal_while_verifying(tmp_path: Path, number: signal.Signals, code: int, mode: str) -> None:
    here, there, temporary = (tmp_path / name for name in ("here", "there", "tmp"))
    for folder in (here, there, temporary):
        folder.mkdir()
    save_with_external_data(slow_model(), here / "model.onnx")
    target = here if mode == "reference" else there
    command = [script("optimize"), "here/model.onnx", "-o", str(target / "out.onnx"), "--external-data", mode]
    before = fingerprint(tmp_path)
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # The worker's first answer is written once the original runs: the command is verifying then.
    wait_until(lambda: any((folder / "outputs").exists() for folder in temporary.iterdir()))
    workers = children_of(process.pid)
    assert workers
    # As the terminal does it for Ctrl-C: to the whole group.
    os.killpg(process.pid, number)
    stdout, stderr = process.communicate(timeout=SECONDS)
    assert process.returncode == code
    assert stdout == ""
    assert "Traceback" not in stderr
    assert fingerprint(tmp_path) == before
    assert list(temporary.iterdir()) == []
    wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


@pytest.mark.usefixtures("without_latency")
@pytest.mark.parametrize(
    ("place", "failure"),
    [
        ("rewrite", KeyboardInterrupt),
        ("bring", MemoryError),
        ("prove", KeyboardInterrupt),
        ("prove", RuntimeError),
        ("publish", KeyboardInterrupt),
    ],
)
def test_a_failure_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, failure: type[BaseException]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise failure

    (tmp_path / "there").mkdir()
    model = save_with_external_data(ctr_model(), tmp_path / "model.onnx")
    owner, name = {
        "rewrite": (pipeline, "optimize_model"),
        "prove": (optimizer.Verifier, "run"),
        "bring": (optimizer, "bring"),
        "publish": (optimizer.StagedOutput, "publish"),
    }[place]
    monkeypatch.setattr(owner, name, fail)
    before = fingerprint(tmp_path)
    with pytest.raises(failure):
        dpiframe.optimize(model, tmp_path / "there" / "out.onnx", external_data="copy")
    assert fingerprint(tmp_path) == before
    assert list((tmp_path / "there").iterdir()) == []
