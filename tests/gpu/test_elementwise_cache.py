"""Hazards of compiling while a session is created: a damaged cache, none at all, and a machine without NVRTC."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
import numpy as np
from tests.custom_ops import elementwise_reference
from tests.gpu.device import kernels, whole_session
from tests.gpu.elementwise import CudaProgram, elementwise_model, feeds
from tests.gpu.test_elementwise_sizes import norm

text = norm(48)
random = np.random.default_rng(0)
inputs = [random.standard_normal((9, 48)).astype(np.float32), random.standard_normal(48).astype(np.float32)]
session = whole_session(elementwise_model(text))
for _ in range(2):
    elementwise_reference.compare(text, inputs, session.run(None, feeds(inputs)))
print("-- the tests' own kernels", file=sys.stderr)
print("compiled" if kernels().CudaElementwise(text).is_compiled else "interpreted")
"""


def run(**environment: str) -> tuple[str, str]:
    """What a process of its own printed, and what it said on stderr."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def entries(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_damaged_entries_are_compiled_anew(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert run(DPIFRAME_CACHE_DIR=str(folder))[0] == "compiled"
    whole = entries(folder)
    assert len(whole) == 2  # with and without accesses of several elements
    for damage in (lambda b: b"", lambda b: b[: len(b) // 2], lambda b: b[:-100] + bytes(100)):
        for name, content in whole.items():
            (folder / name).write_bytes(damage(content))
        assert run(DPIFRAME_CACHE_DIR=str(folder))[0] == "compiled"
        assert entries(folder) == whole


def test_many_processes_share_a_folder(tmp_path: Path) -> None:
    environment = {**os.environ, "DPIFRAME_CACHE_DIR": str(tmp_path)}
    processes = [
        subprocess.Popen([sys.executable, "-P", "-c", SCRIPT], env=environment, stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    assert [process.communicate()[0].strip() for process in processes] == [b"compiled"] * 4
    assert len(entries(tmp_path)) == 2


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run(DPIFRAME_CACHE_DIR=str(tmp_path / "file" / "cache"))[0] == "compiled"
    assert run(DPIFRAME_CACHE_DIR="", HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))[0] == "compiled"
    assert list(tmp_path.rglob("*dpiframe*")) == []


def test_without_nvrtc_nodes_run_and_it_is_said_once(tmp_path: Path) -> None:
    for name in ("", "/nowhere/libnvrtc.so"):
        printed, said = run(DPIFRAME_NVRTC=name, DPIFRAME_CACHE_DIR=str(tmp_path))
        assert printed == "interpreted"
        # The tests' kernels are a second library, which says it for itself.
        by_session = said.partition("-- the tests' own kernels")[0]
        assert by_session.count("pip install nvidia-cuda-nvrtc") == 1
