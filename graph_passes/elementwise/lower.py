"""Nodes to a program: each node's rule, in order, and at the end the lines that the outputs need."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import onnx_graphsurgeon as gs

from dpiframe.custom_ops.elementwise_operators import FLOATS
from dpiframe.graph_passes.elementwise.lines import Expr, RefusedError
from dpiframe.graph_passes.elementwise.operands import Operands, Reader, is_embedded_number, type_of
from dpiframe.graph_passes.elementwise.products import product_rules
from dpiframe.graph_passes.elementwise.program import ElementwiseProgram
from dpiframe.graph_passes.elementwise.rows import Axes, row_axes
from dpiframe.graph_passes.elementwise.rules import ELEMENTWISE, WITHIN_ROWS
from dpiframe.graph_passes.elementwise.views import VIEWS, split
from dpiframe.graph_passes.graphs import Node, is_standard

Rule = Callable[[Operands], Expr | list[Expr]]


@dataclass(frozen=True)
class Lowered:
    """A program and the tensors behind its inputs."""

    program: ElementwiseProgram
    inputs: list[gs.Tensor]


class Lowering:
    """What nodes of one graph may become. batch: see `fixed_batch`. products: see `product_rules`. outputs: id() of
    the tensors that graphs give."""

    def __init__(self, opset: int, batch: int | None, products: int, outputs: Collection[int]) -> None:
        self._opset = opset
        self._batch = batch
        self._outputs = outputs
        self._rules: dict[str, Rule] = {
            **ELEMENTWISE,
            **WITHIN_ROWS,
            **VIEWS,
            "Split": split,
            **product_rules(products),
        }

    def knows(self, node: Node) -> bool:
        """There is a rule for the operator."""
        return node.op in self._rules and is_standard(node)

    def alone(self, node: Node) -> tuple[Axes, ElementwiseProgram]:
        """The row axes of a node that a program may hold, and that program. Raises RefusedError for other nodes."""
        axes = row_axes(node.outputs[0].shape, self._batch)
        if axes is None:
            raise _without_rows(node)
        if all(isinstance(tensor, gs.Constant) for tensor in node.inputs):
            raise RefusedError("it reads constants only", telling=False)
        return axes, self.lower(axes, [node], node.outputs[:1]).program

    def lower(self, axes: Axes, nodes: Iterable[Node], outputs: Sequence[gs.Tensor]) -> Lowered:
        """The program that gives these outputs of the nodes. Raises RefusedError where it can't be written."""
        reader = Reader(axes)
        for node in nodes:
            operands = Operands(reader, node, self._opset, self._outputs)
            try:
                made = self._rules[node.op](operands)
            except (IndexError, KeyError, TypeError, ValueError) as error:
                # operands that no runtime would take, such as an axis that isn't there
                raise RefusedError(f"its operands don't fit ({error})") from None
            for tensor, value in zip(node.outputs, made if isinstance(made, list) else [made], strict=False):
                if not tensor.is_empty():
                    self._check(axes, tensor, value)
                    reader.make(tensor, value)
            self._check_operands(reader, node)
        return Lowered(reader.lines.program([reader.made(tensor) for tensor in outputs]), reader.inputs)

    def _check(self, axes: Axes, tensor: gs.Tensor, value: Expr) -> None:
        """The value is what ONNX says of the tensor."""
        if tensor.shape is None or [*axes, *value.sizes] != list(tensor.shape):
            raise RefusedError(f"its result's shape {tensor.shape} isn't that of its rows")
        if type_of(tensor) != value.type:
            raise RefusedError(f"its result's type {tensor.dtype} isn't that of its operands")

    def _check_operands(self, reader: Reader, node: Node) -> None:
        """What the node reads is an input, was made before, or is a constant that the body can hold."""
        for tensor in node.inputs:
            if tensor.is_empty() or reader.knows(tensor) or is_embedded_number(tensor):
                continue
            if not isinstance(tensor, gs.Constant):
                raise RefusedError(f"its operand '{tensor.name}' isn't constant")
            reader.embed(tensor)


def _without_rows(node: Node) -> RefusedError:
    """Why a node's result is no row value."""
    result = node.outputs[0]
    if result.shape is None:
        reason = "the shape of its result isn't known"
    elif any(isinstance(dim, str) for dim in result.shape):
        reason = "the axes of its result without a fixed size aren't one or two in front"
    else:
        return RefusedError("its result has no rows", telling=False)
    # of what isn't a float, most describes shapes; a Gather of a constant is a lookup
    telling = type_of(result) in FLOATS and not isinstance(node.inputs[0], gs.Constant)
    return RefusedError(reason, telling)
