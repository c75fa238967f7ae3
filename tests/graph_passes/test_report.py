"""Hazard: reports of two passes run together, or a reason is lost."""

from __future__ import annotations

import dataclasses

import pytest

from dpiframe.graph_passes.report import PassReport, Refusal


def test_refusals_keep_their_order() -> None:
    report = PassReport("p")
    report.refuse("first", "one reason")
    report.refuse("second", "another")
    report.refuse("first", "and one more")
    assert report.refusals == [
        Refusal("first", "one reason"),
        Refusal("second", "another"),
        Refusal("first", "and one more"),
    ]


def test_reports_share_nothing() -> None:
    one, other = PassReport("one"), PassReport("other")
    one.changes.append("changed")
    one.refuse("n", "r")
    assert (other.changes, other.refusals) == ([], [])


def test_a_refusal_does_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Refusal("n", "r").reason = "other"  # type: ignore[misc]
