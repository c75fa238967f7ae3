"""The demo from end to end, and what makes it fail."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from dpiframe import export
from dpiframe.models import demo
from tests.models.commands import command


def all_the_way(data: Path, folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    output = command(demo.demo, data, "--folder", folder, "--seconds", 2)
    assert "AUC and LogLoss are equal to the sixth decimal." in output
    assert "200 rows of" in output
    assert (folder / "latency.png").read_bytes().startswith(b"\x89PNG")
    assert {"deepfm.pt", "deepfm.onnx", "deepfm.opt.onnx"} <= {path.name for path in folder.iterdir()}


def test_real_rows_all_the_way(sample: Callable[[str], Path], tmp_path: Path) -> None:
    all_the_way(sample("criteo_sample.csv"), tmp_path / "out")


def test_made_up_rows_all_the_way(criteo_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a few seconds: with the exporter that is faster, and rough figures."""
    monkeypatch.setattr(export, "export_model", partial(export.export_model, exporter="torchscript"))
    monkeypatch.setattr(demo, "BATCHES", (1, 32))
    monkeypatch.setattr(demo, "LATENCY_ROUNDS", 1)
    all_the_way(criteo_file, tmp_path / "out")


def answers(auc: float, log_loss: float) -> demo.Answers:
    return demo.Answers("x", np.zeros(1), auc, log_loss)


@pytest.mark.parametrize(
    ("others", "generated", "message"),
    [
        ([answers(0.75 + 1e-7, 0.5 - 4e-7)], True, None),
        ([answers(0.75, 0.5), answers(0.75 + 1e-6, 0.5)], True, "AUC is 0.75000100, PyTorch's is 0.75"),
        ([answers(0.75, 0.5 - 1e-6)], False, "LogLoss is 0.49999900"),
    ],
)
def test_the_sixth_decimal_decides(others: list[demo.Answers], generated: bool, message: str | None) -> None:
    found = demo._failures([answers(0.75, 0.5), *others], generated=generated)
    assert len(found) == (message is not None)
    assert message is None or message in found[0]


def test_a_low_auc_fails_on_generated_rows_only() -> None:
    low = answers(0.69, 0.5)
    assert "less than 0.7" in demo._failures([low, low], generated=True)[0]
    assert not demo._failures([low, low], generated=False)
