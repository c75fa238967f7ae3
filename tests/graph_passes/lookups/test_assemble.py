"""Hazard: a program names another column, row or table than the symbols do."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.lookups.assemble import Assembler
from dpiframe.graph_passes.lookups.program import STAR
from dpiframe.graph_passes.lookups.symbols import (
    Atoms,
    Column,
    Id,
    Mask,
    Penalized,
    Pooled,
    TableRow,
    Value,
    source_value,
)
from dpiframe.graph_passes.lookups.symbols import Test as Comparison


class Bench:
    """Atoms over an id source `ids` [b,6], a float source `dense` [b,4], a sequence `seq` [b,l] and two tables."""

    def __init__(self) -> None:
        self.atoms = Atoms()
        self.tensors = {
            "ids": gs.Variable("ids", np.dtype(np.int64), ["b", 6]),
            "dense": gs.Variable("dense", np.dtype(np.float32), ["b", 4]),
            "seq": gs.Variable("seq", np.dtype(np.int64), ["b", "l"]),
            "columns": gs.Variable("columns", np.dtype(np.int64), [3, "b"]),
        }
        for tensor in self.tensors.values():
            source_value(tensor, self.atoms)
        for rows, dim in ((10, 4), (20, 2)):
            self.atoms.table(gs.Constant(f"table{rows}", np.zeros((rows, dim), np.float32)))

    def row(self, atom: object, first: int = 0, width: int = 4) -> list[int]:
        code = self.atoms.code(atom)  # type: ignore[arg-type]
        return [code + k for k in range(first, first + width)]

    def program(self, *outputs: list[int], rows: int = 1, shape: tuple[int, ...] | None = None) -> list[str]:
        assembler = Assembler(self.atoms, rows, "error")
        for codes in outputs:
            array = np.array(codes, np.int64).reshape((1,) * rows + (shape or (-1,)))
            assembler.add_output(Value(array, tuple(range(rows)), ("b", "l")[:rows]))
        self.assembly = assembler.result
        return str(assembler.result.program).splitlines()[3:]


A = TableRow(0, Id(0, 0), 4)


def test_a_whole_row() -> None:
    bench = Bench()
    assert bench.program(bench.row(A)) == ["source 6 row", "table 10 4", "output 4", "row 0 0 4 0 0:0 0"]
    assert [t.name for t in bench.assembly.sources] == ["ids"]
    assert [t.name for t in bench.assembly.tables] == ["table10"]


def test_parts_of_rows_are_blocks_of_their_own() -> None:
    bench = Bench()
    codes = bench.row(A, 1, 2) + bench.row(A, 0, 1) + bench.row(A, 3, 1)
    assert bench.program(codes)[3:] == ["row 0 0 2 0 0:0 1", "row 0 2 1 0 0:0 0", "row 0 3 1 0 0:0 3"]


def test_the_same_row_twice_is_two_blocks() -> None:
    bench = Bench()
    assert bench.program(bench.row(A) + bench.row(A))[3:] == ["row 0 0 4 0 0:0 0", "row 0 4 4 0 0:0 0"]


def test_one_wide_rows_do_not_run_together() -> None:
    bench = Bench()
    narrow = [TableRow(1, Id(0, k), 2) for k in range(2)]
    codes = [code for atom in narrow for code in bench.row(atom, 0, 1)]
    assert bench.program(codes)[3:] == ["row 0 0 1 0 0:0 0", "row 0 1 1 0 0:1 0"]


def test_neighbouring_columns_are_one_copy() -> None:
    bench = Bench()
    columns = [bench.atoms.code(Column(1, k)) for k in range(4)]
    assert bench.program(columns)[2:] == ["copy 0 0 4 0 0"]
    assert bench.program([columns[1], columns[2], columns[0], columns[3]])[2:] == [
        "copy 0 0 2 0 1",
        "copy 0 2 1 0 0",
        "copy 0 3 1 0 3",
    ]


def test_rows_and_columns_side_by_side() -> None:
    bench = Bench()
    codes = [*bench.row(A), bench.atoms.code(Column(1, 2)), *bench.row(TableRow(1, Id(0, 5, 3, 7, 2, -1), 2), 0, 2)]
    assert bench.program(codes) == [
        "source 6 row",
        "source 4 row",
        "table 10 4",
        "table 20 2",
        "output 7",
        "row 0 0 4 0 0:0 0",
        "copy 0 4 1 1 2",
        "row 0 5 2 1 0:5/3%7*2+-1 0",
    ]


def test_sources_and_tables_are_numbered_as_they_come() -> None:
    bench = Bench()
    codes = bench.row(TableRow(1, Id(3, 2), 2), 0, 2) + bench.row(A)
    assert bench.program(codes)[:4] == ["source 3 column", "source 6 row", "table 20 2", "table 10 4"]


def test_pools() -> None:
    bench = Bench()
    b = TableRow(1, Id(0, 1), 2)
    mask = Mask(Comparison("lt", Id(0, 3), -1))
    pooled = Pooled("mean", ((A, mask), (b, Column(1, 2))), 0.5)
    assert bench.program(bench.row(pooled, 0, 2))[5:] == [
        "pool 0 0 2 mean 2 5.0e-01",
        "term 0 0:0 0 lt -1 0:3",
        "term 1 0:1 0 col 1 2",
    ]
    assert bench.program(bench.row(Penalized(A, mask, 9.0)))[3:] == [
        "pool 0 0 4 max 1 9.0e+00",
        "term 0 0:0 0 lt -1 0:3",
    ]


def test_a_dynamic_length_in_one_row_axis_is_a_star() -> None:
    bench = Bench()
    star = TableRow(0, Id(2, STAR), 4)
    pooled = Pooled("sum", ((star, Mask(Comparison("ne", Id(2, STAR), 0))),))
    assert bench.program(bench.row(pooled)) == [
        "source * row",
        "table 10 4",
        "output 4",
        "pool 0 0 4 sum 1 0",
        "term 0 0:* 0 ne 0:* 0",
    ]


def test_a_dynamic_length_in_two_row_axes_is_a_column() -> None:
    bench = Bench()
    assert bench.program(bench.row(TableRow(0, Id(2, 0), 4)), rows=2) == [
        "source 1 row",
        "table 10 4",
        "output 4",
        "row 0 0 4 0 0:0 0",
    ]


def test_trailing_shapes_and_several_outputs() -> None:
    bench = Bench()
    lines = bench.program(bench.row(A), bench.row(A, 0, 2), shape=(2, -1))
    assert [line for line in lines if line.startswith("output")] == ["output 2 2", "output 2 1"]
    assert [line for line in lines if line.startswith("row")] == ["row 0 0 4 0 0:0 0", "row 1 0 2 0 0:0 0"]
