"""Write down what symbolic values say: the program of a fused group, and the tensors that it reads."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.lookups.program import (
    STAR,
    Bag,
    Block,
    Copy,
    IdExpr,
    LookupProgram,
    Pool,
    Row,
    Source,
    Table,
    Term,
    Weight,
)
from dpiframe.graph_passes.lookups.symbols import (
    POSITION_MASK,
    Atoms,
    Bagged,
    Column,
    Id,
    Mask,
    Penalized,
    Pooled,
    TableRow,
    Value,
    source_value,
)


@dataclass
class Assembly:
    """A program with the tensors behind its numbers: the fused node's inputs are `sources` then `tables`."""

    program: LookupProgram
    sources: list[gs.Tensor] = field(default_factory=list)
    tables: list[gs.Tensor] = field(default_factory=list)


class Assembler:
    """Builds one group's program. `atoms` holds what the codes of its values mean."""

    def __init__(self, atoms: Atoms, rows: int, bad_ids: str) -> None:
        self.atoms = atoms
        self.result = Assembly(LookupProgram(rows=rows, bad_ids=bad_ids))
        self._sources: dict[tuple[int, str], int] = {}
        self._tables: dict[int, int] = {}

    def add_output(self, value: Value) -> None:
        """Append an output holding the value's elements in row-major order."""
        program = self.result.program
        output = len(program.outputs)
        program.outputs.append(tuple(int(d) for i, d in enumerate(value.codes.shape) if i not in value.axes))
        codes = np.ascontiguousarray(value.codes).ravel()
        for start, end in self._runs(codes):
            program.blocks.append(self._block(output, start, end - start, int(codes[start])))

    def _runs(self, codes: np.ndarray) -> list[tuple[int, int]]:
        """Maximal runs that one block can fill: consecutive elements of one row, or consecutive columns of one
        source."""
        steps = np.diff(codes)
        breaks = [0]
        for index in range(1, len(codes)):
            if steps[index - 1] == 1 and codes[index] & POSITION_MASK:
                continue
            before, here = self.atoms.of_code(codes[index - 1]), self.atoms.of_code(codes[index])
            follows = isinstance(before, Column) and here == Column(before.source, before.index + 1)
            if not follows:
                breaks.append(index)
        return list(zip(breaks, [*breaks[1:], len(codes)], strict=True))

    def _block(self, output: int, column: int, width: int, code: int) -> Block:
        atom, first = self.atoms.of_code(code), int(code) & POSITION_MASK
        match atom:
            case Column(source, index):
                return Copy(output, column, width, self._source(source), index)
            case TableRow(table, expr):
                return Row(output, column, width, self._table(table), self._id(expr), first)
            case Pooled(op, terms, x):
                return Pool(output, column, width, op, tuple(self._term(r, w, first) for r, w in terms), x)
            case Penalized(row, weight, x):
                return Pool(output, column, width, "max", (self._term(row, weight, first),), x)
            case Bagged():
                return self._bag(output, column, width, atom, first)
        raise AssertionError(f"no block for {atom}")

    def _term(self, row: TableRow, weight: Mask | Column | None, first: int) -> Term:
        return Term(self._table(row.table), self._id(row.id), first, self._weight(weight))

    def _bag(self, output: int, column: int, width: int, bag: Bagged, first: int) -> Bag:
        # offsets come first: the first source tells how many rows there are
        offsets = self._steps(self._source(bag.offsets.source, "bounds" if bag.bounds else ""), bag.offsets)
        ids = self._steps(self._source(bag.id.source, "list"), replace(bag.id, index=STAR))
        weight = Weight()
        if bag.weights is not None:
            weight = Weight("col", IdExpr(self._source(bag.weights, "list"), STAR))
        table = self._table(bag.table)
        return Bag(output, column, width, bag.op, table, ids, offsets, first, weight, bag.padding, bag.lowest)

    def _weight(self, weight: Mask | Column | None) -> Weight:
        match weight:
            case None:
                return Weight()
            case Column(source, index):
                return Weight("col", IdExpr(self._source(source), index))
            case Mask(test):
                return Weight(test.kind, self._id(test.id), test.number)

    def _id(self, expr: Id) -> IdExpr:
        return self._steps(self._source(expr.source), expr)

    @staticmethod
    def _steps(source: int, expr: Id) -> IdExpr:
        return IdExpr(source, expr.index, expr.div, expr.mod, expr.mul, expr.add)

    def _source(self, number: int, layout: str = "") -> int:
        """A source's number in the program; layout: "list", "bounds", or "" for what its shape says."""
        key = (number, layout)
        if key not in self._sources:
            tensor = self.atoms.sources[number]
            self._sources[key] = len(self.result.sources)
            self.result.sources.append(tensor)
            self.result.program.sources.append(self._layout(tensor, layout))
        return self._sources[key]

    def _layout(self, tensor: gs.Tensor, layout: str) -> Source:
        if layout == "list":
            return Source(STAR, layout)
        value = source_value(tensor, Atoms())
        assert value is not None
        dynamic = len(value.axes) > self.result.program.rows
        own = "row" if value.axes[0] == 0 else "column"
        return Source(STAR if dynamic else int(value.codes.size), layout or own)

    def _table(self, number: int) -> int:
        if number not in self._tables:
            tensor = self.atoms.tables[number]
            self._tables[number] = len(self.result.tables)
            self.result.tables.append(tensor)
            self.result.program.tables.append(Table(*(int(d) for d in tensor.shape)))
        return self._tables[number]
