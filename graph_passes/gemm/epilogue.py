"""What follows a product and can be computed on each of its elements as it is made: rules, one an operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.gemm.product import FLOAT32
from dpiframe.graph_passes.graphs import is_standard, values_of


@dataclass
class Operation:
    """A step of the epilogue: op, with an operand or a number where it takes one."""

    op: str
    operand: gs.Tensor | None = None
    kind: str = ""
    number: float | None = None


@dataclass
class Following:
    """Operations that compute `result`, the output of the last of `nodes`, from the value before them."""

    operations: list[Operation]
    nodes: list[gs.Node]
    result: gs.Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.result = self.nodes[-1].outputs[0]


def following(value: gs.Tensor, outputs: set[int]) -> Following | None:
    """What can be done to a value while it is made: all that reads it, where that is one chain. outputs: ids of the
    tensors that leave a graph, which have to be made themselves."""
    if id(value) in outputs or value.shape is None:
        return None
    readers = {id(node): node for node in value.outputs}
    if len(readers) == 2:
        return _silu(value, list(readers.values()), outputs)
    if len(readers) != 1:
        return None
    (node,) = readers.values()
    rule = RULES.get(node.op) if is_standard(node) and node.well_formed else None
    if rule is None or sum(tensor is value for tensor in node.inputs) != 1:
        return None
    operations = rule(node, value)
    return Following(operations, [node]) if operations else None


def operand_kind(value: gs.Tensor, operand: gs.Tensor) -> str:
    """How an operand lies along a value [leading axes..., N]: scalar, vector, column, matrix; "" for none of these."""
    if operand.dtype != FLOAT32 or operand.shape is None or len(operand.shape) > len(value.shape):
        return ""
    shape = [1] * (len(value.shape) - len(operand.shape)) + list(operand.shape)
    whole = list(value.shape)
    if all(size == 1 for size in shape):
        return "scalar"
    if all(size == 1 for size in shape[:-1]) and shape[-1] == whole[-1]:
        return "vector"
    if None in whole or shape[:-1] != whole[:-1]:
        return ""
    if shape[-1] == whole[-1]:
        return "matrix"
    return "column" if shape[-1] == 1 else ""


def addition(value: gs.Tensor, operand: gs.Tensor) -> list[Operation]:
    return _with_operand("add", value, operand)


def _with_operand(op: str, value: gs.Tensor, operand: gs.Tensor) -> list[Operation]:
    kind = operand_kind(value, operand)
    return [Operation(op, operand, kind)] if kind else []


def _plain(op: str) -> Callable[[gs.Node, gs.Tensor], list[Operation]]:
    return lambda node, value: [Operation(op)]


def _commutative(op: str) -> Callable[[gs.Node, gs.Tensor], list[Operation]]:
    return lambda node, value: _with_operand(op, value, next(t for t in node.inputs if t is not value))


def _sub(node: gs.Node, value: gs.Tensor) -> list[Operation]:
    return _with_operand("sub", value, node.inputs[1]) if node.inputs[0] is value else []


def _leaky_relu(node: gs.Node, value: gs.Tensor) -> list[Operation]:
    return [Operation("leakyrelu", number=float(node.attrs.get("alpha", 0.01)))]


def _prelu(node: gs.Node, value: gs.Tensor) -> list[Operation]:
    if node.inputs[0] is not value:
        return []
    operations = _with_operand("prelu", value, node.inputs[1])
    return operations if operations and operations[0].kind in ("scalar", "vector") else []


def _gelu(node: gs.Node, value: gs.Tensor) -> list[Operation]:
    return [Operation("gelu")] if node.attrs.get("approximate", "none") == "none" else []


def _batch_normalization(node: gs.Node, value: gs.Tensor) -> list[Operation]:
    """A scale and a shift by column, where the statistics are constant."""
    parameters = node.inputs[1:5]
    if node.attrs.get("training_mode", 0) or len(value.shape) != 2 or len(node.outputs) > 1:
        return []
    if not all(is_small_constant(t) and t.dtype == FLOAT32 for t in parameters):
        return []
    scale, shift, mean, variance = (values_of(t).astype(np.float64) for t in parameters)
    factor = scale / np.sqrt(variance + np.float32(node.attrs.get("epsilon", 1e-5)))
    vectors = {"mul": factor, "add": shift - mean * factor}
    return [
        Operation(op, gs.Constant(f"{node.outputs[0].name}_{op}", vector.astype(np.float32)), "vector")
        for op, vector in vectors.items()
    ]


def _silu(value: gs.Tensor, readers: list[gs.Node], outputs: set[int]) -> Following | None:
    """x * Sigmoid(x)."""
    for gate, product in (readers, readers[::-1]):
        if gate.op != "Sigmoid" or product.op != "Mul" or not is_standard(gate) or not is_standard(product):
            continue
        opened = gate.outputs[0]
        reads = {id(t) for t in product.inputs}
        if reads == {id(value), id(opened)} and len(opened.outputs) == 1 and id(opened) not in outputs:
            return Following([Operation("silu")], [gate, product])
    return None


RULES: dict[str, Callable[[gs.Node, gs.Tensor], list[Operation]]] = {
    "Relu": _plain("relu"),
    "Sigmoid": _plain("sigmoid"),
    "Tanh": _plain("tanh"),
    "Gelu": _gelu,
    "LeakyRelu": _leaky_relu,
    "PRelu": _prelu,
    "Add": _commutative("add"),
    "Mul": _commutative("mul"),
    "Sub": _sub,
    "BatchNormalization": _batch_normalization,
}
