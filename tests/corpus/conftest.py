"""The corpus: third-party models in ONNX with inputs and PyTorch's answers, in the folder that DPIFRAME_CORPUS
names. Without one, a small set is made from the libraries that are installed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.corpus import small_set

ROOT = os.environ.get("DPIFRAME_CORPUS")


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One model's folder."""
    if ROOT:
        return Path(ROOT, "models", request.param)
    return small_set.build(request.param, tmp_path_factory.mktemp("model"))


@pytest.fixture
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """All of them."""
    if ROOT:
        return sorted(Path(ROOT, "models").iterdir())
    names = [name for name in small_set.NAMES if small_set.missing(name) is None]
    if not names:
        pytest.skip("neither a corpus (DPIFRAME_CORPUS names its folder) nor a library to make one from")
    return [small_set.build(name, tmp_path_factory.mktemp("model")) for name in names]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "folder" in metafunc.fixturenames:
        names = sorted(path.name for path in Path(ROOT, "models").iterdir()) if ROOT else small_set.NAMES
        metafunc.parametrize(
            "folder", [pytest.param(name, id=name, marks=_marks(name)) for name in names], indirect=True
        )


def _marks(name: str) -> list[pytest.MarkDecorator]:
    lacking = None if ROOT else small_set.missing(name)
    reason = f"no corpus here (DPIFRAME_CORPUS names its folder), and {lacking} isn't installed to make this model with"
    return [pytest.mark.skip(reason=reason)] if lacking else []
