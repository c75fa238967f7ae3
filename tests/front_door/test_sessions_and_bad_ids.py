"""Hazard: ids outside their tables go unnoticed, or the session isn't the plain one that users know."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

import dpiframe
from tests.front_door.helpers import DENSE, TABLE_ROWS

pytestmark = pytest.mark.usefixtures("without_latency")

CPU = ["CPUExecutionProvider"]


def feeds(*ids: list[int]) -> dict[str, np.ndarray]:
    return {"ids": np.array(ids, np.int64), "dense": np.ones((len(ids), DENSE), np.float32)}


def optimized(model_file: Path, policy: str) -> Path:
    return dpiframe.optimize(model_file, bad_ids=policy).output  # type: ignore[arg-type]


def test_the_session_is_a_plain_one_with_the_originals_answers(model_file: Path) -> None:
    path = optimized(model_file, "error")
    given = feeds([0, 10, 6], [4, 0, -7])
    expected = ort.InferenceSession(model_file, providers=CPU).run(None, given)[0]
    session = dpiframe.InferenceSession(path)
    assert type(session) is ort.InferenceSession
    mine = ort.SessionOptions()
    mine.register_custom_ops_library(dpiframe.library_path())
    for one in (
        session,
        dpiframe.InferenceSession(path.read_bytes(), CPU),
        dpiframe.InferenceSession(path, sess_options=ort.SessionOptions()),
        ort.InferenceSession(path, dpiframe.session_options(), providers=CPU),
        ort.InferenceSession(path, mine, providers=CPU),
        ort.InferenceSession(path, providers=CPU),
    ):
        np.testing.assert_allclose(one.run(None, given)[0], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("policy", ["error", "zero", "clamp"])
def test_ids_outside_are_counted_by_node_and_field(model_file: Path, policy: str) -> None:
    session = dpiframe.InferenceSession(optimized(model_file, policy), CPU)
    session.run(None, feeds([0, 0, 0]))
    assert dpiframe.bad_ids(session) == []
    dpiframe.raise_on_bad_ids(session)
    bad = feeds([TABLE_ROWS[0], 0, -TABLE_ROWS[2] - 1], [99, 0, 0])
    if policy == "error":
        with pytest.raises(Exception, match=r"ids\[0\] -> table_0: id 5 in row 0 is outside"):
            session.run(None, bad)
    else:
        session.run(None, bad)
    counts = dpiframe.bad_ids(session)
    assert {count.lookup: count.count for count in counts} == {"ids[0] -> table_0": 2, "ids[2] -> table_2": 1}
    assert len({count.node for count in counts}) == 1
    with pytest.raises(dpiframe.BadIdsError, match=r"^3 ids outside .*node '.+', ids\[0\] -> table_0: 2; "):
        dpiframe.raise_on_bad_ids(session)
    dpiframe.reset_bad_ids(session)
    dpiframe.raise_on_bad_ids(session)


def test_sessions_count_for_themselves(model_file: Path) -> None:
    path = optimized(model_file, "zero")
    first, second = (dpiframe.InferenceSession(path, CPU) for _ in range(2))
    first.run(None, feeds([99, 0, 0]))
    assert [count.count for count in dpiframe.bad_ids(first)] == [1]
    assert dpiframe.bad_ids(second) == []


@pytest.mark.parametrize("policy", ["zero", "clamp"])
def test_outside_ids_are_verified_where_a_policy_defines_them(model_file: Path, policy: str) -> None:
    result = dpiframe.optimize(model_file, bad_ids=policy)  # type: ignore[arg-type]
    assert result.verification is not None
    assert "ids outside their tables" in [case.name for case in result.verification.compared]


def test_a_session_without_the_library_is_told_apart(model_file: Path) -> None:
    session = ort.InferenceSession(model_file, providers=CPU)
    for function in (dpiframe.bad_ids, dpiframe.raise_on_bad_ids, dpiframe.reset_bad_ids):
        with pytest.raises(dpiframe.UsageError, match="made without dpiframe's library"):
            function(session)


def test_a_copy_of_the_library_beside_the_model(model_file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "libdpiframe_ops.so"
    shutil.copy(dpiframe.library_path(), copy)
    options = ort.SessionOptions()
    options.register_custom_ops_library(str(copy))
    path = optimized(model_file, "zero")
    session = ort.InferenceSession(path, options, providers=CPU)
    session.run(None, feeds([99, 0, 0]))
    assert [count.count for count in dpiframe.bad_ids(session)] == [1]
    dpiframe.reset_bad_ids(session)
    assert dpiframe.bad_ids(session) == []
    # Another file in its place is another library, which knows nothing of this session.
    other = ort.SessionOptions()
    other.register_custom_ops_library(dpiframe.library_path())
    other.add_session_config_entry("dpiframe.session", options.get_session_config_entry("dpiframe.session"))
    wrong = ort.InferenceSession(path, other, providers=CPU)
    with pytest.raises(dpiframe.UsageError, match="has given no session the tag"):
        dpiframe.bad_ids(wrong)
