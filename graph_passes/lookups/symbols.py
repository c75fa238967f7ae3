"""Values known symbolically: which id, table row, weight or pooled row each element of a tensor is, for any batch.

A tensor between the graph's inputs and the joined embeddings is an array of codes, one an element, with size 1 on its
row
(batch) axes. Layout operators are numpy operators on that array; arithmetic makes new atoms. So every exporter's way of
slicing, stacking, masking and pooling ends in the same description.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.shape_values import Dim

# A code is an atom's index and an element's position within it (0 for scalars).
POSITION_BITS = 20
POSITION_MASK = (1 << POSITION_BITS) - 1
MAX_ELEMENTS = 1 << 18
"""Elements a row up to which a tensor is worth describing one by one; where there are more, launching is not what
costs."""
SCALAR_TYPES: dict[Any, str] = {
    np.dtype(np.int32): "int",
    np.dtype(np.int64): "int",
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "float",
    np.dtype(np.float16): "float",
}


@dataclass(frozen=True)
class Number:
    """A constant."""

    value: float | int | bool


@dataclass(frozen=True)
class Column:
    """Element `index` of each row of a source tensor of floats."""

    source: int
    index: int


@dataclass(frozen=True)
class Id:
    """An integer: a source's column (truncated where the source holds floats), then div, mod, mul, add."""

    source: int
    index: int
    div: int = 1
    mod: int = 0
    mul: int = 1
    add: int = 0


@dataclass(frozen=True)
class Test:
    """A comparison: `ne`/`eq` (id, number), or `lt`/`ge` (number < id, number >= id)."""

    kind: str
    id: Id
    number: int

    def negated(self) -> Test:
        return Test({"ne": "eq", "eq": "ne", "lt": "ge", "ge": "lt"}[self.kind], self.id, self.number)


@dataclass(frozen=True)
class Mask:
    """A test as a float, 0 or 1."""

    test: Test


@dataclass(frozen=True)
class Complement:
    """(1 - w) * factor."""

    weight: Mask | Column
    factor: float


@dataclass(frozen=True)
class WeightSum:
    """(sum of weights) + eps: what a mean divides by."""

    weights: tuple[Mask | Column, ...]
    eps: float


@dataclass(frozen=True)
class TableRow:
    """One row of a table."""

    table: int
    id: Id
    dim: int


@dataclass(frozen=True)
class Pooled:
    """Several weighted rows as one. terms: (row, weight or None for 1). op and x as the program's pool."""

    op: str
    terms: tuple[tuple[TableRow, Mask | Column | None], ...]
    x: float = 0.0


@dataclass(frozen=True)
class Penalized:
    """row - (1 - w) * x: what a masked maximum is taken over."""

    row: TableRow
    weight: Mask | Column
    x: float


@dataclass(frozen=True)
class Bagged:
    """As many rows of a table pooled into one as a row's bag has ids: those of a list from the row's offset on.

    id: each id, from the list that is its source. offsets: a row's offset; with `bounds` there is one more than rows.
    weights: the source that is a list of them.
    """

    table: int
    id: Id
    offsets: Id
    bounds: bool
    op: str
    weights: int | None
    padding: int | None
    lowest: bool
    dim: int


Atom = Number | Column | Id | Test | Mask | Complement | WeightSum | TableRow | Pooled | Penalized | Bagged
VECTORS = (TableRow, Pooled, Penalized, Bagged)


@dataclass
class Value:
    """A tensor's elements. codes: int64, full rank, size 1 on the row axes. axes: the row axes. dims: their sizes
    or symbols."""

    codes: np.ndarray
    axes: tuple[int, ...]
    dims: tuple[Dim, ...]

    @cached_property
    def atoms(self) -> list[int]:
        """The numbers of the atoms that occur, each once."""
        return [int(number) for number in np.unique(self.codes >> POSITION_BITS)]

    @property
    def shape(self) -> list[Dim]:
        shape: list[Dim] = [int(d) for d in self.codes.shape]
        for axis, dim in zip(self.axes, self.dims, strict=True):
            shape[axis] = dim
        return shape


class Atoms:
    """The atoms in use, each once, and the tensors that they speak of."""

    def __init__(self) -> None:
        self._atoms: list[Atom] = []
        self._index: dict[Atom, int] = {}
        self.sources: list[gs.Tensor] = []
        self.tables: list[gs.Tensor] = []
        self._read: dict[int, frozenset[int]] = {}
        self._tensors: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._atoms)

    def __getitem__(self, index: int) -> Atom:
        return self._atoms[index]

    def code(self, atom: Atom) -> int:
        """The code of an atom's first element."""
        key: Any = (type(atom), type(atom.value), atom) if isinstance(atom, Number) else atom
        index = self._index.get(key)
        if index is None:
            index = self._index[key] = len(self._atoms)
            self._atoms.append(atom)
        return index << POSITION_BITS

    def of_code(self, code: int) -> Atom:
        return self._atoms[int(code) >> POSITION_BITS]

    def source(self, tensor: gs.Tensor) -> int:
        return self._number(tensor, self.sources)

    def table(self, tensor: gs.Tensor) -> int:
        return self._number(tensor, self.tables)

    def kinds(self, value: Value) -> set[type]:
        """The kinds of atoms among a value's elements."""
        return {type(self._atoms[index]) for index in value.atoms}

    def sources_of(self, value: Value) -> set[int]:
        """Numbers of the sources that a value's elements read."""
        return {source for index in value.atoms for source in self._sources_of_atom(index)}

    def _sources_of_atom(self, index: int) -> frozenset[int]:
        if index not in self._read:
            self._read[index] = frozenset(_sources_in(self._atoms[index]))
        return self._read[index]

    def _number(self, tensor: gs.Tensor, known: list[gs.Tensor]) -> int:
        index = self._tensors.get(id(tensor))
        if index is None:
            index = self._tensors[id(tensor)] = len(known)
            known.append(tensor)
        return index


def _sources_in(atom: Any) -> Iterator[int]:
    match atom:
        case Column(source) | Id(source):
            yield source
        case tuple():
            for part in atom:
                yield from _sources_in(part)
        case Test(_, id) | Mask(Test(_, id)) | TableRow(id=id):
            yield from _sources_in(id)
        case Complement(weight):
            yield from _sources_in(weight)
        case WeightSum(weights):
            yield from _sources_in(weights)
        case Pooled(_, terms):
            yield from _sources_in(terms)
        case Penalized(row, weight):
            yield from _sources_in((row, weight))
        case Bagged(id=ids, offsets=offsets, weights=weights):
            yield from (ids.source, offsets.source)
            if weights is not None:
                yield weights


def source_value(tensor: gs.Tensor, atoms: Atoms) -> Value | None:
    """A tensor taken as it is: a source whose elements are columns. None where its shape doesn't tell rows from
    columns.

    One dynamic axis is the batch, first or (for a matrix) last; two at the front are batch and length; with none, axis
    0 is.
    """
    shape = tensor.shape
    kind = (
        SCALAR_TYPES.get(np.dtype(tensor.dtype))
        if tensor.dtype is not None and not isinstance(tensor.dtype, int)
        else None
    )
    if not shape or kind is None or getattr(tensor, "type", "tensor_type") not in (None, "tensor_type"):
        return None
    dynamic = tuple(axis for axis, dim in enumerate(shape) if not isinstance(dim, int))
    axes = dynamic or (0,)
    if axes not in ((0,), (0, 1)) and not (len(shape) == 2 and axes == (1,)):
        return None
    sizes = [1 if axis in axes else dim for axis, dim in enumerate(shape)]
    count = int(np.prod(sizes))
    if not 0 < count <= MAX_ELEMENTS:
        return None
    number = atoms.source(tensor)
    make: Any = Id if kind == "int" else Column
    codes = np.array([atoms.code(make(number, c)) for c in range(count)], np.int64).reshape(sizes)
    dims = tuple(shape[axis] if shape[axis] is not None else f"{tensor.name}#{axis}" for axis in axes)
    return Value(codes, axes, dims)


def constant_value(values: np.ndarray, atoms: Atoms) -> Value | None:
    """A small constant as an array of numbers."""
    if values.dtype.kind not in "iufb":
        return None
    codes = [atoms.code(Number(element)) for element in values.ravel().tolist()]
    return Value(np.array(codes, np.int64).reshape(values.shape), (), ())
