"""Hazard: a FusedGemm program that says something else than its writer meant."""

from __future__ import annotations

import pytest

from dpiframe.custom_ops._kernels import GemmProgram

GOOD = """\
gemm 1
precision fp32
weight nk
size 624 256
step add vector 2
step mul matrix 3
step leakyrelu 0.25
step prelu column 4
step sub scalar 5
step mul matrix 3
step gelu
"""


def test_the_documented_format_is_accepted() -> None:
    GemmProgram(GOOD)
    GemmProgram("gemm 1\nprecision tf32\nweight kn\nsize 1 1\n")
    GemmProgram("gemm 1\nprecision fp32\nweight nk\nsize 8 12\nleft 2\nruns 24 0 16 3\nstep relu\n")


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("gemm 1\n", "gemm 2\n", r"line 1, field 2 \(format version\): is a format .* it knows 1"),
        ("gemm 1\n", "lookup 1\n", r'line 1, field 1 \(keyword\): is "lookup" where "gemm" was expected'),
        ("fp32", "fp64", r'line 2, field 2 \(precision\): is "fp64": fp32, tf32 or fp16 was expected'),
        ("weight nk", "weight mk", r'line 3, field 2 \(layout\): is "mk": nk or kn was expected'),
        ("size 624 256", "size 0 256", r"line 4, field 2 \(K\): is 0, outside 1 to"),
        ("size 624 256", "size 624", r"line 4, field 3 \(N\): is missing"),
        ("size 624 256", "size 624 2000000", r"line 4, field 3 \(N\): is 2000000, outside 1 to"),
        ("step add vector 2", "step div vector 2", r'line 5, field 2 \(operation\): is "div", which is no operation'),
        ("step add vector 2", "add vector 2", r'line 5, field 1 \(keyword\): is "add" where "step" was expected'),
        ("step add vector 2", "step add row 2", r'line 5, field 3 \(operand\): is "row": scalar, vector, column'),
        ("step add vector 2", "step add vector 1", r"line 5, field 4 \(input\): is 1, outside 2 to"),
        ("step add vector 2", "step add vector", r"line 5, field 4 \(input\): is missing"),
        ("step add vector 2", "step add vector 2 3", r'line 5, field 5 \(end of line\): was expected, not "3"'),
        ("step add vector 2\n", "", r"input 2: is used by no step"),
        ("step leakyrelu 0.25", "step leakyrelu", r"line 7, field 3 \(slope\): is missing"),
        ("step leakyrelu 0.25", "step leakyrelu inf", r'line 7, field 3 \(slope\): is "inf", which is not a finite'),
        ("step sub scalar 5", "step sub scalar 3", r"line 9, field 4 \(input\): is read as something else"),
        ("step gelu\n", "step gelu", r"line 11: the line is not ended by a newline"),
        ("step gelu\n", "step gelu 1\n", r'line 11, field 3 \(end of line\): was expected, not "1"'),
    ],
)
def test_a_mistake_is_named_with_its_line_and_field(good: str, bad: str, message: str) -> None:
    assert GOOD.count(good) == 1
    with pytest.raises(ValueError, match=message):
        GemmProgram(GOOD.replace(good, bad))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("runs", r"line 5, field 2 \(values of a row\): is missing"),
        ("runs 24", r"line 5, field 3 \(beginning\): is missing"),
        ("runs 7 0", r"line 5, field 2 \(values of a row\): is 7, outside 8 to"),
        ("runs 24 17", r"line 5, field 3 \(beginning\): is 17, outside 0 to 16"),
        ("runs 24 0 -1", r"line 5, field 4 \(beginning\): is -1, outside 0 to 16"),
        ("runs 24 0 0 0 0 0", r"line 5, field 7 \(beginning\): is the last of 5 runs, which N is not divided into"),
        ("runs 24" + " 0" * 129, r"line 5, field 130 \(beginning\): is a run too many: there may be 128"),
        ("runs 24 0\nleft 2", r'line 6, field 1 \(keyword\): is "left" where "step" was expected'),
    ],
)
def test_mistakes_in_runs(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GemmProgram(f"gemm 1\nprecision fp32\nweight nk\nsize 8 12\n{line}\n")


def test_there_may_be_16_steps() -> None:
    head = "gemm 1\nprecision fp32\nweight nk\nsize 3 2\n"
    GemmProgram(head + "step relu\n" * 16)
    with pytest.raises(ValueError, match=r"line 21, field 2 \(operation\): is a step too many: there may be 16"):
        GemmProgram(head + "step relu\n" * 17)
