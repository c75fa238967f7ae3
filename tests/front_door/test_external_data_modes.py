"""Hazard: tables are lost, doubled, replaced or left half-copied when the output goes elsewhere."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

import dpiframe
from dpiframe.external_data import Mode
from tests.front_door.helpers import (
    DENSE,
    TABLE_ROWS,
    WIDTH,
    Finished,
    ctr_model,
    fingerprint,
    save_with_external_data,
    script,
)

Run = Callable[..., Finished]


pytestmark = pytest.mark.usefixtures("without_latency")

LOCATION = "data/part/tables.bin"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """here/model.onnx with its data in a folder below, and an empty folder there."""
    folder = tmp_path / "here"
    (folder / LOCATION).parent.mkdir(parents=True)
    (tmp_path / "there").mkdir()
    return save_with_external_data(ctr_model(), folder / "model.onnx", LOCATION)


def runs(path: Path) -> bool:
    feeds = {"ids": np.zeros((2, len(TABLE_ROWS)), np.int64), "dense": np.ones((2, DENSE), np.float32)}
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return bool(np.isfinite(session.run(None, feeds)[0]).all())


def test_reference_leaves_the_data_alone(model: Path) -> None:
    before = fingerprint(model.parent)
    output = dpiframe.optimize(model).output
    after = fingerprint(model.parent)
    assert after.keys() - before.keys() == {output.name}
    assert {name: after[name] for name in before} == before
    assert runs(output)


def test_reference_to_another_folder_says_what_to_choose(tmp_path: Path, model: Path, run_command: Run) -> None:
    done = run_command("optimize", model, "-o", "there/out.onnx")
    assert done.code == 2
    assert LOCATION in done.error()
    assert "choose --external-data copy, or link" in done.error()
    assert list((tmp_path / "there").iterdir()) == []


@pytest.mark.parametrize("mode", ["copy", "link"])
def test_data_is_brought_along(tmp_path: Path, model: Path, mode: Mode) -> None:
    there = tmp_path / "there"
    output = dpiframe.optimize(model, there / "out.onnx", external_data=mode).output
    assert fingerprint(there).keys() == {"out.onnx", LOCATION}
    assert (there / LOCATION).samefile(model.parent / LOCATION) == (mode == "link")
    assert (there / LOCATION).read_bytes() == (model.parent / LOCATION).read_bytes()
    assert runs(output)


@pytest.mark.parametrize("mode", ["copy", "link"])
def test_bringing_the_same_data_again_is_fine(tmp_path: Path, mode: Mode) -> None:
    model = save_with_external_data(ctr_model(), tmp_path / "model.onnx")
    (tmp_path / "there").mkdir()
    for _ in range(2):
        assert runs(dpiframe.optimize(model, tmp_path / "there" / "out.onnx", external_data=mode).output)
    assert fingerprint(tmp_path / "there").keys() == {"out.onnx", "tables.bin"}


# Linux counts a new process's memory from before it became another program: so a small process starts the command, not
# this one, which may have grown.
PEAK_MEMORY = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:])
_, status, usage = os.wait4(process.pid, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_table_larger_than_the_memory_used_is_never_loaded(tmp_path: Path) -> None:
    rows, megabytes = 25_000_000, 6_400
    model = save_with_external_data(ctr_model(), tmp_path / "model.onnx", "big.bin")
    proto = onnx.load(model, load_external_data=False)
    table = next(t for t in proto.graph.initializer if t.name == "table_0")
    del table.dims[:], table.external_data[:]
    table.dims.extend([rows, 64])
    external = {"location": "huge.bin", "offset": 0, "length": rows * 64 * 4}
    for key, value in external.items():
        table.external_data.add(key=key, value=str(value))
    # A sparse file: it takes no space on the disk.
    with (tmp_path / "huge.bin").open("wb") as file:
        file.truncate(external["length"])
    weight = next(t for t in proto.graph.initializer if t.name == "weight")
    wide = np.ones((64 + 2 * WIDTH + DENSE, 1), np.float32)
    weight.CopyFrom(numpy_helper.from_array(wide, "weight"))
    onnx.save(proto, model)
    command = [sys.executable, "-c", PEAK_MEMORY, script("optimize"), str(model), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    # Linux counts in kB; the largest of the command and its child.
    assert int(done.stdout) / 1e3 < 0.1 * megabytes
    assert model.with_name("model.opt.onnx").exists()


@pytest.mark.parametrize("mode", ["copy", "link"])
def test_another_file_in_the_datas_place_is_kept(tmp_path: Path, model: Path, mode: Mode) -> None:
    theirs = tmp_path / "there" / LOCATION
    theirs.parent.mkdir(parents=True, exist_ok=True)
    theirs.write_bytes(b"someone else's")
    before = fingerprint(tmp_path)
    with pytest.raises(dpiframe.UsageError, match="another file is where the external data goes"):
        dpiframe.optimize(model, tmp_path / "there" / "out.onnx", external_data=mode)
    assert fingerprint(tmp_path) == before


def test_a_file_system_that_cannot_link_is_told(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(dpiframe.UsageError, match="Invalid cross-device link; choose --external-data copy"):
        dpiframe.optimize(model, tmp_path / "there" / "out.onnx", external_data="link")
    assert list((tmp_path / "there").iterdir()) == []


@pytest.mark.parametrize("mode", ["copy", "link"])
def test_a_failed_publication_takes_everything_back(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    real = Path.replace

    def full(self: Path, target: Path) -> Path:
        if Path(target).name == "out.onnx":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(dpiframe.DPIFrameError, match=r"out.onnx: can't be written: No space left on device"):
        dpiframe.optimize(model, tmp_path / "there" / "out.onnx", external_data=mode)
    assert fingerprint(tmp_path / "there") == {}


def test_hard_linked_tables_can_be_optimized(model: Path) -> None:
    os.link(model.parent / LOCATION, model.parent / "second-name.bin")
    assert runs(dpiframe.optimize(model).output)


def test_a_link_to_the_folder_counts_as_the_folder(tmp_path: Path) -> None:
    model = save_with_external_data(ctr_model(), tmp_path / "model.onnx")
    (tmp_path / "alias").symlink_to(tmp_path)
    assert runs(dpiframe.optimize(model, tmp_path / "alias" / "out.onnx").output)
