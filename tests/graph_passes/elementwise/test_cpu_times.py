"""Hazard: the model of the CPU kernel's times has a sign wrong, or counts per row what is computed once."""

from __future__ import annotations

import pytest

from dpiframe.graph_passes.elementwise import cpu_times
from dpiframe.graph_passes.elementwise.cpu_times import lost
from dpiframe.graph_passes.elementwise.program import parse_program


def loss(*lines: str) -> float:
    return lost(parse_program("\n".join(["elementwise 1", "rows 1", *lines]) + "\n"))


def test_arithmetic_loses_nothing() -> None:
    assert loss("input f32 x 100", "mul f32 100 : 0 0", "relu f32 100 : 1", "max f32 1 : 2 0", "output 3") == 0


@pytest.mark.parametrize("name", sorted(set(cpu_times.SLOWER) - {"where", "pow", "fmod"}))
def test_operators_lose_or_gain_by_the_element(name: str) -> None:
    first = loss("input f32 x 100", f"{name} f32 100 : 0", "output 1")
    assert first == pytest.approx(100 * cpu_times.SLOWER[name])
    assert loss("input f32 x 10", f"{name} f32 10 : 0", "output 1") == pytest.approx(first / 10)


def test_what_is_the_same_for_all_rows_is_computed_once() -> None:
    weights = ("input f32 x 100", "input f32 - 100", "tanh f32 100 : 1")
    assert loss(*weights, "mul f32 100 : 0 2", "output 3") == 0
    assert loss(*weights, "mul f32 100 : 0 2", "tanh f32 100 : 3", "output 4") == pytest.approx(
        100 * cpu_times.SLOWER["tanh"]
    )


def test_values_of_one_of_two_row_axes_count() -> None:
    lines = [
        "elementwise 1",
        "rows 2",
        "input f32 x- 10",
        "input f32 -x 10",
        "tanh f32 10 : 0",
        "mul f32 10 : 2 1",
        "output 3",
    ]
    assert lost(parse_program("\n".join(lines) + "\n")) == pytest.approx(10 * cpu_times.SLOWER["tanh"])


@pytest.mark.parametrize(
    ("view", "nanoseconds"),
    [
        # whole, or in long pieces
        ("view f32 600 : 0 0 1", 0),
        ("view f32 30 20 : 0 0 20 1", 0),
        ("view f32 15 20 : 0 0 40 1", 0),
        ("view f32 100 4 : 0 0 6 1", 0),
        # repeated
        ("view f32 600 3 : 0 0 1 0", 0),
        ("view f32 3 600 : 0 0 0 1", 0),
        # two or three at a time
        ("view f32 100 2 : 0 0 6 1", 200 * cpu_times.SHORT_RUN),
        ("view f32 100 1 3 : 0 0 6 0 1", 300 * cpu_times.SHORT_RUN),
        # one at a time, which is a loop
        ("view f32 20 30 : 0 0 1 20", 0),
        ("view f32 300 : 0 0 2", 0),
        ("view f32 600 : 0 599 -1", 0),
    ],
)
def test_views_by_how_many_elements_lie_together(view: str, nanoseconds: float) -> None:
    assert loss("input f32 x 30 20", view, "output 1") == pytest.approx(nanoseconds)


def test_picks_lose_nothing() -> None:
    assert loss("input f32 x 9", "pick f32 4 : 0 8 0 3 3", "output 1") == 0
