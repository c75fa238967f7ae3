"""`export` as a command: what it writes, and errors that name what is wrong."""

from __future__ import annotations

import errno
from pathlib import Path

import onnx
import pytest

from dpiframe.export.cli import export
from dpiframe.models import Checkpoint, load_checkpoint, save_checkpoint
from tests.models.commands import command
from tests.models.schemas import small_model

FACTORY = """
import neighbour
from torch import nn
import torch

def make():
    return nn.Linear(neighbour.WIDTH, 1), torch.zeros(2, neighbour.WIDTH)

def fails():
    raise KeyError("table")

def other():
    return 3
"""


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    save_checkpoint(tmp_path / "dcn.pt", Checkpoint(small_model("dcn").eval()))
    return tmp_path / "dcn.pt"


def test_a_checkpoint_becomes_a_file_beside_it(checkpoint: Path) -> None:
    output = command(export, checkpoint, "--exporter", "torchscript")
    assert "dcn.onnx" in output
    assert "largest difference from PyTorch" in output
    assert [value.name for value in onnx.load(checkpoint.with_name("dcn.onnx")).graph.input] == ["ids", "dense"]


def test_the_input_is_never_replaced(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "neighbour.py").write_text("WIDTH = 3\n")
    (tmp_path / "mine.py").write_text(FACTORY)
    (tmp_path / "link.onnx").symlink_to("mine.py")
    before = {path: path.read_bytes() for path in (checkpoint, tmp_path / "mine.py")}
    for source, output in ((checkpoint, checkpoint), ("mine.py:make", "mine.py"), ("mine.py:make", "link.onnx")):
        with pytest.raises(ValueError, match="is the input itself; name another file with -o"):
            command(export, source, "-o", output)
    assert before == {path: path.read_bytes() for path in before}


def test_the_layout_can_change_at_export(checkpoint: Path, tmp_path: Path) -> None:
    command(export, checkpoint, "--exporter", "torchscript", "--inputs", "fields", "-o", tmp_path / "f.onnx")
    inputs = [value.name for value in onnx.load(tmp_path / "f.onnx").graph.input]
    assert inputs == list(load_checkpoint(checkpoint).model.schema.names)


def test_a_factory_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "neighbour.py").write_text("WIDTH = 3\n")
    (tmp_path / "mine.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    command(export, "mine.py:make", "--exporter", "torchscript")
    assert (tmp_path / "make.onnx").is_file()
    for source, message in (
        ("mine.py:nothing", "mine.py has no function 'nothing'"),
        ("mine.py:fails", "mine.py:fails raised KeyError: 'table'"),
        ("mine.py:other", "returned a int; return"),
        ("no_such_module:make", "neither a .py file nor an importable module"),
    ):
        with pytest.raises(ValueError, match=message):
            command(export, source)
    (tmp_path / "bad.py").write_text("import nothing_of_the_kind\n")
    with pytest.raises(ValueError, match=r"bad\.py can't be imported: ModuleNotFoundError"):
        command(export, "bad.py:make")
    with pytest.raises(ValueError, match="--inputs is for checkpoints"):
        command(export, "mine.py:make", "--inputs", "fields")


@pytest.mark.parametrize("source", ["none.pt", "none.py:make"])
def test_a_missing_source_is_named(source: str) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        command(export, source)
    assert caught.value.errno == errno.ENOENT
    assert caught.value.filename == source.partition(":")[0]
