"""Hazard: ids outside their table: memory beside the table, counts, and what `error` means where nothing can raise."""

from __future__ import annotations

import numpy as np
import pytest

from dpiframe import custom_ops
from dpiframe.custom_ops import BadIdCount
from tests.custom_ops import models
from tests.gpu.device import CudaLookupProgram, whole_session

PROGRAM = "lookup 1\nrows 1\nbad {bad}\nsource 3 row\ntable 10 {dim}\ntable 10 {dim}\noutput {width}\n"
EXTREMES = [-11, 10, 11, 2**31, -(2**31) - 1, 2**40, 2**62, -(2**62), 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("dim", [1, 2, 6, 16, 48])
@pytest.mark.parametrize("bad", ["error", "zero", "clamp"])
def test_nothing_beside_a_table_is_read(dim: int, bad: str) -> None:
    """The tables lie between bytes 0xA5, of which a value read there would be made."""
    tables = [np.full((10, dim), 3, np.float32), np.full((10, dim), 7, np.float32)]
    program = PROGRAM.format(bad=bad, dim=dim, width=3 * dim)
    program += f"row 0 0 {dim} 0 0:0 0\nrow 0 {dim} {dim} 1 0:1 0\npool 0 {2 * dim} {dim} sum 2 0\n"
    program += "term 0 0:2 0 one\nterm 1 0:2 0 one\n"
    ids = np.array(EXTREMES * 30, np.int64).reshape(-1, 1).repeat(3, axis=1)
    for odd in (False, True):
        lookup = CudaLookupProgram(program, odd)
        (values,) = lookup.run([ids], tables)
        row = np.array([3, 7, 10], np.float32) if bad == "clamp" else np.zeros(3, np.float32)
        np.testing.assert_array_equal(values, np.broadcast_to(row.repeat(dim), values.shape))
        assert lookup.bad_id_counts == [len(ids)] * 4


@pytest.mark.parametrize("bad", ["error", "zero"])
def test_a_session_goes_on_and_counts(bad: str) -> None:
    program = f"lookup 1\nrows 1\nbad {bad}\nsource 2 row\ntable 10 4\noutput 8\nrow 0 0 4 0 0:0 0\nrow 0 4 4 0 0:1 0\n"
    table = np.arange(1, 41, dtype=np.float32).reshape(10, 4)
    session = whole_session(models.lookup_model(program, {"ids": ("int64", ["B", 2])}, {"users": table}))
    ids = np.array([[0, 10], [-11, 3], [9, 10]])
    for _ in range(2):
        (values,) = session.run(None, {"ids": ids})
        inside = (ids >= 0) & (ids < 10)
        np.testing.assert_array_equal(values.reshape(3, 2, 4), np.where(inside[..., None], table[ids % 10], 0))
    tag = models.tag(session)
    expected = [BadIdCount("lookup", "ids[0] -> users", 2), BadIdCount("lookup", "ids[1] -> users", 4)]
    assert custom_ops.bad_id_counts(tag) == expected
    custom_ops.reset_bad_id_counts(tag)
    assert custom_ops.bad_id_counts(tag) == []
