"""Hazard: a program under construction loses a value, keeps two of one, or puts views together wrongly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpiframe.graph_passes.elementwise import lines as module
from dpiframe.graph_passes.elementwise.indices import grid
from dpiframe.graph_passes.elementwise.lines import Expr, Lines, RefusedError, is_float, wide
from dpiframe.graph_passes.elementwise.program import parse_program
from tests.custom_ops import elementwise_reference


def body(lines: Lines, *outputs: Expr) -> list[str]:
    """The program's lines behind its header and its inputs."""
    text = str(lines.program(outputs))
    assert str(parse_program(text)) == text
    return [line for line in text.splitlines()[2:] if not line.startswith("input")]


def one(*sizes: int, kind: str = "f32") -> tuple[Lines, Expr]:
    lines = Lines(1)
    return lines, lines.input(kind, "x", sizes)


def test_arithmetic_as_python_writes_it() -> None:
    lines, x = one(4)
    y = -((2 * x + 1) / (x - 3) - 1 / x)
    assert body(lines, y) == [
        "const f32 2e+00",
        "mul f32 4 : 1 0",
        "const f32 1e+00",
        "add f32 4 : 2 3",
        "const f32 3e+00",
        "sub f32 4 : 0 5",
        "div f32 4 : 4 6",
        "div f32 4 : 3 0",
        "sub f32 4 : 7 8",
        "neg f32 4 : 9",
        "output 10",
    ]


def test_comparisons_give_bools() -> None:
    lines, x = one(4)
    assert [(x < 1).type, (x > x).type, (x >= 0).type] == ["bool"] * 3
    assert body(lines, x < 1) == ["const f32 1e+00", "lt bool 4 : 0 1", "output 2"]


def test_equal_values_are_one() -> None:
    _, x = one(4)
    assert (x * x + 1).number == (x * x + 1).number
    assert (x + 0.0).number != (x + -0.0).number
    assert (x + float("nan")).number == (x + float("nan")).number


def test_inputs_are_never_one() -> None:
    lines = Lines(1)
    assert lines.input("f32", "x", (4,)).number != lines.input("f32", "x", (4,)).number


def test_inputs_come_first_and_stay_though_nothing_reads_them() -> None:
    lines, x = one(4)
    y = x + 1
    lines.input("i64", "-", (2,))
    assert str(lines.program([y])).splitlines()[2:] == [
        "input f32 x 4",
        "input i64 - 2",
        "const f32 1e+00",
        "add f32 4 : 0 2",
        "output 3",
    ]


def test_what_no_output_needs_is_left_out() -> None:
    lines, x = one(4)
    x * 7
    y = x + 1
    y - 5
    assert body(lines, y) == ["const f32 1e+00", "add f32 4 : 0 1", "output 2"]


def test_several_outputs_in_their_order() -> None:
    lines, x = one(4)
    y = -x
    z = -y
    assert body(lines, z, y) == ["neg f32 4 : 0", "neg f32 4 : 1", "output 2", "output 1"]


def test_operands_broadcast() -> None:
    lines, x = one(26, 16)
    w = lines.input("f32", "-", (16,))
    assert (x * w).sizes == (26, 16)
    assert (w * x).sizes == (26, 16)
    assert (lines.reduce("sum", x, [0], True) * w).sizes == (1, 16)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda lines, x: x + lines.input("f32", "-", (3,)), "don't fit each other"),
        (lambda lines, x: x + lines.input("i64", "-", (4,)), "add of f32 and i64"),
        (lambda lines, x: lines.apply("exp", lines.input("i64", "-", (4,))), "exp of i64"),
        (lambda lines, x: lines.apply("and", x, x), "and of f32"),
        (lambda lines, x: lines.apply("where", x, x, x), "where of f32"),
        (lambda lines, x: lines.reduce("sum", x < 1, [0], True), "sum of bool"),
        (lambda lines, x: lines.input("f32", "x", (1,) * 9), "more than 8 axes"),
        (lambda lines, x: lines.expand(x, (1 << 19, 4)), "more than 1048576 elements"),
        (lambda lines, x: lines.view(x, np.arange(1 << 15) * 7 % 5 % 4), "picks 32768 elements"),
    ],
)
def test_what_no_program_holds(make: Callable[[Lines, Expr], Expr], reason: str) -> None:
    lines, x = one(4)
    with pytest.raises(RefusedError, match=reason):
        make(lines, x)


def test_an_output_must_have_every_row_axis() -> None:
    lines = Lines(2)
    a, b = lines.input("f32", "x-", (4,)), lines.input("f32", "-x", (4,))
    for lacking in (a, b, a * 2, lines.const("f32", 1)):
        with pytest.raises(RefusedError, match="rows don't come from"):
            lines.program([lacking])
    assert body(lines, a * b)[0] == "mul f32 4 : 0 1"


def test_a_program_has_at_most_4096_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_VALUES", 8)
    lines, x = one(4)
    for _ in range(7):
        x = -x
    assert len(body(lines, x)) == 8
    with pytest.raises(RefusedError, match="more than 8 values"):
        lines.program([-x])


def test_casts() -> None:
    lines, x = one(4)
    assert lines.cast("f32", x).number == x.number
    assert body(lines, lines.cast("i64", x)) == ["cast i64 4 : 0", "output 1"]
    half = lines.input("f16", "x", (4,))
    assert wide(half).type == "f32"
    assert wide(x).number == x.number
    assert is_float(half)
    assert not is_float(lines.cast("i64", x))


def test_reductions_with_and_without_ones() -> None:
    lines, x = one(3, 4, 5)
    assert body(lines, lines.reduce("sum", x, [1], False))[0] == "sum f32 3 5 : 0 1"
    assert body(lines, lines.reduce("max", x, [2, 0], True))[0] == "max f32 1 4 1 : 0 0 2"
    assert body(lines, lines.reduce("prod", x, [0, 1, 2], False))[0] == "prod f32 : 0 0 1 2"


def test_a_reduction_over_axes_of_one_element_is_a_view() -> None:
    lines, x = one(3, 1)
    assert body(lines, lines.reduce("sum", x, [1], False) + 1)[0] == "view f32 3 : 0 0 1"
    assert lines.reduce("sum", x, [1], True).number == x.number


# views


def test_a_view_that_changes_nothing_is_its_operand() -> None:
    lines, x = one(3, 4)
    assert lines.view(x, grid((3, 4))).number == x.number
    assert lines.reshape(lines.reshape(x, (12,)), (3, 4)).number == x.number
    turned = lines.view(x, grid((3, 4)).T)
    assert lines.view(turned, grid((4, 3)).T).number == x.number


def test_views_of_views_are_one_view() -> None:
    lines, x = one(3, 4)
    turned = lines.view(x, grid((3, 4)).T)
    second = lines.view(turned, grid((4, 3))[1:3])
    assert body(lines, second) == ["view f32 2 3 : 0 1 1 4", "output 1"]


def test_views_that_no_strides_describe_together_stay_two() -> None:
    lines, x = one(3, 4)
    turned = lines.view(x, grid((3, 4)).T)
    flat = lines.reshape(turned, (12,))
    assert body(lines, flat) == ["view f32 4 3 : 0 0 1 4", "view f32 12 : 1 0 1", "output 2"]


def test_picks() -> None:
    lines, x = one(4)
    picked = lines.view(x, np.array([[0, 3], [3, 1]]))
    assert body(lines, picked) == ["pick f32 2 2 : 0 0 3 3 1", "output 1"]
    assert body(lines, lines.view(picked, np.array([2, 0]))) == ["view f32 2 : 0 3 -3", "output 1"]
    assert body(lines, lines.view(picked, np.array([1, 2, 0]))) == ["pick f32 3 : 0 3 3 0", "output 1"]


def test_a_view_into_one_part_of_a_join() -> None:
    lines, x = one(3)
    y = lines.input("f32", "x", (2,))
    joined = lines.join(0, [x, y])
    assert lines.view(joined, np.array([0, 1, 2])).number == x.number
    assert lines.view(joined, np.array([3, 4])).number == y.number
    assert body(lines, lines.view(joined, np.array([4]))) == ["view f32 1 : 1 1 0", "output 2"]
    across = lines.view(joined, np.array([2, 3]))
    assert body(lines, across) == ["join f32 5 : 0 0 1", "view f32 2 : 2 2 1", "output 3"]


def test_a_view_into_one_part_of_a_join_of_the_inner_axis() -> None:
    lines, x = one(2, 3)
    y = lines.input("f32", "x", (2, 2))
    joined = lines.join(1, [x, y])
    assert lines.view(joined, grid((2, 5))[:, 3:]).number == y.number
    assert body(lines, lines.view(joined, grid((2, 5))[1, :2])) == ["view f32 2 : 0 3 1", "output 2"]


def test_broadcasting_takes_the_place_of_an_expansion() -> None:
    lines, x = one(1, 4)
    y = lines.input("f32", "x", (3, 4))
    wide_x = lines.expand(x, (3, 4))
    assert body(lines, wide_x * y) == ["mul f32 3 4 : 0 1", "output 2"]
    assert body(lines, y - wide_x) == ["sub f32 3 4 : 1 0", "output 2"]
    # here nothing else has the size
    assert body(lines, wide_x * 2)[0] == "view f32 3 4 : 0 0 0 1"
    assert body(lines, wide_x * wide_x) == ["view f32 3 4 : 0 0 0 1", "mul f32 3 4 : 0 2", "output 3"]


def test_an_expansion_of_both_operands_stays_once() -> None:
    lines, x = one(1, 4)
    wide_x = lines.expand(x, (3, 4))
    assert (wide_x * wide_x).sizes == (3, 4)
    (product,) = elementwise_reference.run(str(lines.program([wide_x * wide_x])), [np.ones((2, 1, 4), np.float32)])
    assert product.shape == (2, 3, 4)


@given(st.data())
def test_views_of_anything_read_what_numpy_reads(data: st.DataObject) -> None:
    """Chains of reshapes, transposes, slices, picks, expansions and joins, against numpy on the values themselves."""
    lines, x = one(2, 3)
    rows = np.random.default_rng(0).normal(size=(2, 2, 3)).astype(np.float32)
    value, want = x, rows
    for _ in range(data.draw(st.integers(1, 5))):
        step = data.draw(st.sampled_from(["turn", "flat", "cut", "pick", "repeat", "join"]))
        positions = grid(value.sizes)
        if step == "turn":
            order = data.draw(st.permutations(range(positions.ndim)))
            value, want = lines.view(value, positions.transpose(order)), want.transpose([0, *(a + 1 for a in order)])
        elif step == "flat":
            value, want = lines.reshape(value, (positions.size,)), want.reshape(2, -1)
        elif step == "cut":
            value, want = lines.view(value, positions[::-1]), want[:, ::-1]
        elif step == "pick":
            index = data.draw(st.lists(st.integers(0, positions.shape[0] - 1), min_size=1, max_size=4))
            value, want = lines.view(value, positions[index]), want[:, index]
        elif step == "repeat" and positions.size < 50:
            value = lines.expand(value, (2, *value.sizes))
            want = np.broadcast_to(want[:, None], (2, 2, *want.shape[1:]))
        elif step == "join" and positions.size < 50:
            value, want = lines.join(0, [value, value]), np.concatenate([want, want], axis=1)
    assert value.sizes == want.shape[1:]
    # an output is no input
    (got,) = elementwise_reference.run(str(lines.program([-value])), [rows])
    np.testing.assert_array_equal(got, -want)
