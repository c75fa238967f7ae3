"""Hazard: a program that says something else than its writer meant. Each mistake is an error that names its place."""

from __future__ import annotations

import pytest

from dpiframe.custom_ops._kernels import ElementwiseProgram
from dpiframe.custom_ops.elementwise_operators import OPERATORS

GOOD = """\
elementwise 1
rows 1
input f32 x 26 16
input f32 - 16
input i64 x 3
const f32 5e-1
const i64 -7
mul f32 26 16 : 0 1
sum f32 16 : 5 0
cast i64 16 : 6
view f32 3 16 : 0 5 16 1
pick f32 2 2 : 0 0 5 6 415
join f32 29 16 : 0 0 8
max f32 1 16 : 10 0
ge bool 16 : 6 3
where f32 16 : 12 6 3
output 13
output 10
"""


def test_the_documented_format_is_accepted() -> None:
    ElementwiseProgram(GOOD)


@pytest.mark.parametrize(
    "text", ["5e-1", "-0", "inf", "-inf", "nan", "1e-45", "3.4028235e+38", "7", "1e+10", "1.17549435e-38"]
)
def test_numbers(text: str) -> None:
    ElementwiseProgram(GOOD.replace("const f32 5e-1", f"const f32 {text}"))


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("elementwise 1\n", "elementwise 2\n", r"line 1, field 2 \(format version\): is a format .* it knows 1"),
        ("elementwise 1\n", "lookup 1\n", r'line 1, field 1 \(keyword\): is "lookup" where "elementwise"'),
        ("rows 1\n", "rows 3\n", r"line 2, field 2 \(row axes\): is 3, outside 1 to 2"),
        ("rows 1\n", "rows 1 \n", r"line 2, field 3"),
        ("input f32 x 26", "input f32  x 26", r"line 3, field 3 \(row axes\): is empty: .* single spaces"),
        ("input f32 x 26", "input f8 x 26", r'line 3, field 2 \(type\): is "f8": f32, f16, f64, i32, i64 or bool'),
        ("input f32 x 26", "input f32 xx 26", r'line 3, field 3 \(row axes\): is "xx": an x or a - for each of the 1'),
        ("input f32 x 26", "input f32 y 26", r'line 3, field 3 \(row axes\): is "y"'),
        ("input f32 x 26", "input f32 x 0", r"line 3, field 4 \(sizes\): is 0, outside 1 to 1048576"),
        ("input f32 x 26", "input f32 x 65537", r"line 3, field 5 \(sizes\): makes the value larger than 2\^20"),
        ("input i64 x 3", "input i64 x 1 1 1 1 1 1 1 1 3", r"line 5, field 12 \(sizes\): is a size too many"),
        ("const f32 5e-1", "const f32 half", r'line 6, field 3 \(number\): is "half", which is not a number'),
        ("const f32 5e-1", "const f32 1e39", r"line 6, field 3 \(number\): .* not a number of this type"),
        ("const i64 -7", "const i64 7.0", r"line 7, field 3 \(number\): .* not a whole number"),
        ("const i64 -7", "const i32 3000000000", r"line 7, field 3 \(number\): is 3000000000, outside"),
        ("const i64 -7", "const bool 2", r"line 7, field 3 \(number\): is 2, outside 0 to 1"),
        ("mul f32 26 16 : 0 1", "multiply f32 26 16 : 0 1", r'line 8, field 1 \(name\): is "multiply", which is no op'),
        ("mul f32 26 16 : 0 1", "mul f32 26 16 0 1", r"line 8, field 5 \(sizes\): is 0, outside"),
        ("mul f32 26 16 : 0 1", "mul f32 26 16 : 0 5", r"line 8, field 7 \(operand\): is 5, but 5 values stand before"),
        ("mul f32 26 16 : 0 1", "mul f32 26 16 : 0 -1", r"line 8, field 7 \(operand\): is -1"),
        ("mul f32 26 16 : 0 1", "mul f32 26 16 : 0", r"line 8, field 7 \(operand\): is missing"),
        ("mul f32 26 16 : 0 1", "mul f32 26 16 : 0 1 1", r'line 8, field 8 \(end of line\): was expected, not "1"'),
        ("mul f32 26 16 : 0 1", "mul f32 26 16 : 0 4", r"line 8, field 7 \(operand\): is of type i64 where f32"),
        ("mul f32 26 16 : 0 1", "mul f32 16 : 0 1", r"line 8, field 5 \(operand\): has the sizes 26 16, which don't"),
        ("mul f32 26 16 : 0 1", "mul f32 26 17 : 0 1", r"line 8, field 6 \(operand\): .* don't broadcast to 26 17"),
        ("mul f32 26 16 : 0 1", "mod f32 26 16 : 0 1", r"line 8, field 6 \(operand\): is of type f32, which mod does"),
        ("mul f32 26 16 : 0 1", "and f32 26 16 : 0 1", r"is of type f32, which and does not take"),
        (
            "sum f32 16 : 5 0",
            "sum f32 16 : 5 1",
            r"line 9, field 6 \(axis\): leaves the sizes 26, but the result has 16",
        ),
        ("sum f32 16 : 5 0", "sum f32 16 : 5 0 0", r"line 9, field 7 \(axis\): is 0, outside 1 to 1"),
        ("sum f32 16 : 5 0", "sum f32 16 : 5 0 1 2", r"line 9, field 8 \(axis\): is an axis too many"),
        ("sum f32 16 : 5 0", "sum f32 16 : 5 2", r"line 9, field 6 \(axis\): is 2, outside 0 to 1"),
        ("sum f32 16 : 5 0", "sum f32 16 : 5", r"line 9, field 6 \(axis\): is missing"),
        ("sum f32 16 : 5 0", "sum f64 16 : 5 0", r"line 9, field 5 \(operand\): is of type f32 where f64"),
        ("cast i64 16 : 6", "cast i64 1 16 : 6", r"line 10, field 6 \(operand\): has the sizes 16, the result 1 16"),
        (
            "view f32 3 16 : 0 5 16 1",
            "view f32 3 16 : 0 416 16 1",
            r"line 11, field 7 \(offset\): is 416, outside 0 to",
        ),
        ("view f32 3 16 : 0 5 16 1", "view f32 3 16 : 0 5 200 1", r"line 11, field 9 \(stride\): leads outside .* 416"),
        ("view f32 3 16 : 0 5 16 1", "view f32 3 16 : 0 5 -16 1", r"line 11, field 8 \(stride\): leads outside"),
        ("view f32 3 16 : 0 5 16 1", "view f32 3 16 : 0 5 16", r"line 11, field 9 \(stride\): is missing"),
        ("pick f32 2 2 : 0 0 5 6 415", "pick f32 2 2 : 0 0 5 6 416", r"line 12, field 10 \(index\): is 416, outside 0"),
        ("pick f32 2 2 : 0 0 5 6 415", "pick f32 2 2 : 0 0 5 6", r"line 12, field 10 \(index\): is missing"),
        (
            "join f32 29 16 : 0 0 8",
            "join f32 28 16 : 0 0 8",
            r"line 13, field 8 \(operand\): ends the join at 29 of 28",
        ),
        ("join f32 29 16 : 0 0 8", "join f32 29 16 : 2 0 8", r"line 13, field 6 \(axis\): is 2, outside 0 to 1"),
        ("join f32 29 16 : 0 0 8", "join f32 29 16 : 0 0 6", r"line 13, field 8 \(operand\): has the sizes 16, which"),
        ("ge bool 16 : 6 3", "ge f32 16 : 6 3", r"line 15, field 4 \(sizes\): .* but ge gives bool"),
        ("where f32 16 : 12 6 3", "where f32 16 : 6 6 3", r"line 16, field 5 \(operand\): is of type f32 where bool"),
        ("output 10\n", "output 14\n", r"line 18, field 2 \(value\): is 14, but the program declares 14"),
        ("output 10\n", "output 1\n", r"line 18, field 2 \(value\): doesn't depend on row axis 0"),
        ("output 10\n", "output 10", r"line 18: the line is not ended by a newline"),
        ("output 13\noutput 10\n", "", r'the program ends where a line "output" was expected'),
        ("output 10\n", "output 10\nconst f32 1\n", r'line 19, field 1 \(keyword\): is "const" where "output"'),
        ("const f32 5e-1\n", "const f32 5e-1\ninput f32 x\n", r'line 7, field 1 \(name\): is "input", which is no'),
    ],
)
def test_mistakes_are_named(good: str, bad: str, message: str) -> None:
    assert good in GOOD
    with pytest.raises(ValueError, match=message):
        ElementwiseProgram(GOOD.replace(good, bad, 1))


def test_both_row_axes_have_to_be_in_an_output() -> None:
    text = "elementwise 1\nrows 2\ninput f32 x- 2\nneg f32 2 : 0\noutput 1\n"
    with pytest.raises(ValueError, match=r"line 5, field 2 \(value\): doesn't depend on row axis 1"):
        ElementwiseProgram(text)


def test_too_many_values() -> None:
    lines = ["elementwise 1", "rows 1", "input f32 x", *(f"neg f32 : {i}" for i in range(4096)), "output 4096", ""]
    with pytest.raises(ValueError, match=r"line 4099.*: is on a line too many: a program has at most 4096"):
        ElementwiseProgram("\n".join(lines))
    ElementwiseProgram("\n".join([*lines[:-3], "output 4095", ""]))


def test_names_of_reductions_are_no_operators() -> None:
    assert not {"sum", "max", "min", "prod"} & {operator.name for operator in OPERATORS}
