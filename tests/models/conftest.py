"""Where the sample files are, and tests that need a network."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

# More threads than one only get in each other's way on models this small.
torch.set_num_threads(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "network: fetches a public data set; runs only with -m network")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "network" in (config.option.markexpr or ""):
        return
    for item in items:
        if item.get_closest_marker("network"):
            item.add_marker(pytest.mark.skip(reason="needs a network; run with -m network"))


@pytest.fixture(scope="session")
def sample() -> Callable[[str], Path]:
    """Finds a sample file by name; skips the test where it is absent."""
    folder = os.environ.get("DPIFRAME_DATA") or Path(__file__).parents[3] / "shared" / "data"

    def find(name: str) -> Path:
        path = Path(folder) / name
        if not path.is_file():
            pytest.skip(f"{name} is not in {folder}; set DPIFRAME_DATA to its folder")
        return path

    return find
