"""Hazard: a program's text reads back as another program."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpiframe.graph_passes.lookups.program import (
    FORMAT_VERSION,
    STAR,
    Copy,
    IdExpr,
    LookupProgram,
    Pool,
    Row,
    Source,
    Table,
    Term,
    Weight,
    float_text,
    parse_id,
    parse_program,
)
from tests.graph_passes.lookups.programs import Case, cases

EXAMPLE = """lookup 1
rows 1
bad clamp
source 3 row
source 2 column
source * row
table 1000 16
table 10 1
output 2 16
output
copy 0 0 2 0 1
row 0 2 16 0 1:0/10%7*2+-1 0
row 0 18 1 1 =5 0
pool 0 19 13 mean 3 1.0e-08
term 0 2:* 3 ne 2:* 0
term 0 0:1 0 lt -1 0:2
term 0 0:2*4 1 col 0 0
pool 1 0 1 max 2 1.0e+09
term 1 2:* 0 lt * 0:1
term 1 0:0 0 one
"""


def test_every_line_of_the_format() -> None:
    program = parse_program(EXAMPLE)
    assert str(program) == EXAMPLE
    assert (program.rows, program.bad_ids) == (1, "clamp")
    assert program.sources == [Source(3), Source(2, "column"), Source(STAR)]
    assert program.tables == [Table(1000, 16), Table(10, 1)]
    assert program.outputs == [(2, 16), ()]
    assert program.blocks[:3] == [
        Copy(0, 0, 2, 0, 1),
        Row(0, 2, 16, 0, IdExpr(1, 0, 10, 7, 2, -1), 0),
        Row(0, 18, 1, 1, IdExpr(None, 5), 0),
    ]
    assert program.blocks[3] == Pool(
        0,
        19,
        13,
        "mean",
        (
            Term(0, IdExpr(2, STAR), 3, Weight("ne", IdExpr(2, STAR), 0)),
            Term(0, IdExpr(0, 1), 0, Weight("lt", IdExpr(0, 2), -1)),
            Term(0, IdExpr(0, 2, mul=4), 1, Weight("col", IdExpr(0, 0))),
        ),
        float(np.float32(1e-8)),
    )
    # -1 is a number: only `*` is the position
    assert program.blocks[4].terms[0].weight == Weight("lt", IdExpr(0, 1), None)  # type: ignore[union-attr]


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(cases())
def test_any_program_reads_back(case: Case) -> None:
    text = str(case.program)
    assert parse_program(text) == case.program
    assert str(parse_program(text)) == text
    assert text.endswith("\n")
    assert "  " not in text


IDS = st.builds(
    IdExpr,
    st.one_of(st.none(), st.integers(0, 99)),
    st.integers(0, 10**6),
    st.integers(1, 2**62),
    st.integers(0, 2**62),
    st.integers(1, 2**62),
    st.integers(-(2**63), 2**63 - 1),
)


@given(IDS)
def test_any_id_reads_back(expr: IdExpr) -> None:
    assert parse_id(str(expr)) == expr


@pytest.mark.parametrize(
    ("text", "expr"),
    [
        ("0:3", IdExpr(0, 3)),
        ("12:*", IdExpr(12, STAR)),
        ("0:*/2%3*4+5", IdExpr(0, STAR, 2, 3, 4, 5)),
        ("0:**4", IdExpr(0, STAR, mul=4)),
        ("0:3+-3", IdExpr(0, 3, add=-3)),
        ("=7", IdExpr(None, 7)),
        ("=-7", IdExpr(None, -7)),
        ("=7*2+1", IdExpr(None, 7, mul=2, add=1)),
    ],
)
def test_ids(text: str, expr: IdExpr) -> None:
    assert parse_id(text) == expr
    assert str(expr) == text


@given(st.floats(width=32, allow_nan=False))
def test_floats_read_back_to_the_same_float32(value: float) -> None:
    assert np.float32(float_text(value)) == np.float32(value)
    assert " " not in float_text(value)


@pytest.mark.parametrize("text", ["0", "0.0"])
def test_zero(text: str) -> None:
    assert float_text(float(text)) == "0"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("rows one", "line 4"),
        ("source 3", "line 4"),
        ("table 10", "line 4"),
        ("output 2 x", "line 4"),
        ("copy 0 0 1 0", "line 4"),
        ("copy 0 0 1 0 0 0", "line 4"),
        ("row 0 0 4 0 0:0", "line 4"),
        ("row 0 0 4 0 0;0 0", "line 4"),
        ("pool 0 0 4 sum 1 0\nrow 0 0 4 0 0:0 0", "expected a term, found 'row'"),
        ("pool 0 0 4 sum 1 0\nterm 0 0:0 0 often", "unknown weight 'often'"),
        ("pool 0 0 4 sum two 0", "line 4"),
        ("lookup 2", "unknown line kind 'lookup'"),
        ("", "unknown line kind ''"),
        ("scatter 0", "unknown line kind 'scatter'"),
    ],
)
def test_lines_that_are_none(line: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=r"^line \d+: ") as caught:
        parse_program(f"lookup 1\nrows 1\nbad error\n{line}\n")
    assert complaint in str(caught.value)


@pytest.mark.parametrize("text", ["", "\n", "lookup 2\n", "lookup\n", "rows 1\n", "lookup 1 \n"])
def test_other_versions_and_other_texts(text: str) -> None:
    with pytest.raises(ValueError, match=f"line 1: expected 'lookup {FORMAT_VERSION}'"):
        parse_program(text)


def test_defaults() -> None:
    assert str(LookupProgram()) == "lookup 1\nrows 1\nbad error\n"
    assert parse_program("lookup 1\n") == LookupProgram()


def test_programs_do_not_share_their_lists() -> None:
    one, other = LookupProgram(), LookupProgram()
    one.sources.append(Source(1))
    assert other.sources == []
