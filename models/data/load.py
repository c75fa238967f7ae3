"""A data set from a file of one of the known formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from ..schema import FeatureSchema, SparseField
from .avazu import avazu_rows
from .criteo import criteo_rows, log_transform
from .dataset import Dataset
from .encoding import Encoder, Progress
from .text import CHUNK_ROWS, RawRows

FORMATS: dict[str, Callable[..., Iterator[RawRows]]] = {"criteo": criteo_rows, "avazu": avazu_rows}


def load(
    path: str | Path,
    format_name: str = "criteo",
    *,
    dim: int = 16,
    min_count: int = 10,
    buckets: int | None = None,
    encoder: Encoder | None = None,
    max_rows: int | None = None,
    chunk_rows: int = CHUNK_ROWS,
    progress: Progress | None = None,
) -> tuple[Dataset, Encoder]:
    """Reads and encodes a whole file, a chunk at a time; only the encoded rows are kept.

    Numeric fields are log-transformed. A vocabulary takes a first pass over the same rows.

    Args:
        path: the file.
        format_name: one of `FORMATS`.
        dim: embedding length of every field in the schema.
        min_count: values seen less often share id 0.
        buckets: hash every field into so many ids instead of building vocabularies.
        encoder: encode as another file was, instead of building vocabularies or hashing.
        max_rows: read no more rows; at least 1.
        chunk_rows: rows held as text at a time.
        progress: called after each chunk.

    Returns:
        The rows, labels [N, 1], and the encoder.

    Raises:
        FileNotFoundError: no such file.
        ValueError: an unknown format, a row limit below 1, or a malformed file; names file and line.
    """
    file = Path(path)
    if max_rows is not None and max_rows < 1:
        raise ValueError(f"max_rows is {max_rows}; it must be at least 1")
    if format_name not in FORMATS:
        raise ValueError(f"unknown format {format_name!r}; choose one of {', '.join(FORMATS)}")

    def chunks(stage: str) -> Iterator[RawRows]:
        report = partial(progress, stage) if progress is not None else None
        return _head(FORMATS[format_name](file, chunk_rows=chunk_rows, progress=report), max_rows)

    if encoder is None and buckets is None:
        encoder = Encoder.fit(chunks("counting values"), min_count=min_count)
    ids, dense, labels = [], [], []
    dense_names: tuple[str, ...] = ()
    for chunk in chunks("encoding rows"):
        if encoder is None:
            encoder = Encoder.hashed(chunk.categories, buckets or 0)
        ids.append(encoder.encode(chunk))
        dense.append(log_transform(chunk.dense))
        labels.append(chunk.labels)
        dense_names = chunk.dense_names
    if encoder is None or not labels:
        raise ValueError(f"{file}: no rows")
    schema = FeatureSchema(
        sparse=tuple(SparseField(name, field.size, dim) for name, field in encoder.fields.items()), dense=dense_names
    )
    return Dataset(schema, np.concatenate(ids), np.concatenate(dense), np.concatenate(labels)[:, None]), encoder


def _head(chunks: Iterator[RawRows], rows: int | None) -> Iterator[RawRows]:
    for chunk in chunks:
        if rows is None or len(chunk.labels) < rows:
            yield chunk
            rows = None if rows is None else rows - len(chunk.labels)
            continue
        yield RawRows(
            chunk.labels[:rows],
            chunk.dense[:rows],
            chunk.dense_names,
            {name: values[:rows] for name, values in chunk.categories.items()},
        )
        return
