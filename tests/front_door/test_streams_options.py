"""Hazard: a number of streams that is none, or that is taken for another."""

from __future__ import annotations

from pathlib import Path

import pytest

import dpiframe
from dpiframe.errors import UsageError
from dpiframe.optimizer import stream_count
from tests.front_door.test_precisions import layer


@pytest.mark.parametrize(
    ("given", "count"), [("auto", 0), ("off", 1), (1, 1), ("1", 1), (2, 2), ("4", 4), (32, 32), ("32", 32)]
)
def test_numbers_and_names(given: int | str, count: int) -> None:
    assert stream_count(given) == count


@pytest.mark.parametrize("given", [0, -1, 33, "0", "33", "two", "", "1.5", "-2", "AUTO"])
def test_anything_else_is_named(given: int | str) -> None:
    with pytest.raises(UsageError, match=r"streams .*: give auto, off, or a number from 1 to 32"):
        stream_count(given)


def test_an_unknown_order_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="order 'random': choose one of breadth, depth"):
        dpiframe.optimize(layer(tmp_path / "model.onnx"), order="random")  # type: ignore[arg-type]


def test_the_options_reach_a_model_for_cuda(tmp_path: Path) -> None:
    result = dpiframe.optimize(layer(tmp_path / "model.onnx"), provider="cuda", streams="off", order="depth")
    assert result.fused
