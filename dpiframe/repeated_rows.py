"""A user's inputs at any batch size: their rows, repeated."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpiframe.input_specs import InputSpec
from dpiframe.inputs import Array, CaseMaker, Feeds, Integers


def repeated_rows(given: Feeds, batch: int, maker: CaseMaker) -> Feeds:
    """`batch` rows of `given`, again from the first where they end.

    A list of ids with offsets into it has no rows: it is repeated bag by bag, and so are other inputs of its length,
    such as weights. A list of fixed length, or one that several columns of offsets point into, stays as it is.
    """
    feeds = dict(given)
    columns = list(_offset_columns(maker))
    lists = [name for _, _, name in columns]
    as_long = {name: _as_long(name, maker) for name in lists}
    in_lists = {one for names in as_long.values() for one in names}
    axes = {spec.name: maker.sizes.batch_axis(spec) for spec in maker.specs}
    for name, values in given.items():
        if values.ndim and name not in in_lists:
            feeds[name] = np.take(values, np.arange(batch) % values.shape[axes[name]], axis=axes[name])
    for offsets, column, name in columns:
        if lists.count(name) > 1 or isinstance(_spec(name, maker).shape[0], int):
            continue
        elements, begins = _bags(_column(given[offsets], axes[offsets], column), len(given[name]), batch)
        feeds.update({one: given[one][elements] for one in as_long[name]})
        _column(feeds[offsets], axes[offsets], column)[...] = begins
    return feeds


def _offset_columns(maker: CaseMaker) -> Iterator[tuple[str, int, str]]:
    """Input and column of offsets, and the list that they point into."""
    for offsets, ranges in maker.ranges.items():
        for column, into in enumerate(ranges):
            if isinstance(into, str):
                yield offsets, column, into


def _spec(name: str, maker: CaseMaker) -> InputSpec:
    return next(spec for spec in maker.specs if spec.name == name)


def _as_long(name: str, maker: CaseMaker) -> list[str]:
    """The list, and the inputs whose first axis has its length's name."""
    length = _spec(name, maker).shape[0]
    named = [spec.name for spec in maker.specs if isinstance(length, str) and spec.shape[:1] == (length,)]
    return named or [name]


def _column(values: Array, axis: int, column: int) -> Array:
    """The part of an array that holds one column, along the batch: a view."""
    columns = np.moveaxis(values, axis, -1)
    return np.asarray(columns[tuple(int(index) for index in np.unravel_index(column, columns.shape[:-1]))])


def _bags(offsets: Array, length: int, batch: int) -> tuple[Integers, Integers]:
    """Positions in the list of `batch` bags' elements, one bag after the other, and where each begins in these."""
    ends = np.append(offsets[1:], length)
    bags = [np.arange(*slice(int(begin), int(end)).indices(length)) for begin, end in zip(offsets, ends, strict=True)]
    taken = [bags[i % len(bags)] for i in range(batch)]
    sizes = np.array([len(bag) for bag in taken], np.int64)
    return np.concatenate(taken, dtype=np.int64), np.cumsum(sizes) - sizes
