"""The lookup program in plain numpy, one element at a time, written from its documentation alone.

It is slow and simple on purpose, and shares no code with the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

INT64_MIN = -(1 << 63)


@dataclass
class Result:
    outputs: list[np.ndarray]
    counts: list[int] = field(default_factory=list)  # of ids outside their table, by row/term line
    first_bad: tuple[int, int, int] | None = None  # row, line, id


def wrap(value: int) -> int:
    """An integer as 64 bits hold it."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def to_id(value: Any) -> int:
    if isinstance(value, (np.floating, float)):
        number = float(value)
        if number != number or number >= 2.0**63 or number < -(2.0**63):
            return INT64_MIN
        return int(number)
    return int(value)


class Interpreter:
    def __init__(self, program: str, sources: list[np.ndarray], tables: list[np.ndarray]) -> None:
        lines = [line.split(" ") for line in program.splitlines()]
        assert lines[0] == ["lookup", "1"]
        self.axes = int(lines[1][1])
        self.policy = lines[2][1]
        self.source_lines = [line for line in lines if line[0] == "source"]
        trailing = [[int(size) for size in line[1:]] for line in lines if line[0] == "output"]
        self.blocks: list[tuple[list[str], list[list[str]]]] = []
        for line in lines[3:]:
            if line[0] in ("copy", "row", "pool", "bag"):
                terms = {"row": [line[4:]], "bag": [line[6:9]]}
                self.blocks.append((line, terms.get(line[0], [])))
            elif line[0] == "term":
                self.blocks[-1][1].append(line[1:])
        self.tables = tables
        self.type = tables[0].dtype if tables else np.dtype(np.float32)
        first = sources[0]
        layout = self.source_lines[0][2]
        axes = first.shape[: self.axes] if layout == "row" else first.shape[-1:]
        if layout == "bounds":
            axes = (max(0, axes[0] - 1),)
        self.rows = int(np.prod(axes))
        self.columns = [self._columns(line, source) for line, source in zip(self.source_lines, sources, strict=True)]
        self.sources = sources
        self.flat = [np.zeros((self.rows, int(np.prod(shape))), self.type) for shape in trailing]
        self.shapes = [(*axes, *shape) for shape in trailing]
        self.counts = [0] * sum(len(terms) for _, terms in self.blocks)
        self.bad: list[tuple[int, int, int]] = []

    def _columns(self, line: list[str], source: np.ndarray) -> np.ndarray:
        """The source as [rows, columns]."""
        if line[2] == "list":
            return source.reshape(-1)
        if line[2] == "column":
            return source.reshape(int(line[1]), self.rows).T
        if line[2] == "bounds":
            return source.reshape(int(line[1]), self.rows + 1 if source.size else 0).T
        if line[1] == "*":
            return source.reshape(self.rows, -1) if self.rows else source.reshape(0, 0)
        return source.reshape(self.rows, int(line[1]))

    def id(self, text: str, row: int, position: int) -> int:
        head = text
        for step in "/%*+":
            start = head.find(":*") + 2 if ":*" in head else 0
            cut = head.find(step, start)
            head = head[:cut] if cut >= 0 else head
        steps = text[len(head) :]
        if head.startswith("="):
            value = int(head[1:])
        else:
            source, column = head.split(":")
            values = self.columns[int(source)]
            value = to_id(
                values[position] if values.ndim == 1 else values[row, position if column == "*" else int(column)]
            )
        while steps:
            end = min((steps.find(step, 1) for step in "/%*+" if steps.find(step, 1) > 0), default=len(steps))
            kind, number = steps[0], int(steps[1:end])
            steps = steps[end:]
            if kind == "/":
                quotient = abs(value) // abs(number)
                value = wrap(quotient if (value < 0) == (number < 0) else -quotient)
            elif kind == "%":
                value = value % number  # as in ONNX, Python's remainder has the divisor's sign
            elif kind == "*":
                value = wrap(value * number)
            else:
                value = wrap(value + number)
        return value

    def looked_up(self, table: int, id: int, first: int, width: int, row: int, line: int) -> np.ndarray:
        values = self.tables[table]
        size = values.shape[0]
        index = id + size if id < 0 else id
        if 0 <= index < size:
            return values[index, first : first + width]
        self.counts[line] += 1
        self.bad.append((row, line, id))
        if self.policy == "clamp":
            return values[0 if id < 0 else size - 1, first : first + width]
        return np.zeros(width, values.dtype)

    def weight(self, words: list[str], row: int, position: int) -> np.float32:
        if words[0] == "one":
            return np.float32(1)
        if words[0] == "ne":
            return np.float32(self.id(words[1], row, position) != int(words[2]))
        if words[0] == "lt":
            low = position if words[1] == "*" else int(words[1])
            return np.float32(low < self.id(words[2], row, position))
        column = position if words[2] == "*" else int(words[2])
        return np.float32(self.columns[int(words[1])][row, column])

    def pooled(self, block: list[str], terms: list[list[str]], row: int, line: int) -> np.ndarray:
        width, op, x = int(block[3]), block[4], np.float32(block[6])
        total = np.full(width, -np.inf if op == "max" else 0, np.float32)
        weights = np.float32(0)
        for number, (table, id_text, first, *weight_words) in enumerate(terms):
            source = id_text.split(":")[0]
            count = self.columns[int(source)].shape[1] if ":*" in id_text else 1
            for position in range(count):
                looked_up = self.looked_up(
                    int(table), self.id(id_text, row, position), int(first), width, row, line + number
                ).astype(np.float32)
                weight = self.weight(weight_words, row, position)
                if op == "max":
                    total = np.maximum(total, looked_up - (np.float32(1) - weight) * x)
                else:
                    total = total + weight * looked_up
                    weights = weights + weight
        return total / (weights + x) if op == "mean" else total

    def position(self, offsets: str, row: int, length: int) -> int:
        """Where a bag begins in its list, as Slice takes an offset."""
        source, _ = offsets.split(":")
        if row == self.rows and self.source_lines[int(source)][2] != "bounds":
            return length
        value = self.id(offsets, row, 0)
        return min(max(value + length if value < 0 else value, 0), length)

    def bag(self, block: list[str], row: int, line: int) -> np.ndarray:
        width, op, empty, table, id_text, first = int(block[3]), *block[4:9]
        weight = self.columns[int(block[10])] if block[9] == "col" else None
        offsets, padding = block[-2:]
        length = self.columns[int(id_text.split(":")[0])].size
        size = self.tables[int(table)].shape[0]
        total = np.full(width, -np.inf if op == "max" else 0, np.float32)
        count = 0
        for position in range(self.position(offsets, row, length), self.position(offsets, row + 1, length)):
            id = self.id(id_text, row, position)
            if padding != "none" and id + (size if id < 0 else 0) == int(padding):
                continue
            looked_up = self.looked_up(int(table), id, int(first), width, row, line).astype(np.float32)
            count += 1
            if op == "max":
                total = np.maximum(total, looked_up)
            else:
                total = total + (looked_up if weight is None else np.float32(weight[position]) * looked_up)
        if count == 0:
            return np.full(width, float(empty), np.float32)
        return total / np.float32(count) if op == "mean" else total

    def run(self) -> Result:
        with np.errstate(all="ignore"):
            for row in range(self.rows):
                line = 0
                for block, terms in self.blocks:
                    output, column, width = (int(word) for word in block[1:4])
                    place = self.flat[output][row, column : column + width]
                    if block[0] == "copy":
                        first = int(block[5])
                        place[:] = self.columns[int(block[4])][row, first : first + width].astype(self.type)
                    elif block[0] == "row":
                        table, id_text, first = terms[0]
                        id = self.id(id_text, row, 0)
                        place[:] = self.looked_up(int(table), id, int(first), width, row, line)
                    elif block[0] == "bag":
                        place[:] = self.bag(block, row, line).astype(self.type)
                    else:
                        place[:] = self.pooled(block, terms, row, line).astype(self.type)
                    line += len(terms)
        outputs = [flat.reshape(shape) for flat, shape in zip(self.flat, self.shapes, strict=True)]
        return Result(outputs, self.counts, min(self.bad, key=lambda bad: bad[:2], default=None))


def run(program: str, sources: list[np.ndarray], tables: list[np.ndarray]) -> Result:
    return Interpreter(program, sources, tables).run()


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two float arrays hold the same values, any NaN being as good as any other."""
    return (
        a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == np.where(np.isnan(b) & np.isnan(a), a, b).tobytes()
    )
