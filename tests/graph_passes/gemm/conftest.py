"""The tests of this room look at products alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.graph_passes.harness import without_elementwise, without_regions


@pytest.fixture(autouse=True, scope="module")
def elementwise_nodes_stay() -> Iterator[None]:
    with without_elementwise(), without_regions():
        yield
