"""What an iteration of a loop over bags computes, in symbols: see bag_loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.graphs import Node, values_of


@dataclass(frozen=True)
class Outer:
    """A tensor from around the loop, or a constant."""

    tensor: gs.Tensor


@dataclass(frozen=True)
class Iteration:
    """The number of the iteration, plus something."""

    add: int


@dataclass(frozen=True)
class Offset:
    """Element iteration + add of a vector."""

    vector: gs.Tensor
    add: int


@dataclass(frozen=True)
class Length:
    """The number of elements of a vector."""

    vector: gs.Tensor


@dataclass(frozen=True)
class Rest:
    """`length` minus an offset."""

    length: Any
    offset: Offset


@dataclass(frozen=True)
class Items:
    """Elements (or rows) of a tensor between two positions."""

    tensor: gs.Tensor
    begin: Any
    end: Any
    column: bool = False


@dataclass(frozen=True)
class Kept:
    """Positions between two offsets whose id is not the padding."""

    ids: gs.Tensor
    begin: Offset
    end: Offset
    padding: int
    rows: int


@dataclass(frozen=True)
class Count:
    kept: Kept


@dataclass(frozen=True)
class Rows:
    table: gs.Tensor
    ids: gs.Tensor
    weights: gs.Tensor | None
    begin: Any
    end: Any
    padding: int | None = None


@dataclass(frozen=True)
class Reduced:
    """Rows reduced. `over`: what a sum is divided by. zero: bags without ids give 0, whatever the reduction gives."""

    op: str
    rows: Rows
    keep: bool
    over: Any = None
    zero: bool = False


@dataclass(frozen=True)
class Test:
    kind: str
    a: Any
    b: Any


@dataclass(frozen=True)
class LastOr:
    """What the last iteration gives, and what the others do."""

    last: Any
    other: Any


@dataclass(frozen=True)
class Appended:
    value: Any


class Sequence:
    """The sequence that the loop appends to."""


def axes_of(node: Node) -> list[int] | None:
    if len(node.inputs) < 2:
        given = node.attrs.get("axes")
        return [int(axis) for axis in given] if given is not None else None
    return values_of(node.inputs[1]).ravel().tolist() if is_small_constant(node.inputs[1], 64) else None


def constant_integer(tensor: gs.Tensor) -> int | None:
    """The value of a constant integer."""
    if not is_small_constant(tensor, 8):
        return None
    values = values_of(tensor)
    return int(values.item()) if values.size == 1 and values.dtype.kind in "iu" else None


def is_true(tensor: gs.Tensor) -> bool:
    return is_small_constant(tensor, 1) and bool(values_of(tensor).all())


def producer_of(tensor: gs.Tensor) -> Node | None:
    return tensor.inputs[0] if tensor.inputs else None
