"""The corpus: third-party models in ONNX with inputs and PyTorch's answers, in the folder that DPIFRAME_CORPUS
names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = os.environ.get("DPIFRAME_CORPUS")


def model_folders() -> list[Path]:
    return sorted((Path(ROOT) / "models").iterdir()) if ROOT else []


@pytest.fixture
def corpus() -> list[Path]:
    if not ROOT:
        pytest.skip("the corpus isn't here: set DPIFRAME_CORPUS to its folder")
    return model_folders()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "folder" in metafunc.fixturenames:
        folders = model_folders()
        skip = pytest.mark.skip(reason="the corpus isn't here: set DPIFRAME_CORPUS to its folder")
        parameters = [pytest.param(f, id=f.name) for f in folders] or [pytest.param(None, id="corpus", marks=skip)]
        metafunc.parametrize("folder", parameters)
