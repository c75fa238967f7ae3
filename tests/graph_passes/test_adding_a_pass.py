"""Hazard: the guide to adding a pass shows code that doesn't work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dpiframe.graph_passes import pipeline

GUIDE = Path(__file__).parents[2] / "docs" / "adding-a-pass.md"


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


def test_the_worked_example_works(monkeypatch: pytest.MonkeyPatch) -> None:
    code, tests = blocks()
    made: dict[str, Any] = {"__name__": "drop_repeated_relu"}
    exec(compile(code, str(GUIDE), "exec"), made)
    first, *others = pipeline.PASSES
    monkeypatch.setattr(pipeline, "PASSES", (first, made["DropRepeatedRelu"], *others))
    checks: dict[str, Any] = {}
    exec(compile(tests, str(GUIDE), "exec"), checks)
    run = [check for name, check in checks.items() if name.startswith("test_")]
    assert len(run) == 3
    for check in run:
        check()


def test_without_the_pass_its_tests_fail() -> None:
    checks: dict[str, Any] = {}
    exec(compile(blocks()[1], str(GUIDE), "exec"), checks)
    with pytest.raises(AssertionError):
        checks["test_a_repeated_relu_goes"]()


def test_the_guide_names_what_there_is() -> None:
    text = GUIDE.read_text()
    from dpiframe.graph_passes import functions, graphs
    from dpiframe.graph_passes.canonicalize import constants
    from dpiframe.graph_passes.workbench import Workbench

    rows = dict(re.findall(r"\| `([^`]+)` \| (.*) \|", text))
    for module, where in ((graphs, "graphs.py"), (functions, "functions.py"), (constants, "canonicalize/constants.py")):
        for name in re.findall(r"`(\w+)`", rows[where]):
            assert hasattr(module, name), name
    known = set(dir(Workbench)) | {"graph", "functions", "overridable", "provider", "bad_ids"}
    for name in re.findall(r"`(\w+)", rows["Workbench"]):
        assert name in known, name
