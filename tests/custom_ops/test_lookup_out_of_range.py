"""Hazard: an id outside its table. Nothing is read there, the policy holds, and every one is counted."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest

from dpiframe.custom_ops._kernels import LookupProgram
from tests.custom_ops import models, reference

PROGRAM = "lookup 1\nrows 1\nbad {bad}\nsource 1 row\ntable 10 4\noutput 4\nrow 0 0 4 0 0:0 0\n"
EXTREMES = [-11, -10, -1, 0, 9, 10, 11, 2**31 - 1, -(2**31), 2**31, 2**62, 2**63 - 1, -(2**63)]


def guarded_table() -> np.ndarray:
    """Ten rows of numbers between rows of NaN that no lookup may bring out."""
    guarded = np.full((30, 4), np.nan, np.float32)
    guarded[10:20] = np.arange(40).reshape(10, 4)
    return guarded[10:20]


@pytest.mark.parametrize("bad", ["zero", "clamp"])
@pytest.mark.parametrize("baseline", [False, True])
def test_extreme_ids(bad: str, baseline: bool) -> None:
    table = guarded_table()
    ids = np.array(EXTREMES, np.int64).reshape(-1, 1)
    program = LookupProgram(PROGRAM.format(bad=bad), baseline)
    (values,) = program.run([ids], [table])
    for id, row in zip(EXTREMES, values, strict=True):
        if -10 <= id < 10:
            np.testing.assert_array_equal(row, table[id])
        elif bad == "zero":
            np.testing.assert_array_equal(row, 0)
        else:
            np.testing.assert_array_equal(row, table[0 if id < 0 else 9])
    assert program.bad_id_counts == [9]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_ids_that_no_int64_holds(dtype: str) -> None:
    table = guarded_table()
    ids = np.array([np.nan, np.inf, -np.inf, 1e19, -1e19, 9.3e18, 2.0**63, -(2.0**63), 9.99, -0.99, -9.99], dtype)
    program = LookupProgram(PROGRAM.format(bad="clamp"))
    (values,) = program.run([ids.reshape(-1, 1)], [table])
    # All of them become the smallest int64 and so the first row; the last three truncate toward zero.
    np.testing.assert_array_equal(values, table[[0] * 8 + [9, 0, -9]])
    assert program.bad_id_counts == [8]


def test_error_names_the_first_bad_id_by_row_whatever_the_threads() -> None:
    random = np.random.default_rng(0)
    ids = random.integers(0, 10, (5000, 1))
    ids[[4000, 1234, 1235, 999]] = [[10], [-11], [77], [10]]
    ids[999] = 3
    for threads in (1, 2, 7):
        with pytest.raises(IndexError, match="line 0, row 1234: id -11 is outside"):
            LookupProgram(PROGRAM.format(bad="error")).run([ids], [guarded_table()], threads)


def test_a_shared_id_is_counted_for_every_line() -> None:
    program = LookupProgram(
        "lookup 1\nrows 1\nbad zero\nsource 1 row\ntable 10 4\ntable 10 2\ntable 20 1\noutput 7\n"
        "row 0 0 4 0 0:0 0\nrow 0 4 2 1 0:0 0\nrow 0 6 1 2 0:0 0\n"
    )
    tables = [np.ones((10, 4), np.float32), np.ones((10, 2), np.float32), np.ones((20, 1), np.float32)]
    (values,) = program.run([np.array([[5], [15], [25]])], tables)
    assert program.bad_id_counts == [2, 2, 1]
    np.testing.assert_array_equal(values, [[1] * 7, [0] * 6 + [1], [0] * 7])


@pytest.mark.parametrize("bad", ["zero", "clamp"])
@pytest.mark.parametrize("op", ["sum", "mean", "max"])
def test_pooled_ids(bad: str, op: str) -> None:
    table = guarded_table()
    ids = np.array([[1, 12, 3], [-11, -10, 0], [4, 5, 6]])
    text = (
        f"lookup 1\nrows 1\nbad {bad}\nsource * row\nsource 3 row\ntable 10 4\noutput 8\n"
        f"pool 0 0 4 {op} 1 0\nterm 0 0:* 0 one\npool 0 4 4 {op} 2 0\nterm 0 1:0 0 one\nterm 0 1:1 0 one\n"
    )
    expected = reference.run(text, [ids, ids], [table])
    program = LookupProgram(text)
    (values,) = program.run([ids, ids], [table])
    np.testing.assert_array_equal(values, expected.outputs[0])
    assert not np.isnan(values).any()
    assert program.bad_id_counts == expected.counts == [2, 1, 1]


def lookup_session(bad: str, threads: int = 1) -> ort.InferenceSession:
    text = f"lookup 1\nrows 1\nbad {bad}\nsource 2 row\nsource 1 row\ntable 10 4\noutput 8\n"
    text += "row 0 0 4 0 0:1+-100 0\nrow 0 4 4 0 1:0 0\n"
    sources = {"ids": ("int64", ["B", 2]), "C1": ("int32", ["B"])}
    return models.session(models.lookup_model(text, sources, {"user_table": guarded_table().copy()}), threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_session_raises_and_names_node_source_column_and_id(threads: int) -> None:
    session = lookup_session("error", threads)
    ids = np.full((5000, 2), 105)
    ones = np.ones(5000, np.int32)
    session.run(None, {"ids": ids, "C1": ones})
    bad = ids.copy()
    bad[[4321, 3000], 1] = [110, 89]
    with pytest.raises(
        Exception, match=r"FusedMultiGather node 'lookup': ids\[1\] -> user_table: id -11 in row 3000"
    ) as error:
        session.run(None, {"ids": bad, "C1": ones})
    assert "is outside the table, which takes -10 to 9" in str(error.value)
    with pytest.raises(Exception, match=r"C1 -> user_table: id 10 in row 0"):
        session.run(None, {"ids": ids, "C1": ones * 10})
    session.run(None, {"ids": ids, "C1": ones})  # a failed run leaves the session usable


def test_a_session_goes_on_with_zero_and_clamp() -> None:
    feeds = {"ids": np.array([[0, 110], [0, 101]]), "C1": np.array([-11, 3], np.int32)}
    table = guarded_table()
    (zeros,) = lookup_session("zero").run(None, feeds)
    np.testing.assert_array_equal(zeros, [[0] * 8, [*table[1], *table[3]]])
    (clamped,) = lookup_session("clamp").run(None, feeds)
    np.testing.assert_array_equal(clamped, [[*table[9], *table[0]], [*table[1], *table[3]]])
