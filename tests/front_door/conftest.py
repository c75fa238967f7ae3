"""A small model's file, and the commands as a user starts them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from dpiframe.verification import Verifier
from tests.front_door.helpers import Finished, ctr_model, script


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(ctr_model(), path)
    return path


@pytest.fixture
def without_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests in which nothing depends on the latency: leaves out measuring it in this process's own calls."""
    monkeypatch.setattr(Verifier, "_measure", lambda *_: None)


@pytest.fixture
def run_command(tmp_path: Path) -> Callable[..., Finished]:
    """Run a console script ("optimize" or "dpiframe") with arguments, in the test's folder."""

    def run(name: str, *arguments: str | Path) -> Finished:
        command = [script(name), *map(str, arguments)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        return Finished(done.returncode, done.stdout, done.stderr)

    return run
