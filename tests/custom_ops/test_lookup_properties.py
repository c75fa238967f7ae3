"""Random programs on random arrays: the kernels agree bit for bit with the numpy reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dpiframe.custom_ops._kernels import LookupProgram
from tests.custom_ops import reference

ID_TYPES = ["int32", "int64", "float32", "float64"]
WIDTHS = st.sampled_from([1, 2, 3, 4, 5, 8, 12, 16, 17, 32, 33, 64, 65, 100])


class Case:
    def __init__(self, program: str, sources: list[np.ndarray], tables: list[np.ndarray]) -> None:
        self.program, self.sources, self.tables = program, sources, tables

    def __repr__(self) -> str:
        """The arrays come from one seed, so their types and shapes tell enough."""
        arrays = [f"{array.dtype}{array.shape}" for array in (*self.sources, *self.tables)]
        return f"{self.program}{' '.join(arrays)}"


class ProgramStrategy:
    """Draws a program together with sources and tables that suit it."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
        self.type = draw(st.sampled_from(["float32", "float16"]))
        self.axes = draw(st.sampled_from([1, 1, 2]))
        self.batch = draw(st.sampled_from([[0], [1], [3], [16], [37]] if self.axes == 1 else [[0, 3], [2, 1], [3, 6]]))
        self.rows = int(np.prod(self.batch))
        self.sources: list[np.ndarray] = []
        self.source_lines: list[tuple[str, str]] = []
        self.star_columns = draw(st.sampled_from([1, 3, 8, 64, 67]))

    def floats(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        values = self.random.standard_normal(shape).astype(dtype)
        if self.draw(st.booleans()):
            values[self.random.random(shape) < 0.02] = np.nan
            values[self.random.random(shape) < 0.02] = np.inf
        return values

    def ids(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        values = self.random.integers(-12, 12, shape)
        if dtype.startswith("int"):
            return values.astype(dtype)
        result = (values + self.random.random(shape) * 0.9).astype(dtype)
        if self.draw(st.booleans()):
            special = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 9.3e18], dtype)
            result = np.where(self.random.random(shape) < 0.05, self.random.choice(special, shape), result)
        return result.astype(dtype)

    def add_source(self, columns: int | None, is_float: bool) -> int:
        dtype = self.draw(st.sampled_from(["float32", self.type] if is_float else ID_TYPES))
        column_layout = columns is not None and self.axes == 1 and self.draw(st.booleans())
        count = self.star_columns if columns is None else columns
        shape = (count, self.rows) if column_layout else (*self.batch, count)
        self.sources.append(self.floats(shape, dtype) if is_float else self.ids(shape, dtype))
        self.source_lines.append(("*" if columns is None else str(columns), "column" if column_layout else "row"))
        return len(self.sources) - 1

    def steps(self) -> str:
        text = ""
        for step, numbers in (("/", [1, 2, 3, -1, -4]), ("%", [1, 5, 9, -7]), ("*", [2, -3, 1 << 62]), ("+", [3, -3])):
            if self.draw(st.integers(0, 4)) == 0:
                text += f"{step}{self.draw(st.sampled_from(numbers))}"
        return text

    def id(self, star: bool) -> str:
        if star:
            return f"{self.draw(st.sampled_from(self.star_sources))}:*{self.steps()}"
        if self.draw(st.integers(0, 9)) == 0:
            return f"={self.draw(st.integers(-9, 9))}{self.steps()}"
        source = self.draw(st.sampled_from(self.id_sources))
        return f"{source}:{self.draw(st.integers(0, int(self.source_lines[source][0]) - 1))}{self.steps()}"

    def weight(self, star: bool) -> str:
        kind = self.draw(st.sampled_from(["one", "ne", "lt", "col"]))
        inner = star and self.draw(st.booleans())
        if kind == "one":
            return kind
        if kind == "ne":
            return f"ne {self.id(inner)} {self.draw(st.integers(-2, 2))}"
        if kind == "lt":
            low = "*" if star and self.draw(st.booleans()) else str(self.draw(st.integers(-3, 3)))
            return f"lt {low} {self.id(inner)}"
        if inner:
            return f"col {self.star_weights} *"
        return f"col {self.float_source} {self.draw(st.integers(0, self.float_columns - 1))}"

    def case(self) -> Case:
        draw = self.draw
        self.id_sources = [self.add_source(draw(st.integers(1, 5)), False) for _ in range(draw(st.integers(1, 3)))]
        self.star_sources = [self.add_source(None, False) for _ in range(2)]
        self.float_columns = draw(st.integers(1, 40))
        self.float_source = self.add_source(self.float_columns, True)
        self.star_weights = self.add_source(None, True)
        count = draw(st.integers(1, 3))
        tables = [self.floats((draw(st.integers(1, 14)), 130), self.type) for _ in range(count)]
        outputs, blocks = [], []
        for output in range(draw(st.integers(1, 2))):
            column = 0
            for _ in range(draw(st.integers(1, 5))):
                width = draw(WIDTHS)
                width, lines = self.block(output, column, width, len(tables))
                blocks.append(lines)
                column += width
            outputs.append(f"output {column}")
        order = draw(st.permutations(blocks))
        lines = ["lookup 1", f"rows {self.axes}", f"bad {draw(st.sampled_from(['zero', 'clamp', 'error']))}"]
        lines += [f"source {columns} {layout}" for columns, layout in self.source_lines]
        lines += [f"table {table.shape[0]} {table.shape[1]}" for table in tables]
        lines += outputs
        for block in order:
            lines += block
        return Case("\n".join(lines) + "\n", self.sources, tables)

    def block(self, output: int, column: int, width: int, tables: int) -> tuple[int, list[str]]:
        draw = self.draw
        kind = draw(st.sampled_from(["copy", "row", "pool"]))
        if kind == "copy":
            width = min(width, self.float_columns)
            first = draw(st.integers(0, self.float_columns - width))
            return width, [f"copy {output} {column} {width} {self.float_source} {first}"]
        if kind == "row":
            where = f"{draw(st.integers(0, tables - 1))} {self.id(False)} {draw(st.integers(0, 130 - width))}"
            return width, [f"row {output} {column} {width} {where}"]
        op = draw(st.sampled_from(["sum", "mean", "max"]))
        x = "0" if op == "sum" else draw(st.sampled_from(["0", "1e-8", "1.5", "1e9"]))
        terms = []
        for _ in range(draw(st.integers(1, 3))):
            star = draw(st.booleans())
            where = f"{draw(st.integers(0, tables - 1))} {self.id(star)} {draw(st.integers(0, 130 - width))}"
            terms.append(f"term {where} {self.weight(star)}")
        return width, [f"pool {output} {column} {width} {op} {len(terms)} {x}", *terms]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    return ProgramStrategy(draw).case()


# A failing case is not made smaller: with its many draws that takes minutes, and the program alone tells enough.
@settings(max_examples=100, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(cases(), st.booleans(), st.sampled_from([1, 3]))
def test_kernels_agree_with_the_reference(case: Case, baseline: bool, threads: int) -> None:
    expected = reference.run(case.program, case.sources, case.tables)
    program = LookupProgram(case.program, baseline)
    if expected.first_bad is not None and "\nbad error\n" in case.program:
        row, line, id = expected.first_bad
        with pytest.raises(IndexError, match=f"line {line}, row {row}: id {id} is outside"):
            program.run(case.sources, case.tables, threads)
    else:
        for actual, wanted in zip(program.run(case.sources, case.tables, threads), expected.outputs, strict=True):
            assert reference.same_bits(actual, wanted)
    assert program.bad_id_counts == expected.counts
