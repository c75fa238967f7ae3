"""Files of rows, real and made up, and tests that need a network."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from dpiframe.models.data.criteo import DENSE, SPARSE

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
    folder = os.environ.get("DPIFRAME_DATA")

    def find(name: str) -> Path:
        if not folder or not Path(folder, name).is_file():
            pytest.skip(f"no {name} here (DPIFRAME_DATA names its folder)")
        return Path(folder, name)

    return find


@pytest.fixture(scope="session")
def criteo_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 made-up rows in Criteo's columns, with gaps as there: the real ones may not be at hand."""
    rng = np.random.default_rng(0)
    rows = [["label", *DENSE, *SPARSE]]
    for _ in range(200):
        counts = ["" if rng.random() < 0.3 else str(rng.integers(-1, 300)) for _ in DENSE]
        categories = ["" if rng.random() < 0.1 else f"{rng.integers(3 * place):08x}" for place in range(1, 27)]
        rows.append([str(int(rng.random() < 0.3)), *counts, *categories])
    path = tmp_path_factory.mktemp("criteo") / "criteo.csv"
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    return path
