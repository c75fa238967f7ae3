"""What mixes the channels of each place alone is a product: a convolution of kernel size 1, and a weight times a
matrix of channels by places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.gemm.chains import comes_from_chain, is_absorbed
from dpiframe.graph_passes.gemm.product import FLOAT32
from dpiframe.graph_passes.graphs import Node, detach, is_standard, set_producer, tidy, values_of
from dpiframe.graph_passes.workbench import Workbench

_ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "Gelu")


def multiply_channels(bench: Workbench, graph: gs.Graph, outputs: set[int]) -> int:
    """Compute a Conv of kernel size 1 on [b, C, places...], or a MatMul of a weight with [b, C, places], as a MatMul on
    [b, places..., C], and activations after it there as well; returns how many.

    Only where chains of other operators give its input and take its result, which move the channels for nothing.
    """
    found = [(node, mixture) for node in graph.nodes if (mixture := _mixture(node, outputs)) is not None]
    for node, mixture in found:
        _multiply(bench, graph, node, mixture, outputs)
    if found:
        tidy(graph)
    return len(found)


@dataclass
class Mixture:
    """weight: [channels of the result, channels of x, 1...]."""

    x: gs.Tensor
    weight: gs.Tensor
    bias: gs.Tensor | None = None


def _mixture(node: gs.Node, outputs: set[int]) -> Mixture | None:
    """What a node mixes, if it can be a product; None otherwise."""
    if not is_standard(node):
        return None
    if node.op == "Conv" and _is_pointwise(node):
        mixture = Mixture(*(tensor for tensor in node.inputs if tensor.name))
    elif node.op == "MatMul" and len(node.inputs[0].shape or ()) == 2 and len(node.inputs[1].shape or ()) == 3:
        mixture = Mixture(node.inputs[1], node.inputs[0])
    else:
        return None
    x, constants = mixture.x, [mixture.weight, *([mixture.bias] if mixture.bias is not None else [])]
    if not all(is_small_constant(tensor) and tensor.dtype == FLOAT32 for tensor in constants):
        return None
    if x.dtype != FLOAT32 or x.shape is None or len(x.shape) < 3 or x.shape[0] is None:
        return None
    if not all(isinstance(size, int) for size in x.shape[1:]) or mixture.weight.shape[0] == 1:
        return None
    moves = comes_from_chain(x, outputs) and is_absorbed(_followed(node, outputs)[-1].outputs[0], outputs)
    return mixture if moves else None


def _is_pointwise(node: gs.Node) -> bool:
    weight = node.inputs[1]
    if weight.shape is None or any(size != 1 for size in weight.shape[2:]) or node.attrs.get("group", 1) != 1:
        return False
    return not any(node.attrs.get("pads", ())) and all(step == 1 for step in node.attrs.get("strides", ()))


def _followed(node: gs.Node, outputs: set[int]) -> list[gs.Node]:
    """The node and the activations after it."""
    nodes = [node]
    while True:
        value = nodes[-1].outputs[0]
        if id(value) in outputs or len(value.outputs) != 1:
            return nodes
        (reader,) = value.outputs
        if reader.op not in _ACTIVATIONS or not is_standard(reader):
            return nodes
        nodes.append(reader)


def _multiply(bench: Workbench, graph: gs.Graph, node: gs.Node, mixture: Mixture, outputs: set[int]) -> None:
    x, weight = mixture.x, mixture.weight
    nodes = _followed(node, outputs)
    rank = len(x.shape)
    last = [0, *range(2, rank), 1]
    channels, of_output = weight.shape[1], weight.shape[0]

    def append(op: str, inputs: list[gs.Tensor], width: int, **attributes: object) -> gs.Tensor:
        name = bench.new_name(f"{node.outputs[0].name}_{op}")
        value = gs.Variable(name, x.dtype, [x.shape[0], *x.shape[2:], width])
        graph.nodes.append(Node(op, name=name, attrs=attributes, inputs=inputs, outputs=[value]))
        return value

    matrix = np.ascontiguousarray(values_of(weight).reshape(of_output, channels).T)
    columns = gs.Constant(bench.new_name(f"{weight.name}_columns"), matrix)
    value = append("MatMul", [append("Transpose", [x], channels, perm=last), columns], of_output)
    if mixture.bias is not None:
        value = append("Add", [value, mixture.bias], of_output)
    for activation in nodes[1:]:
        value = append(activation.op, [value], of_output, **activation.attrs)
    result = nodes[-1].outputs[0]
    back = Node(
        "Transpose",
        name=bench.new_name(f"{result.name}_channels"),
        attrs={"perm": [0, rank - 1, *range(1, rank - 1)]},
        inputs=[value],
    )
    graph.nodes.append(back)
    set_producer(result, back, gs.Variable(bench.new_name(result.name), result.dtype, result.shape))
    detach(nodes)
