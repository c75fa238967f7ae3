"""Hazard: counts of bad ids that belong to another session, get lost, or outlive it."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from dpiframe import custom_ops
from dpiframe.custom_ops import BadIdCount
from tests.custom_ops import models

PROGRAM = "lookup 1\nrows 1\nbad zero\nsource 2 row\nsource * row\ntable 10 2\ntable 5 2\noutput 6\n"
PROGRAM += "row 0 0 2 0 0:0 0\nrow 0 2 2 1 0:1 0\npool 0 4 2 sum 2 0\nterm 1 1:* 0 one\nterm 1 =7 0 one\n"


def model(names: tuple[str, str] = ("users", "items")) -> models.onnx.ModelProto:
    tables = {names[0]: np.ones((10, 2), np.float32), names[1]: np.ones((5, 2), np.float32)}
    return models.lookup_model(PROGRAM, {"ids": ("int64", ["B", 2]), "bags": ("int32", ["B", "L"])}, tables)


def feeds(first: int) -> dict[str, np.ndarray]:
    return {"ids": np.array([[first, 0], [0, 5]]), "bags": np.array([[5, 6], [0, -6]], np.int32)}


def test_counts_by_node_and_lookup() -> None:
    session = models.session(model())
    assert custom_ops.bad_id_counts(models.tag(session)) == []
    session.run(None, feeds(3))
    session.run(None, feeds(10))
    assert custom_ops.bad_id_counts(models.tag(session)) == [
        BadIdCount("lookup", "ids[0] -> users", 1),
        BadIdCount("lookup", "ids[1] -> items", 2),
        BadIdCount("lookup", "bags[*] -> items", 6),
        BadIdCount("lookup", "=7 -> items", 4),
    ]
    custom_ops.reset_bad_id_counts(models.tag(session))
    assert custom_ops.bad_id_counts(models.tag(session)) == []


def test_sessions_of_other_options_count_for_themselves() -> None:
    one, other = models.session(model()), models.session(model())
    assert models.tag(one) != models.tag(other)
    one.run(None, feeds(3))
    assert custom_ops.bad_id_counts(models.tag(other)) == []
    assert len(custom_ops.bad_id_counts(models.tag(one))) == 3


def test_options_made_before_any_session_have_tags_of_their_own() -> None:
    options = [models.options() for _ in range(3)]
    tags = {each.get_session_config_entry("dpiframe.session") for each in options}
    assert len(tags) == 3
    data = model().SerializeToString()
    sessions = [ort.InferenceSession(data, each, providers=["CPUExecutionProvider"]) for each in options]
    sessions[1].run(None, feeds(3))
    counted = [bool(custom_ops.bad_id_counts(models.tag(session))) for session in sessions]
    assert counted == [False, True, False]


def test_sessions_of_the_same_options_share_their_counts() -> None:
    options = models.options()
    data = model().SerializeToString()
    sessions = [ort.InferenceSession(data, options, providers=["CPUExecutionProvider"]) for _ in range(2)]
    for session in sessions:
        session.run(None, feeds(10))
    counts = custom_ops.bad_id_counts(models.tag(sessions[0]))
    assert [count.count for count in counts if count.lookup == "ids[0] -> users"] == [1, 1]


def test_counts_go_with_their_session() -> None:
    session = models.session(model())
    tag = models.tag(session)
    session.run(None, feeds(10))
    assert custom_ops.bad_id_counts(tag)
    del session
    gc.collect()
    assert custom_ops.bad_id_counts(tag) == []


def test_sessions_that_come_and_go_leave_nothing_to_those_after_them() -> None:
    """Options may live on, and make sessions, when the sessions that they made are gone."""
    options = models.options()
    data = model().SerializeToString()
    first = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    first.run(None, feeds(3))
    del first
    gc.collect()
    other = models.session(model())
    again = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    again.run(None, feeds(3))
    assert custom_ops.bad_id_counts(models.tag(other)) == []
    assert len(custom_ops.bad_id_counts(models.tag(again))) == 3


def test_sessions_made_by_many_threads_count_for_themselves() -> None:
    """Whose kernels are made next is known by the thread that makes them."""
    data = model().SerializeToString()

    def made(index: int) -> tuple[int, ort.InferenceSession]:
        session = ort.InferenceSession(data, models.options(), providers=["CPUExecutionProvider"])
        for _ in range(index):
            session.run(None, feeds(10))
        return index, session

    with ThreadPoolExecutor(8) as pool:
        for index, session in pool.map(made, range(24)):
            counts = {count.lookup: count.count for count in custom_ops.bad_id_counts(models.tag(session))}
            assert counts.get("ids[0] -> users", 0) == index


LEAKS = """
import gc, sys
import onnxruntime as ort
from tests.custom_ops import models

def kilobytes():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1])

def options_alone():
    models.options()

def a_failed_load():
    try:
        ort.InferenceSession("no such file", models.options(), providers=["CPUExecutionProvider"])
    except Exception:
        pass

work = {"options": options_alone, "failed": a_failed_load}[sys.argv[1]]
for _ in range(100):  # what is allocated once
    work()
gc.collect()
before = kilobytes()
for _ in range(200):
    work()
gc.collect()
print(kilobytes() - before)
"""


@pytest.mark.parametrize("work", ["options", "failed"])
def test_options_without_a_session_leave_next_to_nothing(work: str) -> None:
    """A server registers the library for models that have none of its nodes, too, and tries failed loads again."""
    packages = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    grown = subprocess.run(
        [sys.executable, "-P", "-c", LEAKS, work], env=packages, capture_output=True, text=True, check=True
    ).stdout
    assert int(grown) < 200 * 5  # an op for every name took 64 to 86 kB


def test_a_copy_of_the_library_counts_for_its_own_sessions(tmp_path: Path) -> None:
    """It may lie beside the model."""
    copy = tmp_path / "copy.so"
    shutil.copy(custom_ops.library_path(), copy)
    options = ort.SessionOptions()
    options.register_custom_ops_library(str(copy))
    assert options.get_session_config_entry("dpiframe.library") == str(copy)
    data = model().SerializeToString()
    theirs = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    ours = models.session(model())
    assert models.tag(theirs) != models.tag(ours)
    theirs.run(None, feeds(3))
    assert len(custom_ops.bad_id_counts(models.tag(theirs), str(copy))) == 3
    assert custom_ops.bad_id_counts(models.tag(ours)) == []
    with pytest.raises(LookupError, match="has given no session the tag"):
        custom_ops.bad_id_counts(models.tag(theirs))


def test_a_link_that_leads_elsewhere_later(tmp_path: Path) -> None:
    """Whoever deploys by turning a link gets the library that is loaded, and its path."""
    for name in ("one.so", "other.so"):
        shutil.copy(custom_ops.library_path(), tmp_path / name)
    link = tmp_path / "current.so"
    for target in ("one.so", "other.so"):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        options = ort.SessionOptions()
        options.register_custom_ops_library(str(link))
        session = ort.InferenceSession(model().SerializeToString(), options, providers=["CPUExecutionProvider"])
        session.run(None, feeds(3))
        loaded = options.get_session_config_entry("dpiframe.library")
        assert len(custom_ops.bad_id_counts(models.tag(session), loaded)) == 3


def test_registering_twice_changes_nothing() -> None:
    options = models.options()
    tag = options.get_session_config_entry("dpiframe.session")
    options.register_custom_ops_library(str(custom_ops.library_path()))
    assert options.get_session_config_entry("dpiframe.session") == tag
    session = ort.InferenceSession(model().SerializeToString(), options, providers=["CPUExecutionProvider"])
    session.run(None, feeds(3))


@pytest.mark.parametrize("tag", ["", "no such tag", "999999"])
def test_an_unknown_tag_is_no_tag_without_counts(tag: str) -> None:
    for function in (custom_ops.bad_id_counts, custom_ops.reset_bad_id_counts):
        with pytest.raises(LookupError, match=re.escape(f"has given no session the tag {tag!r}")):
            function(tag)


def test_names_with_quotes_and_long_lists_come_through() -> None:
    name = 'a "quoted" \\ name\n\u00e9' + "x" * 3000
    session = models.session(model((name, name + "2")))
    session.run(None, feeds(10))
    lookups = [count.lookup for count in custom_ops.bad_id_counts(models.tag(session))]
    assert lookups[:2] == [f"ids[0] -> {name}", f"ids[1] -> {name}2"]
