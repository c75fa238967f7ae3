"""Hazard: a program reads back as another one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpiframe.custom_ops.elementwise_operators import OPERATORS
from dpiframe.graph_passes.elementwise.program import (
    Const,
    ElementwiseProgram,
    Input,
    Line,
    elements,
    number_text,
    parse_program,
)

TEXT = """elementwise 1
rows 2
input f32 xx 26 16
input i64 x-
input f16 -- 1
const f32 5e-01
const bool 1
mul f32 26 16 : 0 0
cast f32 : 1
view f32 16 26 : 5 0 1 16
pick f32 3 : 7 0 5 5
join f32 32 26 : 0 7 7
sum f32 16 : 0 0
max f32 1 26 : 7 0
output 5
output 9
"""


def test_a_program_with_every_kind_of_line() -> None:
    program = parse_program(TEXT)
    assert str(program) == TEXT
    assert program.rows == 2
    assert program.inputs == [Input("f32", "xx", (26, 16)), Input("i64", "x-", ()), Input("f16", "--", (1,))]
    assert program.values[3:6] == [Const("f32", 0.5), Const("bool", 1), Line("mul", "f32", (26, 16), (0, 0))]
    assert program.values[6] == Line("cast", "f32", (), (1,))
    assert program.values[7] == Line("view", "f32", (16, 26), (5,), (0, 1, 16))
    assert program.values[8] == Line("pick", "f32", (3,), (7,), (0, 5, 5))
    assert program.values[9] == Line("join", "f32", (32, 26), (7, 7), (0,))
    assert program.values[10:] == [Line("sum", "f32", (16,), (0,), (0,)), Line("max", "f32", (1, 26), (7,), (0,))]
    assert program.outputs == [5, 9]


@pytest.mark.parametrize(
    ("kind", "number", "text"),
    [
        ("f32", 0.1, "1e-01"),
        ("f32", 1 / 3, "3.3333334e-01"),
        ("f64", 1 / 3, "3.333333333333333e-01"),
        ("f16", 1 / 3, "3.333e-01"),
        ("f32", -0.0, "-0"),
        ("f32", 0.0, "0"),
        ("f32", float("inf"), "inf"),
        ("f32", float("-inf"), "-inf"),
        ("f32", float("nan"), "nan"),
        ("f32", 1e-45, "1e-45"),
        ("f16", 1e6, "inf"),
        ("i64", -(1 << 63), "-9223372036854775808"),
        ("i32", 7, "7"),
        ("bool", True, "1"),
    ],
)
def test_numbers(kind: str, number: float, text: str) -> None:
    with np.errstate(over="ignore"):
        assert number_text(kind, number) == text


@given(st.floats(width=32), st.sampled_from(["f32", "f64"]))
@settings(max_examples=500)
def test_any_float_reads_back_to_itself(number: float, kind: str) -> None:
    dtype = {"f32": np.float32, "f64": np.float64}[kind]
    back = dtype(float(number_text(kind, number)))
    assert back.tobytes() == dtype(number).tobytes() or (np.isnan(back) and np.isnan(number))


@given(st.floats(width=16))
def test_any_half_float_reads_back_to_itself(number: float) -> None:
    back = np.float16(float(number_text("f16", number)))
    assert back.tobytes() == np.float16(number).tobytes() or (np.isnan(back) and np.isnan(number))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_any_integer_reads_back_to_itself(number: int) -> None:
    assert int(number_text("i64", number)) == number


sizes = st.lists(st.integers(1, 9), max_size=4).map(tuple)
kinds = st.sampled_from(["f32", "f16", "f64", "i32", "i64", "bool"])
lines = st.one_of(
    st.builds(lambda o, k, s: Line(o.name, k, s, tuple(range(o.arity))), st.sampled_from(OPERATORS), kinds, sizes),
    st.builds(lambda k, s: Line("cast", k, s, (0,)), kinds, sizes),
    st.builds(lambda n, k, s, x: Line(n, k, s, (1,), tuple(x)), st.sampled_from(["view", "pick", "sum", "prod"]), kinds, sizes, st.lists(st.integers(-9, 9), min_size=1, max_size=5)),
    st.builds(lambda k, s, a: Line("join", k, s, (0, 1, 2), (a,)), kinds, sizes, st.integers(0, 3)),
)  # fmt: skip


@given(st.lists(lines, max_size=8), st.sampled_from([1, 2]), st.lists(st.integers(0, 9), max_size=3))
@settings(max_examples=300)
def test_any_program_reads_back_to_itself(values: list[Line], rows: int, outputs: list[int]) -> None:
    first = [Input("f32", "x" * rows, (3, 4)), Input("f32", "-" * rows, ()), Const("f32", 2.0)]
    program = ElementwiseProgram(rows, [*first, *values], outputs)
    again = parse_program(str(program))
    assert again == program
    assert str(again) == str(program)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected 'elementwise 1'"),
        ("elementwise 2\nrows 1\n", "line 1: expected 'elementwise 1'"),
        ("elementwise 1\nrows one\n", "line 2: "),
        ("elementwise 1\nrows 1\ninput f32\n", "line 3: "),
        ("elementwise 1\nrows 1\nconst f32\n", "line 3: "),
        ("elementwise 1\nrows 1\nconst f32 two\n", "line 3: "),
        ("elementwise 1\nrows 1\nadd f32 4 0 0\n", "line 3: "),
        ("elementwise 1\nrows 1\nadd f32 x : 0 0\n", "line 3: "),
        ("elementwise 1\nrows 1\noutput\n", "line 3: "),
    ],
)
def test_what_is_no_program(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        parse_program(text)


def test_elements() -> None:
    assert [elements(s) for s in ((), (3,), (3, 4), (1, 1))] == [1, 3, 12, 1]
