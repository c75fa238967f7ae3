"""What can't be exported says why and what to change, in one line, and leaves nothing behind."""

from __future__ import annotations

import itertools
import os
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dpiframe.errors import UsageError
from dpiframe.export import ExportError, export_model
from dpiframe.export.errors import explain
from dpiframe.export.exporters import Exporter
from tests.export import toys


def fails(
    module: Any, folder: Path, message: str, examples: Any = None, error: type[Exception] = ExportError, **options: Any
) -> None:
    """Exporting raises one line that matches, and neither harms an old file nor leaves a new one."""
    path = folder / "m.onnx"
    path.write_bytes(b"old")
    with pytest.raises(error) as caught:
        export_model(module, toys.example() if examples is None else examples, path, **options)
    text = str(caught.value)
    assert "\n" not in text
    assert re.search(message, text), text
    assert path.read_bytes() == b"old"
    assert list(folder.iterdir()) == [path]


@pytest.mark.parametrize(
    ("module", "exporter", "message"),
    [
        (toys.BranchOnValue, "dynamo", "dynamo exporter failed: .*data-dependent.*use torch.where"),
        (toys.FixedBatch, "dynamo", r"fixed the batch of input 'ids' at 5: .*write x\.shape\[0\] or -1"),
        (toys.NoSuchOperator, "dynamo", "dynamo exporter failed: .*bessel_j0.*replace the operator"),
        (toys.NoSuchOperator, "torchscript", "torchscript exporter failed: .*bessel_j0.*replace the operator"),
        (toys.ThroughNumpy, "torchscript", "fails at batch 1 .*Non concat axis dimensions must match"),
        (toys.FixedBatch, "torchscript", r"fails at batch 1 .*write x\.shape\[0\] or -1"),
        (toys.Random, "torchscript", "differs from PyTorch by .*randomness"),
    ],
)
def test_the_exporters_reason_and_what_to_change(
    module: type[nn.Module], exporter: Exporter, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fails(module(), tmp_path, message, exporter=exporter)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("messages", "line"),
    [
        # What other PyTorch releases say.
        (
            ["Constraints violated (batch)! For more information, run with TORCH_LOGS\n  - Not all values are valid"],
            "failed: Constraints violated (batch)! For more information, run with TORCH_LOGS; the model fixes",
        ),
        (
            ["Failed to export the model\n\nSummary", "", "Cannot access data pointer of Tensor (e.g. FakeTensor)"],
            "failed: Cannot access data pointer of Tensor (e.g. FakeTensor); the model leaves PyTorch",
        ),
        (["\n  ***  \n  something   else\nmore"], "failed: something else; try the other exporter"),
        ([""], "failed: RuntimeError; try the other exporter"),
        (["long" * 100], "long" * 74 + "l...; try the other exporter"),
    ],
)
def test_the_innermost_reason_is_told_on_one_line(messages: list[str], line: str) -> None:
    errors = [RuntimeError(message) for message in messages]
    for outer, inner in itertools.pairwise(errors):
        outer.__cause__ = inner
    text = str(explain(errors[0], "dynamo"))
    assert text.startswith("the dynamo exporter failed: ")
    assert line in text
    assert "\n" not in text


def test_a_baked_in_branch_is_found_by_comparing(tmp_path: Path) -> None:
    """Tracing takes the branch of the example; rows in another order of the example take the other."""
    ids, dense = toys.example(2)
    dense = torch.tensor([[1.0, 1.0, 1.0], [-3.0, -3.0, -3.0]])
    fails(toys.BranchOnValue(), tmp_path, "at batch 1 .*differs from PyTorch", (ids, dense), exporter="torchscript")


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ((), "don't fit the model's forward: missing a required argument: 'ids'"),
        ((torch.zeros(2, 2, dtype=torch.int64),), "missing a required argument: 'dense'"),
        ((*toys.example(), 1), "too many positional arguments"),
        ((torch.zeros(2, 2, dtype=torch.int64), 3.5), "'dense' is a float; every input must be a tensor"),
        ((torch.zeros(2, 2, dtype=torch.int64), torch.tensor(1.0)), "'dense' has no axes"),
        ((torch.zeros(2, 2, dtype=torch.int64), torch.zeros(3, 3)), "the example has ids 2, dense 3"),
        ((torch.zeros(0, 2, dtype=torch.int64), torch.zeros(0, 3)), "one row or more"),
        ((torch.full((2, 2), 99), torch.zeros(2, 3)), "model itself fails on the example inputs: index out of range"),
    ],
)
def test_examples_that_do_not_fit(examples: Any, message: str, tmp_path: Path) -> None:
    fails(toys.Lookup(), tmp_path, message, examples)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exporter": "onnxscript"}, "exporter is 'onnxscript'; choose dynamo or torchscript"),
        ({"opset": 17}, "opset is 17; the dynamo exporter writes 18 to 23"),
        ({"opset": 21, "exporter": "torchscript"}, "opset is 21; the torchscript exporter writes 11 to 20"),
        ({"input_names": ["ids"]}, r"1 input names \(ids\), but the model has 2 inputs"),
        ({"input_names": ["x", "x"]}, "name one twice"),
        ({"output_names": ["a", "b"]}, "but the model has 1 outputs"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    fails(toys.Lookup(), tmp_path, message, error=ValueError, **options)


def test_modules_that_are_none(tmp_path: Path) -> None:
    fails(torch.relu, tmp_path, "is no torch.nn.Module")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.trace(toys.Lookup(), toys.example())
    fails(scripted, tmp_path, "scripted module")
    fails(toys.Broken(), tmp_path, "the model itself fails on the example inputs: index out of range in self")


def test_modules_whose_forward_is_not_their_class_s(tmp_path: Path) -> None:
    patched = toys.Lookup()
    patched.forward = lambda ids, dense: dense.sum(1)  # type: ignore[method-assign]
    fails(patched, tmp_path, "forward is an attribute of the instance")
    fails(torch.compile(toys.Lookup()), tmp_path, "torch.compile made can't be exported; give the one")


def test_what_cannot_be_compared_is_an_error(tmp_path: Path) -> None:
    """A file whose answers nobody has seen is never written."""

    class Narrow(toys.Lookup):
        def forward(self, ids: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
            return super().forward(ids, dense).to(torch.bfloat16)

    fails(Narrow(), tmp_path, "output 0 is of type bfloat16, which NumPy lacks", exporter="torchscript")

    class Twice(toys.Lookup):
        """In PyTorch, and in the exporter."""

        calls = 0

        def forward(self, ids: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
            Twice.calls += 1
            if Twice.calls > 2:
                raise RuntimeError("no more")
            return super().forward(ids, dense)

    fails(Twice(), tmp_path, "fails when it is run again: no more", exporter="torchscript")


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="doesn't exist; make it first"):
        export_model(toys.Lookup(), toys.example(), tmp_path / "none" / "m.onnx")
    with pytest.raises(UsageError, match="is a folder; name a file"):
        export_model(toys.Lookup(), toys.example(), tmp_path)
    with pytest.raises(UsageError, match="none/: no such folder"):
        export_model(toys.Lookup(), toys.example(), f"{tmp_path}/none/")
    assert not list(tmp_path.iterdir())


def test_a_pipe_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "m.onnx"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match=r"m\.onnx: is no regular file"):
        export_model(toys.Lookup(), toys.example(), pipe)
    assert pipe.is_fifo()
    # nor where the weights would lie
    pipe.rename(tmp_path / "n.onnx.data")
    monkeypatch.setattr("dpiframe.export.model.EXTERNAL_DATA_BYTES", 0)
    with pytest.raises(UsageError, match=r"n\.onnx\.data: is no regular file"):
        export_model(toys.Lookup(), toys.example(), tmp_path / "n.onnx")
    assert [file.name for file in tmp_path.iterdir()] == ["n.onnx.data"]


def test_a_failure_leaves_the_training_mode_as_it_was(tmp_path: Path) -> None:
    module = toys.Random().train()
    fails(module, tmp_path, "randomness", exporter="torchscript")
    assert module.training
