"""The program of a FusedElementwise: values of a row, line by line. docs/ops/fused-elementwise.md defines it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dpiframe.custom_ops.elementwise_operators import NUMPY_TYPES

FORMAT_VERSION = 1
REDUCTIONS = ("sum", "max", "min", "prod")
MAX_VALUES = 4096
MAX_ELEMENTS = 1 << 20
"""Of one value, a row."""
MAX_RANK = 8

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Input:
    """A value that the node reads: mask has an `x` for each row axis that it has, else a `-`."""

    type: str
    mask: str
    sizes: Sizes

    def __str__(self) -> str:
        return " ".join(["input", self.type, self.mask, *map(str, self.sizes)])


@dataclass(frozen=True)
class Const:
    type: str
    number: float | int | bool

    sizes: Sizes = ()

    def __str__(self) -> str:
        return f"const {self.type} {number_text(self.type, self.number)}"


@dataclass(frozen=True)
class Line:
    """What one line makes of values before it.

    name: an operator, `cast`, `view`, `pick`, `join` or a reduction. operands: values. numbers: view: offset, then
    strides; pick: indices; join: the axis; reductions: the axes.
    """

    name: str
    type: str
    sizes: Sizes
    operands: tuple[int, ...]
    numbers: tuple[int, ...] = ()

    def __str__(self) -> str:
        fields = (*self.numbers, *self.operands) if self.name == "join" else (*self.operands, *self.numbers)
        return " ".join([self.name, self.type, *map(str, self.sizes), ":", *map(str, fields)])


Value = Input | Const | Line


@dataclass
class ElementwiseProgram:
    """One fused group. values: the inputs, then the others, each behind its operands. outputs: values."""

    rows: int = 1
    values: list[Value] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"elementwise {FORMAT_VERSION}", f"rows {self.rows}", *map(str, self.values)]
        lines += [f"output {value}" for value in self.outputs]
        return "\n".join(lines) + "\n"

    @property
    def inputs(self) -> list[Input]:
        return [value for value in self.values if isinstance(value, Input)]


def elements(sizes: Sizes) -> int:
    return math.prod(sizes)


def number_text(kind: str, number: float | int | bool) -> str:
    """The shortest text that reads back to the same number of this type."""
    dtype = np.dtype(NUMPY_TYPES[kind])
    if dtype.kind != "f":
        return str(int(number))
    value = dtype.type(number)
    if np.isnan(value):
        return "nan"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == 0:
        return "-0" if np.signbit(value) else "0"
    return np.format_float_scientific(value, trim="-")


def parse_program(text: str) -> ElementwiseProgram:
    """Read a program from its text. Raises ValueError naming the line."""
    lines = text.splitlines()
    if not lines or lines[0] != f"elementwise {FORMAT_VERSION}":
        raise ValueError(f"line 1: expected 'elementwise {FORMAT_VERSION}'")
    program = ElementwiseProgram()
    for position, line in enumerate(lines[1:], start=2):
        try:
            _parse_line(program, line)
        except (ValueError, IndexError) as error:
            raise ValueError(f"line {position}: {error}") from None
    return program


def _parse_line(program: ElementwiseProgram, line: str) -> None:
    name, *fields = line.split(" ")
    match name:
        case "rows":
            (rows,) = fields
            program.rows = int(rows)
        case "input":
            program.values.append(Input(fields[0], fields[1], tuple(map(int, fields[2:]))))
        case "const":
            kind, number = fields
            program.values.append(Const(kind, float(number) if kind.startswith("f") else int(number)))
        case "output":
            (value,) = fields
            program.outputs.append(int(value))
        case _:
            program.values.append(_parse_value(name, fields))


def _parse_value(name: str, fields: list[str]) -> Line:
    colon = fields.index(":")
    sizes = tuple(map(int, fields[1:colon]))
    rest = tuple(map(int, fields[colon + 1 :]))
    if name == "join":
        return Line(name, fields[0], sizes, rest[1:], rest[:1])
    if name in ("view", "pick", *REDUCTIONS):
        return Line(name, fields[0], sizes, rest[:1], rest[1:])
    return Line(name, fields[0], sizes, rest)
