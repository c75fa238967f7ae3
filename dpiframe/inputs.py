"""Test inputs for a model: random rows and edge cases, with ids that lie inside the tables they are looked up in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from dpiframe.graph_passes.list_columns import Column, Lengths, Offsets
from dpiframe.input_specs import InputSpec, Sizes

Array = npt.NDArray[np.generic]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
ColumnRanges = Sequence[Column]
Feeds = dict[str, Array]

BATCHES = (1, 7, 64)
_EDGE_BATCH = 7
# Integers that are no ids are lengths, counts or flags: small values are valid for all of them.
_SMALL_INTEGERS = range(3)
# Of more ids than this, random ones come from so many stretches of neighbours: systems read a file that is in memory
# pages at a time, and ahead, so rows anywhere in tables of many GB would be most of these tables.
_LARGE = 1 << 16
_STRETCHES = 8
_NEIGHBOURS = 64


@dataclass(frozen=True)
class Case:
    """One run's inputs, by name, and what the reports call them."""

    name: str
    feeds: Feeds


@dataclass(frozen=True)
class _Kind:
    """How a case's values are drawn. ids and dense name a rule of `_ids` and `_dense`."""

    name: str
    ids: str
    dense: str


_RANDOM = _Kind("random inputs", "random", "normal")
_EDGES = (
    _Kind("all ids at their minimum, dense values zero", "minimum", "zero"),
    _Kind("all ids at their maximum", "maximum", "normal"),
    _Kind("negative ids", "negative", "normal"),
    _Kind("one id repeated in all rows", "repeated", "normal"),
    _Kind("half the ids at their minimum, dense values small integers", "padded", "integers"),
)
# Not with ids at an end of their tables: large values would hide what these rows give.
_FLOAT_EDGES = (
    _Kind("large dense values", "random", "large"),
    _Kind("NaN and infinite dense values", "random", "special"),
)
_FLOAT_ID_EDGES = (_Kind("ids with a fraction", "fraction", "normal"),)
_OUTSIDE = _Kind("ids outside their tables", "outside", "normal")


class CaseMaker:
    """Makes the cases for one model. The values are the same at every call: each case has its own fixed seed.

    ranges: for each input with ids, the valid ids of its flattened non-batch columns, or what else stands there where
    ids lie in a list. None stands for a column without ids.
    """

    def __init__(
        self, specs: Sequence[InputSpec], ranges: Mapping[str, ColumnRanges], *, equal_sizes: bool = False
    ) -> None:
        self.specs = list(specs)
        self.ranges = ranges
        self.sizes = Sizes(specs, equal=equal_sizes)

    def cases(self) -> Iterator[Case]:
        """Random inputs at each batch size, the empty batch, then the edge cases."""
        dynamic = self.sizes.is_dynamic(self.specs)
        if dynamic:
            for batch in BATCHES:
                yield self._case(_RANDOM, batch, f"{_RANDOM.name}, batch {batch}")
            yield self._case(_RANDOM, 0, "empty batch")
        else:
            yield self._case(_RANDOM, _EDGE_BATCH, _RANDOM.name)
        for kind in self._edges():
            yield self._case(kind, _EDGE_BATCH, kind.name)

    def only_batch(self) -> int | None:
        """The batch that the model takes, 1 where no input has any; None where it takes all sizes."""
        if self.sizes.is_dynamic(self.specs):
            return None
        feeds = self.random(1)
        return next((feeds[s.name].shape[self.sizes.batch_axis(s)] for s in self.specs if feeds[s.name].ndim), 1)

    def random(self, batch: int) -> Feeds:
        return self._case(_RANDOM, batch, _RANDOM.name).feeds

    def outside(self) -> Case | None:
        """Ids outside their tables among valid ones; None where no input carries ids."""
        return self._case(_OUTSIDE, _EDGE_BATCH, _OUTSIDE.name) if self._has_ids("fiu") else None

    def _edges(self) -> Iterator[_Kind]:
        yield from _EDGES
        if any(self._has_dense(spec) for spec in self.specs):
            yield from _FLOAT_EDGES
        if self._has_ids("f"):
            yield from _FLOAT_ID_EDGES

    def _has_ids(self, kinds: str) -> bool:
        names = {s.name for s in self.specs if s.dtype is not None and s.dtype.kind in kinds}
        return any(isinstance(r, range) for name in names for r in self.ranges.get(name, ()))

    def _has_dense(self, spec: InputSpec) -> bool:
        ranges = self.ranges.get(spec.name, (None,))
        return spec.dtype is not None and spec.dtype.kind == "f" and any(r is None for r in ranges)

    def _case(self, kind: _Kind, batch: int, name: str) -> Case:
        rng = np.random.default_rng([batch, *kind.name.encode()])
        return Case(name, {spec.name: self._values(spec, kind, batch, rng) for spec in self.specs})

    def _values(self, spec: InputSpec, kind: _Kind, batch: int, rng: np.random.Generator) -> Array:
        shape = self.sizes.shape(spec, batch)
        axis = self.sizes.batch_axis(spec)
        rows = shape[axis] if shape else 1
        columns = prod(shape[:axis] + shape[axis + 1 :]) if shape else 1
        if spec.dtype is None:
            return rng.choice(np.array(["", "0", "1", "a"]), size=shape)
        ranges = _spread(self.ranges.get(spec.name, (None,)), columns)
        for found in ranges:
            if isinstance(found, Lengths):
                return self._lengths(found, shape, batch, rng).astype(spec.dtype)
        flat = _dense(kind.dense, spec.dtype, (rows, columns), rng)
        for column, found in enumerate(ranges):
            if isinstance(found, Offsets):
                flat[:, column] = self._offsets(found, rows, batch, rng)
        at = [i for i, valid in enumerate(ranges) if valid and isinstance(valid, range)]
        if at:
            valid = [ranges[i] for i in at]
            first = np.array([r.start for r in valid if isinstance(r, range)])
            last = np.array([r[-1] for r in valid if isinstance(r, range)])
            ids = _ids(kind.ids, first, last, rows, rng)
            flat[:, at] = _fit(ids, None if kind.ids == "outside" else last, spec.dtype)
        if not shape:
            return flat.reshape(())
        return np.ascontiguousarray(np.moveaxis(flat.reshape(rows, *shape[:axis], *shape[axis + 1 :]), 0, axis))

    def _offsets(self, offsets: Offsets, rows: int, batch: int, rng: np.random.Generator) -> Integers:
        """Where each row's part of a list begins: in order, the first at 0, some at the same place as the next."""
        length = self._length(offsets.into, batch)
        result = np.sort(rng.integers(0, length, rows, endpoint=True))
        if offsets.closed:
            result[-1:] = length
        result[:1] = 0
        return result

    def _lengths(self, lengths: Lengths, shape: tuple[int, ...], batch: int, rng: np.random.Generator) -> Integers:
        """Numbers that add up to a list's, some of them 0."""
        length, count = self._length(lengths.into, batch), prod(shape)
        ends = np.sort(rng.integers(0, length, count, endpoint=True))
        ends[-1:] = length
        return np.diff(ends, prepend=0).reshape(shape)

    def _length(self, name: str, batch: int) -> int:
        return sum(prod(self.sizes.shape(spec, batch)) for spec in self.specs if spec.name == name)


def _spread(ranges: ColumnRanges, columns: int) -> list[Column]:
    """One range a column: a list that is shorter (dynamic columns) repeats."""
    return [ranges[i % len(ranges)] for i in range(columns)] if ranges else [None] * columns


def _ids(rule: str, first: Integers, last: Integers, rows: int, rng: np.random.Generator) -> Integers | Floats:
    """[rows, columns] ids; first and last are each column's valid ones."""
    shape, count = (rows, len(first)), last - first + 1
    drawn = _drawn(first, last, shape, rng)
    if rule == "minimum":
        return np.broadcast_to(first, shape)
    if rule == "maximum":
        return np.broadcast_to(last, shape)
    if rule == "negative":
        return drawn - np.where(first < 0, 0, count)
    if rule == "repeated":
        return np.broadcast_to(first + count // 2, shape)
    if rule == "padded":
        return np.where(rng.random(shape) < 0.5, first, drawn)
    if rule == "fraction":
        return drawn + np.where(drawn < 0, -0.75, 0.75)
    if rule == "outside":
        beyond = np.stack([last + 1, last + 1000, first - count - 1, first * 0 + 2**31 - 1, first * 0 - 2**31])
        return np.where(rng.random(shape) < 0.5, beyond[np.arange(rows) % len(beyond)], drawn)
    return drawn


def _drawn(first: Integers, last: Integers, shape: tuple[int, int], rng: np.random.Generator) -> Integers:
    """Random ids between each column's first and last, from stretches that lie evenly spread where there are many."""
    drawn = rng.integers(first, last, shape, endpoint=True)
    large = last - first >= _LARGE
    if large.any():
        apart = (last - first - _NEIGHBOURS) // (_STRETCHES - 1)
        near = first + rng.integers(_STRETCHES, size=shape) * apart + rng.integers(_NEIGHBOURS, size=shape)
        drawn = np.where(large, near, drawn)
    return drawn


def _fit(ids: Integers | Floats, last: Integers | None, dtype: np.dtype[np.generic]) -> Array:
    """Ids in the input's type. A float type may round an id up past `last`: the next lower value is taken then."""
    if dtype.kind != "f":
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(str(dtype)).min, np.iinfo(str(dtype)).max)
        return np.clip(ids, low, high).astype(dtype)
    with np.errstate(over="ignore"):
        values = ids.astype(dtype)
    if last is None:
        return values
    return np.where(np.trunc(values.astype(np.float64)) > last, np.nextafter(values, dtype.type(-np.inf)), values)


def _dense(rule: str, dtype: np.dtype[np.generic], shape: tuple[int, int], rng: np.random.Generator) -> Array:
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        small = rng.integers(_SMALL_INTEGERS.start, _SMALL_INTEGERS.stop, shape)
        return (np.zeros(shape) if rule == "zero" else small).astype(dtype)
    values = rng.standard_normal(shape)
    if rule == "zero":
        values = np.zeros(shape)
    elif rule == "integers":
        values = rng.integers(0, 10, shape).astype(np.float64)
    elif rule == "large":
        values = values * min(1e6, float(np.finfo(str(dtype)).max) / 8)
    elif rule == "special":
        # A row of each kind, so that one NaN doesn't hide what the others give; a column in three has it.
        for row, special in enumerate((np.nan, np.inf, -np.inf)):
            values[row : row + 1, row::3] = special
    return values.astype(dtype)
