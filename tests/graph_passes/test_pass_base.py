"""Hazard: a pass starts from, or leaves behind, a graph that others don't expect, and nobody is told."""

from __future__ import annotations

import pytest

from dpiframe.graph_passes.pass_base import ConditionError, Pass
from dpiframe.graph_passes.pipeline import PASSES
from dpiframe.graph_passes.report import PassReport, Refusal
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import parse


def has_relu(bench: Workbench) -> str | None:
    return None if any(node.op == "Relu" for node in bench.graph.nodes) else "there is no Relu"


def no_relu(bench: Workbench) -> str | None:
    return "there is a Relu" if has_relu(bench) is None else None


class Rename(Pass):
    """Relu nodes become Abs nodes."""

    name = "rename"
    requires = (has_relu,)
    ensures = (no_relu,)

    def run(self, bench: Workbench) -> PassReport:
        for node in bench.graph.nodes:
            node.op = "Abs"
        return PassReport(self.name, ["renamed"])


class DoNothing(Rename):
    name = "do_nothing"

    def run(self, bench: Workbench) -> PassReport:
        return PassReport(self.name)


def bench() -> Workbench:
    return Workbench(parse("(float[2] x) => (float[2] y) { y = Relu(x) }"))


def test_a_pass_whose_conditions_hold() -> None:
    assert Rename()(bench()).changes == ["renamed"]


def test_a_pass_that_does_not_accept_the_graph() -> None:
    on = bench()
    Rename()(on)
    with pytest.raises(ConditionError, match=r"^before pass rename: there is no Relu$"):
        Rename()(on)


def test_a_pass_that_breaks_its_promise() -> None:
    with pytest.raises(ConditionError, match=r"^after pass do_nothing: there is a Relu$"):
        DoNothing()(bench())


def test_every_pass_has_a_name_and_says_what_it_does_and_leaves() -> None:
    names = [kind.name for kind in PASSES]
    assert names == ["canonicalize", "fuse_lookups", "fuse_gemm", "fuse_elementwise", "assign_streams", "cleanup"]
    for kind in PASSES:
        assert kind.__doc__
        assert "Left alone:" in kind.__doc__
        assert not kind.__doc__.startswith("Abstract")


def test_reports_keep_order_and_reasons() -> None:
    report = PassReport("p")
    report.refuse("n", "because")
    report.refuse("m", "of that")
    assert report.refusals == [Refusal("n", "because"), Refusal("m", "of that")]
    assert PassReport("q").refusals == []
