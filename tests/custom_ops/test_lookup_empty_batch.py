"""Hazard: no rows at all, as warm-up requests and empty shards bring."""

from __future__ import annotations

import numpy as np
import pytest

from tests.custom_ops import models


@pytest.mark.parametrize("axes", [(0,), (0, 3), (3, 0), (0, 0)])
def test_no_rows(axes: tuple[int, ...]) -> None:
    program = f"lookup 1\nrows {len(axes)}\nbad error\nsource 2 row\nsource * row\ntable 5 4\noutput 8\noutput\n"
    program += "row 0 0 4 0 0:0 0\npool 0 4 4 mean 1 0\nterm 0 1:* 0 one\nrow 1 0 1 0 0:1 3\n"
    names = ["B", "L"][: len(axes)]
    sources = {"ids": ("int64", [*names, 2]), "bags": ("int64", [*names, "K"])}
    table = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    session = models.session(models.lookup_model(program, sources, {"table": table}, outputs=2))
    for length in (0, 7):
        feeds = {"ids": np.zeros((*axes, 2), np.int64), "bags": np.zeros((*axes, length), np.int64)}
        joined, wide = session.run(None, feeds)
        assert joined.shape == (*axes, 8)
        assert wide.shape == axes
    full = tuple(size or 1 for size in axes)
    feeds = {"ids": np.ones((*full, 2), np.int64), "bags": np.ones((*full, 1), np.int64)}
    joined, wide = session.run(None, feeds)  # and the next call has rows again
    np.testing.assert_array_equal(joined, np.broadcast_to(np.tile(table[1], 2), (*full, 8)))
    np.testing.assert_array_equal(wide, np.full(full, table[1, 3]))


def test_no_rows_in_column_layout() -> None:
    program = "lookup 1\nrows 1\nbad error\nsource 3 column\ntable 5 4\noutput 4\nrow 0 0 4 0 0:2 0\n"
    table = np.ones((5, 4), np.float32)
    session = models.session(models.lookup_model(program, {"ids": ("int64", [3, "B"])}, {"table": table}))
    assert session.run(None, {"ids": np.zeros((3, 0), np.int64)})[0].shape == (0, 4)
    assert session.run(None, {"ids": np.zeros((3, 2), np.int64)})[0].shape == (2, 4)
