"""The program of a FusedMultiGather: what it looks up, and where each row goes. docs/ops/fused-multi-gather.md
defines it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

FORMAT_VERSION = 1
STAR = -1
"""In place of a column: every column of a source whose number of columns is dynamic."""


@dataclass(frozen=True)
class IdExpr:
    """An id: a column of a source (or a constant), then quotient, remainder, factor and offset, each optional, in
    this order."""

    source: int | None
    column: int
    div: int = 1
    mod: int = 0
    mul: int = 1
    add: int = 0

    def __str__(self) -> str:
        text = (
            f"={self.column}" if self.source is None else f"{self.source}:{'*' if self.column == STAR else self.column}"
        )
        text += f"/{self.div}" if self.div != 1 else ""
        text += f"%{self.mod}" if self.mod else ""
        text += f"*{self.mul}" if self.mul != 1 else ""
        return text + (f"+{self.add}" if self.add else "")


@dataclass(frozen=True)
class Weight:
    """A term's weight: kind `one`; `ne` (id differs from number); `lt` (number less than id); `col` (a column of
    floats).

    number: None stands for the term's own position in a source whose number of columns is dynamic.
    """

    kind: str = "one"
    id: IdExpr | None = None
    number: int | None = 0

    def __str__(self) -> str:
        if self.kind == "one" or self.id is None:
            return "one"
        if self.kind == "ne":
            return f"ne {self.id} {self.number}"
        if self.kind == "lt":
            return f"lt {'*' if self.number is None else self.number} {self.id}"
        return f"col {self.id.source} {'*' if self.id.column == STAR else self.id.column}"


@dataclass(frozen=True)
class Source:
    """An input of ids, dense values or weights: `columns` values a row (STAR: dynamic), layout `row` or `column`.

    Layout `list`: any number of values, whatever the rows are. `bounds`: one more than there are rows, for each column.
    """

    columns: int
    layout: str = "row"


@dataclass(frozen=True)
class Table:
    rows: int
    dim: int


@dataclass(frozen=True)
class Copy:
    """Columns `first` ... of a source, as they are."""

    output: int
    column: int
    width: int
    source: int
    first: int

    def __str__(self) -> str:
        return f"copy {self.output} {self.column} {self.width} {self.source} {self.first}"


@dataclass(frozen=True)
class Row:
    """Elements `first` ... of one table row."""

    output: int
    column: int
    width: int
    table: int
    id: IdExpr
    first: int = 0

    def __str__(self) -> str:
        return f"row {self.output} {self.column} {self.width} {self.table} {self.id} {self.first}"


@dataclass(frozen=True)
class Term:
    table: int
    id: IdExpr
    first: int = 0
    weight: Weight = Weight()

    def __str__(self) -> str:
        return f"term {self.table} {self.id} {self.first} {self.weight}"


@dataclass(frozen=True)
class Pool:
    """Several weighted rows pooled into one: op `sum`, `mean` (divides by the weights' sum + x) or `max` (row - (1
    - w) * x)."""

    output: int
    column: int
    width: int
    op: str
    terms: tuple[Term, ...]
    x: float = 0.0

    def __str__(self) -> str:
        head = f"pool {self.output} {self.column} {self.width} {self.op} {len(self.terms)} {float_text(self.x)}"
        return "\n".join([head, *map(str, self.terms)])


@dataclass(frozen=True)
class Bag:
    """As many rows pooled into one as a row has ids in a list: those from its offset up to the next row's.

    The last bag ends where the list does or, with offsets of the layout `bounds`, at the last bound. padding: the row
    of the table that is left out. lowest: a bag without ids gives -inf and not 0.
    """

    output: int
    column: int
    width: int
    op: str
    table: int
    id: IdExpr
    offsets: IdExpr
    first: int = 0
    weight: Weight = Weight()
    padding: int | None = None
    lowest: bool = False

    def __str__(self) -> str:
        empty = "-inf" if self.lowest else "0"
        padding = "none" if self.padding is None else self.padding
        return (
            f"bag {self.output} {self.column} {self.width} {self.op} {empty} {self.table} {self.id} {self.first}"
            f" {self.weight} {self.offsets} {padding}"
        )


Block = Copy | Row | Pool | Bag


@dataclass
class LookupProgram:
    """One fused group of lookups. `rows`: row axes (1 or 2). `outputs`: each output's trailing shape."""

    rows: int = 1
    bad_ids: str = "error"
    sources: list[Source] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    outputs: list[tuple[int, ...]] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"lookup {FORMAT_VERSION}", f"rows {self.rows}", f"bad {self.bad_ids}"]
        lines += [f"source {'*' if s.columns == STAR else s.columns} {s.layout}" for s in self.sources]
        lines += [f"table {t.rows} {t.dim}" for t in self.tables]
        lines += [" ".join(["output", *map(str, shape)]) for shape in self.outputs]
        lines += map(str, self.blocks)
        return "\n".join(lines) + "\n"


def float_text(value: float) -> str:
    """The shortest decimal that reads back to the same float32."""
    return np.format_float_scientific(np.float32(value), trim="0") if value else "0"


def parse_program(text: str) -> LookupProgram:
    """Read a program from its text. Raises ValueError naming the line."""
    program = LookupProgram()
    lines = text.splitlines()
    if not lines or lines[0] != f"lookup {FORMAT_VERSION}":
        raise ValueError(f"line 1: expected 'lookup {FORMAT_VERSION}'")
    position = 1
    while position < len(lines):
        kind, *fields = lines[position].split(" ")
        position += 1
        try:
            match kind:
                case "rows":
                    program.rows = int(fields[0])
                case "bad":
                    program.bad_ids = fields[0]
                case "source":
                    program.sources.append(Source(_column(fields[0]), fields[1]))
                case "table":
                    program.tables.append(Table(int(fields[0]), int(fields[1])))
                case "output":
                    program.outputs.append(tuple(map(int, fields)))
                case "copy":
                    program.blocks.append(Copy(*map(int, fields)))
                case "row":
                    o, c, w, t, expr, first = fields
                    program.blocks.append(Row(int(o), int(c), int(w), int(t), parse_id(expr), int(first)))
                case "pool":
                    o, c, w, op, count, x = fields
                    terms = tuple(_parse_term(line) for line in lines[position : position + int(count)])
                    position += int(count)
                    program.blocks.append(Pool(int(o), int(c), int(w), op, terms, float(np.float32(x))))
                case "bag":
                    program.blocks.append(_parse_bag(fields))
                case _:
                    raise ValueError(f"unknown line kind '{kind}'")
        except (ValueError, IndexError, TypeError) as error:
            raise ValueError(f"line {position}: {error}") from None
    return program


def parse_id(text: str) -> IdExpr:
    """Read an ID as the format writes it, such as `0:3/10%7*2+-1` or `=5`."""
    rest, steps = text, {"add": 0, "mul": 1, "mod": 0, "div": 1}
    for mark, name in (("+", "add"), ("*", "mul"), ("%", "mod"), ("/", "div")):
        # the star that stands for all columns follows a colon
        head, found, tail = rest.rpartition(mark)
        if found and not head.endswith(":") and head:
            rest, steps[name] = head, int(tail)
    if rest.startswith("="):
        return IdExpr(None, int(rest[1:]), **steps)
    source, _, column = rest.partition(":")
    return IdExpr(int(source), _column(column), **steps)


def _parse_term(line: str) -> Term:
    kind, table, expr, first, *weight = line.split(" ")
    if kind != "term":
        raise ValueError(f"expected a term, found '{kind}'")
    return Term(int(table), parse_id(expr), int(first), _parse_weight(weight))


def _parse_bag(fields: list[str]) -> Bag:
    output, column, width, op, empty, table, expr, first, *weight, offsets, padding = fields
    return Bag(
        int(output),
        int(column),
        int(width),
        op,
        int(table),
        parse_id(expr),
        parse_id(offsets),
        int(first),
        _parse_weight(weight),
        None if padding == "none" else int(padding),
        empty == "-inf",
    )


def _parse_weight(fields: list[str]) -> Weight:
    match fields:
        case ["one"]:
            return Weight()
        case ["ne", expr, number]:
            return Weight("ne", parse_id(expr), int(number))
        case ["lt", number, expr]:
            return Weight("lt", parse_id(expr), None if number == "*" else int(number))
        case ["col", source, column]:
            return Weight("col", IdExpr(int(source), _column(column)))
    raise ValueError(f"unknown weight '{' '.join(fields)}'")


def _column(text: str) -> int:
    return STAR if text == "*" else int(text)
