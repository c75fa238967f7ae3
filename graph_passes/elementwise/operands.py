"""A node's operands as values of a program: what is read from outside, and how it lies beside the rows."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.custom_ops.elementwise_operators import NUMPY_TYPES
from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.elementwise.lines import Expr, Lines, RefusedError, wide
from dpiframe.graph_passes.elementwise.program import Sizes
from dpiframe.graph_passes.elementwise.rows import Axes, place
from dpiframe.graph_passes.graphs import Node, type_name, values_of

TYPES = {np.dtype(name): kind for kind, name in NUMPY_TYPES.items()}
MAX_EMBEDDED_BYTES = 1 << 17
"""Of a constant that the function's body holds: axes, shapes, indices."""


class Reader:
    """The tensors that nodes of one row space read and make. inputs: those that come from outside, in order.

    Constants of a single element become part of the program. So does what says which elements to take (axes, shapes,
    indices). Other constants are inputs, so that layers of the same structure share a program.
    """

    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self.lines = Lines(len(axes))
        self.inputs: list[gs.Tensor] = []
        self._values: dict[int, Expr] = {}
        self._places: dict[int, tuple[str, Sizes]] = {}
        self._embedded: set[int] = set()

    def make(self, tensor: gs.Tensor, value: Expr) -> None:
        self._values[id(tensor)] = value

    def knows(self, tensor: gs.Tensor) -> bool:
        """It is an input, or a node made it."""
        return id(tensor) in self._values

    def made(self, tensor: gs.Tensor) -> Expr:
        return self._values[id(tensor)]

    def read(self, tensor: gs.Tensor, rank: int) -> Expr:
        """A tensor beside row values of this rank."""
        known = self._values.get(id(tensor))
        if known is not None and id(tensor) not in self._places:
            if len(tensor.shape) != rank:
                raise RefusedError("it broadcasts a batch axis against another axis")
            return known
        kind = type_of(tensor)
        if is_embedded_number(tensor):
            return self.lines.const(kind, values_of(tensor).item())
        where = place(tensor, self.axes, rank)
        if where is None:
            raise RefusedError(f"an operand of shape {tensor.shape} does not broadcast row by row")
        if known is not None:
            if self._places[id(tensor)] != where:
                raise RefusedError("it reads one tensor in two ways")
            return known
        if id(tensor) in self._embedded:
            raise RefusedError("it reads one constant in two ways")
        value = self.lines.input(kind, *where)
        self._places[id(tensor)] = where
        self._values[id(tensor)] = value
        self.inputs.append(tensor)
        return value

    def embed(self, tensor: gs.Tensor) -> np.ndarray:
        """The values of a constant that the body will hold."""
        if not is_small_constant(tensor, MAX_EMBEDDED_BYTES):
            raise RefusedError(f"its operand '{tensor.name}' isn't a small constant")
        if id(tensor) in self._places:
            raise RefusedError("it reads one constant in two ways")
        self._embedded.add(id(tensor))
        return values_of(tensor)


class Operands:
    """One node, with its operands as values."""

    def __init__(self, reader: Reader, node: Node, opset: int, outputs: Collection[int]) -> None:
        self.node = node
        self.opset = opset
        self.rows = len(reader.axes)
        self.lines = reader.lines
        self._reader = reader
        self._outputs = outputs

    @property
    def kind(self) -> str:
        """The result's type."""
        return type_of(self.node.outputs[0])

    @property
    def sizes(self) -> Sizes:
        """The result's sizes."""
        return self.sizes_of(0)

    @property
    def rank(self) -> int:
        """Of the result, row axes counted."""
        return len(self.node.outputs[0].shape)

    def sizes_of(self, output: int) -> Sizes:
        return tuple(self.node.outputs[output].shape[self.rows :])

    def has(self, index: int) -> bool:
        return index < len(self.node.inputs) and not self.node.inputs[index].is_empty()

    def x(self, index: int = 0) -> Expr:
        """An operand as broadcasting sees it beside the result."""
        return self._reader.read(self.node.inputs[index], self.rank)

    def all(self) -> list[Expr]:
        return [self.x(index) for index in range(len(self.node.inputs))]

    def is_row(self, index: int) -> bool:
        shape = self.node.inputs[index].shape
        return shape is not None and tuple(shape[: self.rows]) == self._reader.axes

    def row(self, index: int = 0) -> Expr:
        """An operand that has all row axes."""
        if not self.is_row(index):
            shape = self.node.inputs[index].shape
            raise RefusedError(f"an operand of shape {shape} has other rows than the result", telling=False)
        tensor = self.node.inputs[index]
        value = self._reader.read(tensor, len(tensor.shape))
        return self.lines.reshape(value, tuple(tensor.shape[self.rows :]))

    def weight(self, index: int) -> Expr:
        """An operand without row axes, in its own shape."""
        tensor = self.node.inputs[index]
        if tensor.shape is None or not all(isinstance(dim, int) for dim in tensor.shape):
            raise RefusedError(f"an operand of shape {tensor.shape} is no weight", telling=False)
        value = self._reader.read(tensor, len(tensor.shape) + self.rows)
        return self.lines.view(value, np.arange(int(np.prod(tensor.shape))).reshape(tensor.shape))

    def constant(self, index: int) -> np.ndarray | None:
        """A constant operand's values; None where it isn't given."""
        return self._reader.embed(self.node.inputs[index]) if self.has(index) else None

    def listed(self, index: int) -> np.ndarray | None:
        """The same for an operand that lists numbers."""
        values = self.constant(index)
        if values is not None and values.ndim != 1:
            raise RefusedError("an operand that should be a list is none")
        return values

    def attribute(self, name: str, default: Any) -> Any:
        return self.node.attrs.get(name, default)

    def axis(self, axis: int) -> int:
        """An axis of the first operand, counted behind the row axes."""
        behind = int(axis) % len(self.node.inputs[0].shape) - self.rows
        if behind < 0:
            raise RefusedError("it works across rows")
        return behind

    def axes(self) -> list[int] | None:
        """Axes that are an attribute in older operator sets and the second operand in newer ones; None where they
        aren't given."""
        listed = self.attribute("axes", None)
        if listed is None:
            listed = self.listed(1)
        return None if listed is None else [self.axis(axis) for axis in listed]

    def only_first_output(self) -> None:
        """Refuse a node of which something reads another output."""
        for tensor in self.node.outputs[1:]:
            if tensor.outputs or id(tensor) in self._outputs:
                raise RefusedError(f"its output '{tensor.name}' is used, too")

    def wide(self, index: int = 0) -> Expr:
        """An operand in the type that it is computed in."""
        return wide(self.x(index))


def type_of(tensor: gs.Tensor) -> str:
    kind = TYPES.get(tensor.dtype) if isinstance(tensor.dtype, np.dtype) else None
    if kind is None:
        raise RefusedError(f"tensors of type {type_name(tensor)} aren't supported")
    return kind


def is_embedded_number(tensor: gs.Tensor) -> bool:
    """A constant of a single element."""
    return is_small_constant(tensor, 8) and int(np.prod(tensor.shape)) == 1
