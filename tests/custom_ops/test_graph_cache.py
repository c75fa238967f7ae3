"""Hazard: one failure that costs a run, or a region its graphs for good. CUDA's runtime is a stand-in here."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from tests.custom_ops import native

NO_MEMORY, BROKEN = 2, 719
PAUSE = 1024
MOST = 32

pytestmark = native.needs_sources


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("graph_cache")
    headers = [native.HERE / "fake_cuda"]
    return native.compile_library(folder, "graph_cache.cc", ["kernels/cuda/launch/graph_cache.cc"], headers)


@pytest.fixture
def cache(library: ctypes.CDLL) -> Any:
    library.order_failures(0, 0)
    library.make_cache()
    yield library
    library.make_cache()
    assert library.alive() == 0


def come_twice(cache: Any, key: int) -> bool:
    """Whether a graph is wanted for a key that comes a second time."""
    wanted = False
    for _ in range(2):
        assert not cache.launch(key)
        wanted = bool(cache.wants(key))
    return wanted


def test_a_key_that_comes_again_is_wanted_and_launched(cache: Any) -> None:
    assert come_twice(cache, 1)
    before = cache.launches()
    assert cache.add(1) == 1
    assert cache.launch(1) == 1
    assert cache.launches() == before + 1


def test_no_memory_to_launch_is_no_error(cache: Any) -> None:
    for key in (1, 2):
        assert come_twice(cache, key)
        assert cache.add(key) == 1
    cache.order_failures(0, NO_MEMORY)
    assert cache.launch(1) == 0
    assert cache.last_error() == 0
    assert cache.alive() == 1  # what it held is given back
    cache.order_failures(0, 0)
    assert cache.launch(1) == 0
    assert cache.launch(2) == 1


def test_other_errors_are_errors(cache: Any) -> None:
    assert come_twice(cache, 1)
    assert cache.add(1) == 1
    cache.order_failures(0, BROKEN)
    assert cache.launch(1) == -BROKEN


@pytest.mark.parametrize("at_launch", [True, False])
def test_graphs_are_made_again_after_a_while(cache: Any, at_launch: bool) -> None:
    assert come_twice(cache, 1)
    if at_launch:
        assert cache.add(1) == 1
        cache.order_failures(0, NO_MEMORY)
        assert cache.launch(1) == 0
    else:
        cache.order_failures(NO_MEMORY, 0)
        assert cache.add(1) == -NO_MEMORY
        cache.put_off()
    cache.order_failures(0, 0)
    calls = 0
    while not cache.wants(1):
        assert cache.launch(1) == 0
        calls += 1
        assert calls <= PAUSE + 1
    assert calls >= PAUSE
    assert cache.add(1) == 1
    assert cache.launch(1) == 1


def test_a_pause_leaves_the_others_graphs(cache: Any) -> None:
    for key in range(MOST):
        assert come_twice(cache, key)
        assert cache.add(key) == 1
    cache.put_off()
    for key in range(MOST):
        assert cache.launch(key) == 1
