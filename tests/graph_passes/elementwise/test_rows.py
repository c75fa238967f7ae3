"""Hazard: an axis that isn't the batch is taken for it, and rows are mixed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_graphsurgeon as gs
import pytest

from dpiframe.graph_passes.elementwise.rows import fixed_batch, place, row_axes
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import parse


@pytest.mark.parametrize(
    ("shape", "batch", "want"),
    [
        (["b"], None, ("b",)),
        (["b", 26, 16], None, ("b",)),
        (["b", "l", 16], None, ("b", "l")),
        (["b", "l"], None, ("b", "l")),
        (["b", "b"], None, ("b", "b")),
        # no axis in front whose size is unknown
        ([26, "b"], None, None),
        ([1, "b", 4], None, None),
        ([16], None, None),
        ([], None, None),
        # an axis of unknown size behind static ones, and a third one
        (["b", 4, "l"], None, None),
        (["b", "l", "m"], None, None),
        # nothing known
        (None, None, None),
        ([None, 4], None, None),
        (["b", None], None, None),
        # nothing there
        (["b", 0], None, None),
        # a fixed batch
        ([8, 4], 8, (8,)),
        ([8], 8, (8,)),
        ([4, 8], 8, None),
        ([], 8, None),
        ([8, 0], 8, None),
        (["b", 8], 8, ("b",)),
    ],
)
def test_row_axes(shape: Any, batch: int | None, want: Any) -> None:
    assert row_axes(shape, batch) == want


ONE, TWO = ("b",), ("b", "l")


@pytest.mark.parametrize(
    ("shape", "axes", "rank", "want"),
    [
        # row values of the same rank
        (["b", 26, 16], ONE, 3, ("x", (26, 16))),
        (["b", 1, 16], ONE, 3, ("x", (1, 16))),
        (["b"], ONE, 1, ("x", ())),
        (["b", "l", 4], TWO, 3, ("xx", (4,))),
        # one of two row axes
        (["b", 1, 4], TWO, 3, ("x-", (4,))),
        ([1, "l", 4], TWO, 3, ("-x", (4,))),
        # weights: leading ones say nothing
        ([16], ONE, 3, ("-", (16,))),
        ([26, 16], ONE, 3, ("-", (26, 16))),
        ([1, 26, 16], ONE, 3, ("-", (26, 16))),
        ([1, 1, 16], ONE, 3, ("-", (16,))),
        ([26, 1], ONE, 3, ("-", (26, 1))),
        ([1], ONE, 2, ("-", ())),
        ([], ONE, 1, ("-", ())),
        ([4], TWO, 3, ("--", (4,))),
        # a weight's axis beside the batch, a batch beside another axis
        ([5, 16], ONE, 2, None),
        (["b", 16], ONE, 3, None),
        (["c", 16], ONE, 2, None),
        (["b", 16], ("c",), 2, None),
        ([16, "b"], ONE, 2, None),
        # one row axis without a place for the other one
        (["l", 4], TWO, 3, None),
        # more axes than the result has
        ([1, 1, 16], ONE, 2, None),
        (None, ONE, 2, None),
        ([0], ONE, 2, None),
        # a fixed batch
        ([8, 4], (8,), 2, ("x", (4,))),
        ([1, 4], (8,), 2, ("-", (4,))),
        ([1, 4], (1,), 2, ("x", (4,))),
    ],
)
def test_how_a_tensor_lies_beside_rows(shape: Any, axes: Any, rank: int, want: Any) -> None:
    assert place(gs.Variable("t", np.float32, shape), axes, rank) == want


def test_a_weight_has_no_row_axis_of_size_1() -> None:
    weight = gs.Constant("w", np.zeros((1, 4), np.float32))
    assert place(weight, (1,), 2) == ("-", (4,))


@pytest.mark.parametrize(
    ("inputs", "want"),
    [
        ("float[8,4] x, int64[8] y", 8),
        ("float[8,4] x", 8),
        ("float[8,4] x, int64[4] y", None),
        ("float[b,4] x, int64[8] y", None),
        ("float[b,4] x", None),
        ("float x", None),
        ("float[8,4] x, float y", 8),
        ("float[0,4] x", None),
    ],
)
def test_the_batch_size_of_a_model_that_knows_no_other(inputs: str, want: int | None) -> None:
    first = "x"
    model = parse(f"({inputs}) => (float[n,m] z) {{ z = Neg({first}) }}")
    assert fixed_batch(Workbench(model)) == want


def test_an_initializer_that_may_be_overridden_says_nothing_of_the_batch() -> None:
    model = parse("(float[8,4] x, float[4] w) => (float[8,4] y) { y = Mul(x, w) }", w=np.ones(4, np.float32))
    assert fixed_batch(Workbench(model)) == 8
