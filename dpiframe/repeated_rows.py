"""A user's inputs at any batch size: their rows, repeated."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpiframe.graph_passes.list_columns import Lengths, Offsets
from dpiframe.input_specs import InputSpec
from dpiframe.inputs import Array, CaseMaker, Feeds, Integers


def repeated_rows(given: Feeds, batch: int, maker: CaseMaker) -> Feeds:
    """`batch` rows of `given`, again from the first where they end.

    A list of ids with offsets into it, or with lengths, has no rows: it is repeated bag by bag, and so are other inputs
    of its length, such as weights. A list of fixed length, or one that several columns of offsets point into, stays as
    it is.
    """
    feeds = dict(given)
    columns = list(_list_columns(maker))
    lists = [found.into for _, _, found in columns]
    as_long = {name: _as_long(name, maker) for name in lists}
    in_lists = {one for names in as_long.values() for one in names}
    axes = {spec.name: maker.sizes.batch_axis(spec) for spec in maker.specs}
    for name, values in given.items():
        if values.ndim and name not in in_lists:
            feeds[name] = _repeated(values, batch, axes[name])
    for holder, column, found in columns:
        if lists.count(found.into) > 1 or isinstance(_spec(found.into, maker).shape[0], int):
            continue
        length, held = len(given[found.into]), given[holder]
        if isinstance(found, Lengths):
            ends = np.cumsum(held)
            taken = _repeated(np.arange(held.size).reshape(held.shape), batch, axes[holder]).ravel()
            elements, _ = _bags(np.append(0, ends[:-1]), ends, taken, length)
        else:
            offsets = _column(held, axes[holder], column)
            begins, ends = (offsets[:-1], offsets[1:]) if found.closed else (offsets, np.append(offsets[1:], length))
            taken = np.arange(batch - found.closed if len(begins) else 0) % max(1, len(begins))
            elements, sizes = _bags(begins, ends, taken, length)
            starts = np.cumsum([0, *sizes])
            _column(feeds[holder], axes[holder], column)[...] = starts if found.closed else starts[:-1]
        feeds.update({one: given[one][elements] for one in as_long[found.into]})
    return feeds


def _repeated(values: Array, batch: int, axis: int) -> Array:
    return np.take(values, np.arange(batch) % values.shape[axis], axis=axis)


def _list_columns(maker: CaseMaker) -> Iterator[tuple[str, int, Offsets | Lengths]]:
    """Input and column of offsets or lengths, and what they are."""
    for holder, ranges in maker.ranges.items():
        for column, found in enumerate(ranges):
            if isinstance(found, Offsets | Lengths):
                yield holder, column, found


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


def _bags(begins: Array, ends: Array, taken: Array, length: int) -> tuple[Integers, Integers]:
    """Positions in the list of the taken bags' elements, one bag after the other, and how many each has."""
    bags = [np.arange(*slice(int(begins[i]), int(ends[i])).indices(length)) for i in taken]
    sizes = np.array([len(bag) for bag in bags], np.int64)
    return np.concatenate([np.zeros(0, np.int64), *bags], dtype=np.int64), sizes
