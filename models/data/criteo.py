"""The Criteo display advertising challenge: 13 counts and 26 hashed categories a row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .text import CHUNK_ROWS, ByteProgress, RawRows, first_cells, text_chunks

DENSE = tuple(f"I{number}" for number in range(1, 14))
SPARSE = tuple(f"C{number}" for number in range(1, 27))


def criteo_rows(path: Path, *, chunk_rows: int = CHUNK_ROWS, progress: ByteProgress | None = None) -> Iterator[RawRows]:
    """Reads train.txt of the challenge (tab-separated, no header), or a CSV with the header label,I1..I13,C1..C26.

    Args:
        path: the file.
        chunk_rows: the most rows a chunk.
        progress: called after each chunk with bytes read and the file's size.

    Raises:
        FileNotFoundError: no such file.
        ValueError: other columns, or a cell of the wrong kind; names file and line.
    """
    columns = ("label", *DENSE, *SPARSE)
    header = first_cells(path)
    named = header[0].lower() == "label"
    if len(header) != len(columns) or (named and tuple(header) != columns):
        raise ValueError(
            f"{path}: {len(header)} columns starting with {header[0]!r} are not Criteo's 40 (label, I1-I13, C1-C26)"
        )
    for chunk in text_chunks(path, width=len(columns), skip_header=named, chunk_rows=chunk_rows, progress=progress):
        yield RawRows(
            labels=chunk.labels(0),
            dense=np.stack([chunk.numbers(1 + index) for index in range(len(DENSE))], axis=1),
            dense_names=DENSE,
            categories=dict(zip(SPARSE, chunk.columns[1 + len(DENSE) :], strict=True)),
        )


def log_transform(counts: np.ndarray) -> np.ndarray:
    """log(1 + max(x, 0)), as DLRM prepares Criteo's counts (Naumov et al. 2019, Section 5.1); missing values become 0.

    Args:
        counts: float32, any shape, NaN where missing.
    """
    present = np.nan_to_num(np.maximum(counts, 0), nan=0.0)
    return np.asarray(np.log1p(present), np.float32)
