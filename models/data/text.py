"""Tab- or comma-separated text, read a chunk of rows at a time."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

CHUNK_ROWS = 50_000

# Called with the bytes read so far and the size of the file.
ByteProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class RawRows:
    """A chunk of rows, not yet encoded.

    Attributes:
        labels: float32 [n], 0 or 1.
        dense: float32 [n, D]; a missing value is NaN.
        dense_names: D names.
        categories: by field name, n strings; a missing value is the empty string.
    """

    labels: np.ndarray
    dense: np.ndarray
    dense_names: tuple[str, ...]
    categories: dict[str, Sequence[str]]


@dataclass(frozen=True)
class TextChunk:
    """Columns of consecutive lines.

    Attributes:
        path: the file, for messages.
        first_line: number of the first of the lines, counted from 1.
        columns: a sequence of strings a column.
    """

    path: Path
    first_line: int
    columns: list[tuple[str, ...]]

    def labels(self, column: int) -> np.ndarray:
        """A column of 0 and 1 as float32 [n].

        Raises:
            ValueError: another value; names file and line.
        """
        cells = self.columns[column]
        for row, cell in enumerate(cells):
            if cell not in ("0", "1"):
                raise ValueError(f"{self.path}, line {self.first_line + row}: label {cell!r} is neither 0 nor 1")
        return np.array(cells, dtype=np.float32)

    def numbers(self, column: int) -> np.ndarray:
        """A column of numbers as float32 [n], NaN where the cell is empty.

        Raises:
            ValueError: a cell that is no number; names file, line and column.
        """
        cells = self.columns[column]
        try:
            return np.array([float(cell) if cell else np.nan for cell in cells], dtype=np.float32)
        except ValueError:
            row, cell = next((row, cell) for row, cell in enumerate(cells) if cell and not _is_number(cell))
            raise ValueError(
                f"{self.path}, line {self.first_line + row}, column {column + 1}: {cell!r} is no number"
            ) from None


def first_cells(path: Path) -> list[str]:
    """The cells of the first line.

    Raises:
        FileNotFoundError: no such file.
        ValueError: an empty file, or one that isn't text.
    """
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
    with path.open("rb") as file:
        line = file.readline()
    if not line.strip():
        raise ValueError(f"{path}: the first line is empty")
    return _cells(path, 1, line, _delimiter(line))


def text_chunks(
    path: Path, *, width: int, skip_header: bool, chunk_rows: int = CHUNK_ROWS, progress: ByteProgress | None = None
) -> Iterator[TextChunk]:
    """Reads a file of `width` columns; a tab in the first line makes it tab-separated, else it's comma-separated.

    Args:
        path: the file.
        width: cells that each line must have.
        skip_header: leave out the first line.
        chunk_rows: the most rows a chunk.
        progress: called after each chunk.

    Raises:
        ValueError: a line with another number of cells, or one that isn't UTF-8; names file and line.
    """
    total, done, line_number = path.stat().st_size, 0, 1
    with path.open("rb") as file:
        delimiter = _delimiter(file.readline())
        if skip_header:
            done, line_number = file.tell(), 2
        else:
            file.seek(0)
        while lines := list(islice(file, chunk_rows)):
            rows = [_cells(path, line_number + index, line, delimiter) for index, line in enumerate(lines)]
            for index, row in enumerate(rows):
                if len(row) != width:
                    raise ValueError(
                        f"{path}, line {line_number + index}: {len(row)} cells where {width} are expected; "
                        "give a tab- or comma-separated file without quoting"
                    )
            yield TextChunk(path, line_number, list(zip(*rows, strict=True)))
            line_number += len(lines)
            done += sum(map(len, lines))
            if progress is not None:
                progress(done, total)


def _delimiter(line: bytes) -> str:
    return "\t" if b"\t" in line else ","


def _cells(path: Path, number: int, line: bytes, delimiter: str) -> list[str]:
    try:
        # Some programs begin a file with a byte order mark, which is no part of its first cell.
        return line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n").split(delimiter)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}, line {number}: not UTF-8 text; unpack the file first if it is compressed") from error


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
