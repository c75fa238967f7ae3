"""Random programs with inputs that fit them: everything that the format can say, whether or not the passes write it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from dpiframe.graph_passes.lookups.program import (
    STAR,
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

ID_TYPES = [np.int32, np.int64, np.float32, np.float64]


@dataclass
class Case:
    program: LookupProgram
    source_types: list[type]
    tables: list[np.ndarray]
    seed: int

    def sources(self, sizes: tuple[int, ...], length: int) -> list[np.ndarray]:
        """Source values for these row axes; sources of a dynamic number of columns get `length`."""
        rng = np.random.default_rng(self.seed)
        made = []
        for spec, dtype in zip(self.program.sources, self.source_types, strict=True):
            columns = length if spec.columns == STAR else spec.columns
            shape = (columns, *sizes) if spec.layout == "column" else (*sizes, columns)
            values = rng.integers(0, 8, shape)
            made.append(
                (values + rng.choice([0, 0.25, 0.75], shape) if np.dtype(dtype).kind == "f" else values).astype(dtype)
            )
        return made


@st.composite
def cases(draw: st.DrawFn, bad_ids: str | None = None) -> Case:
    rows = draw(st.sampled_from([1, 1, 1, 2]))
    dtype = draw(st.sampled_from([np.float32, np.float32, np.float32, np.float16]))
    sources, types = [], []
    for number in range(draw(st.integers(1, 4))):
        layout = draw(st.sampled_from(["row", "row", "column"])) if rows == 1 else "row"
        # the first source says how many rows there are; an empty one could not
        columns = draw(st.sampled_from([1, 2, 3, STAR])) if layout == "row" and number else draw(st.integers(1, 3))
        sources.append(Source(columns, layout))
        types.append(draw(st.sampled_from(ID_TYPES)))
    # weights and dense columns are of the tables' type
    sources.append(Source(draw(st.sampled_from([2, 3])), "row"))
    types.append(dtype)
    sources.append(Source(STAR, "row"))
    types.append(dtype)
    # every id of the sources, after any steps, lies in a table of this size
    tables = [(draw(st.sampled_from([64, 70, 100])), draw(st.integers(1, 5))) for _ in range(draw(st.integers(1, 3)))]
    maker = _Maker(draw, sources, types, tables, dtype)
    program = LookupProgram(rows=rows, bad_ids=bad_ids or draw(st.sampled_from(["error", "zero", "clamp"])))
    program.sources, program.tables = sources, [Table(*t) for t in tables]
    for output in range(draw(st.integers(1, 3))):
        blocks: list[Block] = []
        column = 0
        for _ in range(draw(st.integers(1, 4))):
            blocks.append(maker.block(output, column))
            column += blocks[-1].width
        program.blocks.extend(draw(st.permutations(blocks)))
        halves = draw(st.sampled_from([d for d in range(1, column + 1) if column % d == 0]))
        program.outputs.append(draw(st.sampled_from([(column,), (halves, column // halves), (1, column)])))
    values = [np.random.default_rng(i).normal(size=t).astype(dtype) for i, t in enumerate(tables)]
    return _only_used(Case(program, types, values, draw(st.integers(0, 99))))


class _Maker:
    def __init__(
        self, draw: st.DrawFn, sources: list[Source], types: list[type], tables: list[tuple[int, int]], dtype: type
    ) -> None:
        self.draw, self.sources, self.types, self.tables, self.dtype = draw, sources, types, tables, dtype
        self.id_sources = [i for i, t in enumerate(types) if t in ID_TYPES and t is not np.float16]

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def block(self, output: int, column: int) -> Block:
        kind = self.draw(st.sampled_from(["row", "row", "pool", "pool", "copy"]))
        if kind == "copy":
            source = len(self.sources) - 2
            first = self.integer(0, self.sources[source].columns - 1)
            return Copy(output, column, self.integer(1, self.sources[source].columns - first), source, first)
        table = self.integer(0, len(self.tables) - 1)
        first = self.integer(0, self.tables[table][1] - 1)
        width = self.integer(1, self.tables[table][1] - first)
        if kind == "row":
            return Row(output, column, width, table, self.id(False), first)
        op = self.draw(st.sampled_from(["sum", "mean", "max"]))
        x = {
            "sum": 0.0,
            "mean": self.draw(st.sampled_from([0.5, 1.0, 1e-3])),
            "max": self.draw(st.sampled_from([0.0, 100.0])),
        }[op]
        terms = [self.term(width) for _ in range(self.integer(1, 4))]
        return Pool(output, column, width, op, tuple(terms), float(np.float32(x)))

    def term(self, width: int) -> Term:
        fitting = [i for i, (_, dim) in enumerate(self.tables) if dim >= width]
        table = self.draw(st.sampled_from(fitting))
        expr = self.id(True)
        return Term(table, expr, self.integer(0, self.tables[table][1] - width), self.weight(expr))

    def id(self, star: bool) -> IdExpr:
        source = self.draw(st.sampled_from(self.id_sources + ([] if star else [None])))  # type: ignore[arg-type]
        if source is None:
            return IdExpr(None, self.integer(0, 7), mul=self.integer(1, 3), add=self.integer(0, 9))
        columns = self.sources[source].columns
        if columns == STAR and not star:
            source = next(i for i in self.id_sources if self.sources[i].columns != STAR)
            columns = self.sources[source].columns
        column = STAR if columns == STAR else self.integer(0, columns - 1)
        return IdExpr(
            source,
            column,
            self.integer(1, 3),
            self.draw(st.sampled_from([0, 0, 5])),
            self.integer(1, 5),
            self.integer(-40, 20),
        )

    def weight(self, expr: IdExpr) -> Weight:
        kind = self.draw(st.sampled_from(["one", "ne", "lt", "col"]))
        star = expr.column == STAR
        if kind == "one":
            return Weight()
        if kind == "col":
            if star and self.draw(st.booleans()):
                return Weight("col", IdExpr(len(self.sources) - 1, STAR))
            source = len(self.sources) - 2
            return Weight("col", IdExpr(source, self.integer(0, self.sources[source].columns - 1)))
        plain = [i for i in self.id_sources if self.sources[i].columns != STAR]
        source = self.draw(st.sampled_from(plain))
        other = IdExpr(source, self.integer(0, self.sources[source].columns - 1))
        compared = expr if star and self.draw(st.booleans()) else other
        number = self.integer(-1, 4)
        if kind == "lt" and star and self.draw(st.booleans()):
            return Weight("lt", compared, None)
        return Weight(kind, compared, number)


def _only_used(case: Case) -> Case:
    """Without the sources that no block reads: the body would not read them either."""
    program = case.program
    used = {0}
    for block in program.blocks:
        if isinstance(block, Copy):
            used.add(block.source)
        for expr in _exprs(block):
            if expr.source is not None:
                used.add(expr.source)
    keep = sorted(used)
    new = {old: i for i, old in enumerate(keep)}

    def moved(expr: IdExpr | None) -> IdExpr | None:
        return (
            expr
            if expr is None or expr.source is None
            else IdExpr(new[expr.source], expr.column, expr.div, expr.mod, expr.mul, expr.add)
        )

    blocks: list[Block] = []
    for b in program.blocks:
        if isinstance(b, Copy):
            blocks.append(Copy(b.output, b.column, b.width, new[b.source], b.first))
        elif isinstance(b, Row):
            blocks.append(Row(b.output, b.column, b.width, b.table, moved(b.id), b.first))  # type: ignore[arg-type]
        else:
            terms = tuple(
                Term(t.table, moved(t.id), t.first, Weight(t.weight.kind, moved(t.weight.id), t.weight.number))  # type: ignore[arg-type]
                for t in b.terms
            )
            blocks.append(Pool(b.output, b.column, b.width, b.op, terms, b.x))
    program.blocks = blocks
    program.sources = [program.sources[i] for i in keep]
    case.source_types = [case.source_types[i] for i in keep]
    assert all(math.prod(shape) for shape in program.outputs)
    return case


def _exprs(block: Block) -> list[IdExpr]:
    if isinstance(block, Row):
        return [block.id]
    if isinstance(block, Pool):
        return [e for t in block.terms for e in (t.id, t.weight.id) if e is not None]
    return []
