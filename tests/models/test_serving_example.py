"""The documentation's example of a server: raw features become the ids that the file's rows became."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dpiframe
from dpiframe.models import Checkpoint, create, load_checkpoint, save_checkpoint
from dpiframe.models.data import load

PAGE = Path(__file__).resolve().parents[2] / "docs" / "models.md"
ROWS = 20


class Session:
    """Stands in for the optimized model."""

    def __init__(self, path: str) -> None:
        assert path == "deepfm.opt.onnx"
        self._model = load_checkpoint("deepfm.pt").model

    def run(self, _: None, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        with torch.no_grad():
            return [self._model(torch.from_numpy(feeds["ids"]), torch.from_numpy(feeds["dense"])).numpy()]


@pytest.fixture
def example() -> str:
    section = PAGE.read_text().partition("## Serving raw features")[2]
    block = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert block
    return block[1]


def test_the_example_encodes_as_training_did(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = ["", "3", *[""] * 11, "05db9164", "38a947a1", *[""] * 24]
    Path("train.txt").write_text(("\t".join(["1", *cells]) + "\n") * ROWS)
    data, encoder = load("train.txt", dim=2)
    save_checkpoint("deepfm.pt", Checkpoint(create("deepfm", data.schema, hidden=(4,)).eval(), encoder))
    monkeypatch.setattr(dpiframe, "InferenceSession", Session)
    names: dict[str, Any] = {}
    exec(example, names)
    np.testing.assert_array_equal(names["ids"][0], data.ids[0])
    assert names["ids"][1].tolist() == [0, 0, *[1] * 24]
    assert names["probability"].shape == (2, 1)
    np.testing.assert_allclose(
        names["probability"][0],
        Session("deepfm.opt.onnx").run(None, {"ids": data.ids[:1], "dense": data.dense[:1]})[0][0],
    )
