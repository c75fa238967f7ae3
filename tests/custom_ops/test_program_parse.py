"""Hazard: a program that says something else than its writer meant. Each mistake is an error that names its place."""

from __future__ import annotations

import pytest

from dpiframe.custom_ops._kernels import LookupProgram

GOOD = """\
lookup 1
rows 1
bad error
source 26 row
source * row
source 4 row
table 1000 16
table 50 8
output 2 16
output 8
output 4
row 0 0 16 0 0:3 0
row 0 16 16 0 0:4/10%7*2+-3 0
pool 1 0 8 mean 3 1e-08
term 1 1:*+1 0 lt * 0:5
term 1 =7 0 one
term 1 0:25 0 ne 0:25 -1
copy 2 0 4 2 0
"""


def test_the_documented_format_is_accepted() -> None:
    LookupProgram(GOOD)


def test_an_output_without_trailing_axes_has_width_1() -> None:
    LookupProgram("lookup 1\nrows 2\nbad clamp\nsource 1 row\ntable 5 3\noutput\nrow 0 0 1 0 0:0 2\n")


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("lookup 1\n", "lookup 2\n", r"line 1, field 2 \(format version\): is a format .* it knows 1"),
        ("lookup 1\n", "look 1\n", r'line 1, field 1 \(keyword\): is "look" where "lookup" was expected'),
        ("lookup 1\n", "lookup  1\n", r"line 1, field 2 \(format version\): is empty: .* single spaces"),
        ("lookup 1\n", "lookup 1 \n", r"line 1, field 3 \(end of line\)|line 1, field 3"),
        ("rows 1\n", "rows 3\n", r"line 2, field 2 \(row axes\): is 3, outside 1 to 2"),
        ("rows 1\n", "rows\n", r"line 2, field 2 \(row axes\): is missing"),
        ("bad error\n", "bad ignore\n", r'line 3, field 2 \(policy\): is "ignore": error, zero or clamp'),
        ("source 26 row\n", "source 0 row\n", r"line 4, field 2 \(columns\): is 0, outside 1 to"),
        (
            "source 26 row\n",
            "source 26 diagonal\n",
            r'line 4, field 3 \(layout\): is "diagonal": row, column, list or bounds',
        ),
        ("source * row\n", "source * column\n", r"line 5, field 3 \(layout\): .* needs a number of columns"),
        ("source 26 row\n", "source 26 row 1\n", r'line 4, field 4 \(end of line\): was expected, not "1"'),
        ("table 1000 16\n", "table 1000 16.0\n", r'line 7, field 3 \(D\): is "16.0", which is not a whole number'),
        ("table 1000 16\n", "table -1 16\n", r"line 7, field 2 \(V\): is -1, outside 1 to"),
        (
            "table 1000 16\n",
            "table 99999999999999999999 16\n",
            r"line 7, field 2 \(V\): .* not a whole number of 64 bits",
        ),
        ("table 1000 16\n", "table 1000000000000 1000000\n", r"line 7, field 3 \(D\): .* larger than 2\^40 elements"),
        ("output 8\n", "output 8 0\n", r"line 10, field 3 \(trailing shape\): is 0, outside 1 to"),
        (
            "output 8\n",
            "output 8 1 1 1 1 1 1 1 1\n",
            r"line 10, field 10 \(trailing shape\): is a trailing axis too many",
        ),
        ("row 0 0 16 0 0:3 0\n", "row 3 0 16 0 0:3 0\n", r"line 12, field 2 \(output\): is 3, but .* declares 3"),
        ("row 0 0 16 0 0:3 0\n", "row 0 32 16 0 0:3 0\n", r"line 12, field 3 \(first column\): is 32, outside 0 to 31"),
        ("row 0 16 16 0", "row 0 16 17 0", r"line 13, field 4 \(width\): is 17, outside 1 to 16"),
        ("row 0 0 16 0 0:3 0\n", "row 0 0 16 2 0:3 0\n", r"line 12, field 5 \(table\): is 2, but .* declares 2"),
        ("row 0 0 16 0 0:3 0\n", "row 0 0 16 0 0:26 0\n", r"line 12, field 6 \(id\): is 26, but .* declares 26"),
        ("row 0 0 16 0 0:3 0\n", "row 0 0 16 0 3:3 0\n", r"line 12, field 6 \(id\): is 3, but .* declares 3"),
        ("row 0 0 16 0 0:3 0\n", "row 0 0 16 0 1:3 0\n", r"line 12, field 6 \(id\): names a single column"),
        ("row 0 0 16 0 0:3 0\n", "row 0 0 16 0 0:* 0\n", r"line 12, field 7 .*: names all columns \(\*\), which only"),
        ("row 0 0 16 0 0:3 0\n", "row 0 0 16 0 three 0\n", r"line 12, field 6 \(id\): is neither S:C, S:\* nor =N"),
        ("row 0 0 16 0 0:3 0\n", "row 0 0 16 0 0:3 1\n", r"line 12, field 7 .*: leaves fewer elements"),
        ("row 0 0 16 0 0:3 0\n", "row 0 0 16 0 0:3\n", r"line 12, field 7 \(first element\): is missing"),
        ("0:4/10%7", "0:4%7/10", r"line 13, field 6 \(id\): has steps that are not in the order"),
        ("0:4/10%7", "0:4/10/7", r"line 13, field 6 \(id\): has steps that are not in the order"),
        ("0:4/10%7", "0:4/0%7", r"line 13, field 6 \(id\): divides by 0"),
        ("0:4/10%7", "0:4/%7", r'line 13, field 6 \(id\): is "", which is not a whole number'),
        ("mean 3 1e-08", "mode 3 1e-08", r'line 14, field 5 \(pooling\): is "mode": sum, mean or max'),
        ("mean 3 1e-08", "mean 0 1e-08", r"line 14, field 6 \(number of terms\): is 0, outside 1 to"),
        ("mean 3 1e-08", "mean 3 inf", r'line 14, field 7 \(X\): is "inf", which is not a finite float32'),
        ("mean 3 1e-08", "sum 3 1e-08", r"line 14, field 7 \(X\): must be 0 for sum"),
        ("mean 3 1e-08", "mean 4 1e-08", r'line 18, field 1 \(keyword\): is "copy" where "term" was expected'),
        (
            "mean 3 1e-08",
            "mean 2 1e-08",
            r'line 17, field 1 \(keyword\): is "term": copy, row, pool or bag was expected',
        ),
        ("0 lt * 0:5", "0 maybe", r'line 15, field 5 \(weight\): is "maybe": one, ne, lt or col'),
        (
            "=7 0 one",
            "=7 0 lt * 0:5",
            r"line 16, field 6 \(weight position\): is \*, which needs a term over all columns",
        ),
        ("=7 0 one", "=7 0 ne 1:* 0", r"line 16, field 6 \(weight id\): names all columns \(\*\), but the term's id"),
        (
            "=7 0 one",
            "=7 0 col 1 *",
            r"line 16, field 7 \(weight column\): names all columns \(\*\), but the term's id",
        ),
        ("=7 0 one", "0:* 0 col 2 *", r"line 16, field 7 \(weight column\): has 4 columns, the term's id 26"),
        ("=7 0 one", "=7 0 col 1 0", r"line 16, field 7 \(weight column\): names a single column"),
        ("copy 2 0 4 2 0", "copy 2 0 4 2 1", r"line 18, field 6 \(source column\): leaves fewer columns"),
        ("copy 2 0 4 2 0", "copy 2 0 4 1 0", r"line 18, field 5 \(source\): has a dynamic number of columns"),
        ("copy 2 0 4 2 0\n", "copy 2 0 4 2 0", r"line 18: the line is not ended by a newline"),
        ("copy 2 0 4 2 0\n", "copy 2 0 3 2 0\n", r"output 2: column 3 is filled by no block"),
        ("copy 2 0 4 2 0\n", "copy 2 1 3 2 0\n", r"output 2: column 0 is filled by no block"),
        ("copy 2 0 4 2 0\n", "copy 2 0 3 2 0\ncopy 2 2 2 2 0\n", r"output 2: column 2 is filled by two blocks"),
        ("copy 2 0 4 2 0\n", "\n", r"line 18, field 1 \(keyword\): is missing"),
        (
            "copy 2 0 4 2 0\n",
            "copy 2 0 4 2 0\nsource 1 row\n",
            r'line 19, field 1 .*: is "source": copy, row, pool or bag',
        ),
    ],
)
def test_a_mistake_is_named_with_its_line_and_field(good: str, bad: str, message: str) -> None:
    assert GOOD.count(good) == 1
    with pytest.raises(ValueError, match=message):
        LookupProgram(GOOD.replace(good, bad))


def test_no_beginning_of_a_program_is_a_program() -> None:
    for length in range(len(GOOD) - 1):
        with pytest.raises(ValueError, match=r"^(line|output) "):
            LookupProgram(GOOD[:length])


def test_column_layout_needs_one_row_axis() -> None:
    with pytest.raises(ValueError, match=r"line 4, field 3 \(layout\): is column, which needs one row axis"):
        LookupProgram("lookup 1\nrows 2\nbad zero\nsource 2 column\n")


def test_sources_and_outputs_are_required() -> None:
    with pytest.raises(ValueError, match=r'line 4, field 1 .*: is "table" where "source" was expected'):
        LookupProgram("lookup 1\nrows 1\nbad zero\ntable 2 2\noutput 2\n")
    with pytest.raises(ValueError, match=r'line 5: the program ends where a line "output" was expected'):
        LookupProgram("lookup 1\nrows 1\nbad zero\nsource 1 row\n")
