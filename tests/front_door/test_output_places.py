"""Hazard: a device, pipe or socket is replaced by the file that was to be written to it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

import dpiframe
from dpiframe.external_data import Mode
from tests.front_door.helpers import Finished, ctr_model, fingerprint, save_with_external_data

Run = Callable[..., Finished]


@pytest.fixture(params=["pipe", "socket", "link to a pipe"])
def special(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A file in a folder of its own that is no regular one."""
    place = tmp_path / "places" / "out.onnx"
    place.parent.mkdir()
    if request.param == "socket":
        os.mknod(place, stat.S_IFSOCK | 0o600)
        return place
    pipe = place if request.param == "pipe" else place.with_name("pipe")
    os.mkfifo(pipe)
    if pipe != place:
        place.symlink_to(pipe)
    return place


def kinds(folder: Path) -> dict[str, int]:
    return {file.name: stat.S_IFMT(file.lstat().st_mode) for file in folder.iterdir()}


def test_optimize(model_file: Path, special: Path, run_command: Run) -> None:
    before = kinds(special.parent)
    done = run_command("optimize", model_file, "-o", special)
    assert done.code == 2
    assert done.error() == (f"{special}: is no regular file but a device, pipe or socket; name another with -o")
    assert kinds(special.parent) == before


def test_tune(tmp_path: Path, special: Path) -> None:
    model = tmp_path / "model.opt.onnx"
    onnx.save(ctr_model(), model)
    optimized = dpiframe.optimize(model, tmp_path / "cuda.onnx", provider="cuda").output
    before = kinds(special.parent)
    with pytest.raises(dpiframe.UsageError, match=r"out\.onnx: is no regular file"):
        dpiframe.tune(optimized, special)
    assert kinds(special.parent) == before


def test_a_plot(tmp_path: Path, model_file: Path, run_command: Run) -> None:
    os.mkfifo(tmp_path / "latency.png")
    (tmp_path / "folder.png").mkdir()
    for name, says in (("latency.png", "is no regular file"), ("folder.png", "is a folder")):
        done = run_command("dpiframe", "bench", model_file, "--plot", name)
        assert done.code == 2
        assert f"{name}: {says}" in done.error()
        assert done.error().endswith("with --plot")
    assert (tmp_path / "latency.png").is_fifo()


@pytest.mark.parametrize("mode", ["copy", "link"])
@pytest.mark.parametrize("in_the_way", ["data", "data/tables.bin"])
def test_external_data(tmp_path: Path, mode: Mode, in_the_way: str) -> None:
    (tmp_path / "here" / "data").mkdir(parents=True)
    model = save_with_external_data(ctr_model(), tmp_path / "here" / "model.onnx", "data/tables.bin")
    pipe = tmp_path / "there" / in_the_way
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    before = fingerprint(tmp_path)
    with pytest.raises(dpiframe.UsageError, match=f"{in_the_way}: another file is where the external data goes"):
        dpiframe.optimize(model, tmp_path / "there" / "out.onnx", external_data=mode)
    assert pipe.is_fifo()
    assert fingerprint(tmp_path) == before
