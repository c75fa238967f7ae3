"""What becomes of nodes before they are put into regions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.graph_passes.harness import without_regions


@pytest.fixture(autouse=True, scope="module")
def apart() -> Iterator[None]:
    with without_regions():
        yield
