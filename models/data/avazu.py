"""The Avazu click-through challenge: categories only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np

from .text import CHUNK_ROWS, ByteProgress, RawRows, first_cells, text_chunks

_LABELS = ("click", "label")
# Made of `hour`, beside `hour` itself.
_DERIVED = ("weekday", "weekend")


def avazu_rows(path: Path, *, chunk_rows: int = CHUNK_ROWS, progress: ByteProgress | None = None) -> Iterator[RawRows]:
    """Reads `train` of the challenge, or any file of categories whose header names a column "click" or "label".

    `id`, a number of the row, is left out. `hour` (YYMMDDHH) would be new in every later row; three fields take its
    place: `hour` (00-23), `weekday` (0-6, Monday first) and `weekend` (0, 1).

    Args:
        path: the file.
        chunk_rows: the most rows a chunk.
        progress: called after each chunk with bytes read and the file's size.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no such header, a column named as a field made of `hour`, or a cell of the wrong kind; names file
            and line.
    """
    header = first_cells(path)
    label = next((header.index(name) for name in _LABELS if name in header), None)
    if label is None:
        raise ValueError(f"{path}: the first line names no column 'click' or 'label'")
    if len(set(header)) != len(header):
        raise ValueError(f"{path}: the first line names a column twice")
    # One of two fields of a name would be lost.
    if "hour" in header and (taken := [name for name in _DERIVED if name in header]):
        raise ValueError(
            f"{path}, line 1: column {taken[0]!r} has the name of a field that is made of 'hour'; rename or remove it"
        )
    for chunk in text_chunks(path, width=len(header), skip_header=True, chunk_rows=chunk_rows, progress=progress):
        categories: dict[str, Sequence[str]] = {}
        for index, name in enumerate(header):
            if name == "hour":
                categories |= _hour_fields(chunk.columns[index], path, chunk.first_line)
            elif index != label and name != "id":
                categories[name] = chunk.columns[index]
        labels = chunk.labels(label)
        yield RawRows(labels, np.empty((len(labels), 0), np.float32), (), categories)


def _hour_fields(cells: Sequence[str], path: Path, first_line: int) -> dict[str, Sequence[str]]:
    weekdays: dict[str, int] = {}
    for row, cell in enumerate(cells):
        if cell not in weekdays:
            try:
                # strptime alone would take a single digit for the hour.
                weekdays[cell] = datetime.strptime(cell.rjust(8, "?"), "%y%m%d%H").weekday()
            except ValueError:
                raise ValueError(f"{path}, line {first_line + row}: hour {cell!r} is not YYMMDDHH") from None
    return {
        "hour": [cell[6:] for cell in cells],
        "weekday": [str(weekdays[cell]) for cell in cells],
        "weekend": [str(int(weekdays[cell] >= 5)) for cell in cells],
    }
