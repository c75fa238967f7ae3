"""Joins that can't be taken in whole: the rows among their operands are joined first, by a Concat of their own."""

from __future__ import annotations

from itertools import groupby

import onnx_graphsurgeon as gs

from dpiframe.graph_passes.graphs import Node, is_standard, set_inputs
from dpiframe.graph_passes.lookups.interpret import Interpreter
from dpiframe.graph_passes.workbench import Workbench


def join_rows(graph: gs.Graph, bench: Workbench, interpreter: Interpreter) -> bool:
    """Split `Concat(rows, rows, other)` into `Concat(Concat(rows, rows), other)`; whether there was anything to split.

    `other` is what the fused node can't hold, such as the output of an attention over other rows. The inner Concat can
    be taken in: one wide output in place of many narrow ones. Rows that something else reads, too, stay where they are.
    """
    outputs = {id(tensor) for tensor in graph.outputs}
    nodes: list[gs.Node] = []
    for node in graph.nodes:
        if node.op == "Concat" and is_standard(node) and id(node.outputs[0]) not in interpreter.hot:
            nodes.extend(_split(node, bench, interpreter, outputs))
        nodes.append(node)
    found = len(nodes) > len(graph.nodes)
    graph.nodes = nodes
    return found


def _split(node: Node, bench: Workbench, interpreter: Interpreter, outputs: set[int]) -> list[Node]:
    inner: list[Node] = []
    operands: list[gs.Tensor] = []
    keys = [_key(node, tensor, interpreter, outputs) for tensor in node.inputs]
    for key, group in groupby(zip(keys, node.inputs, strict=True), key=lambda pair: pair[0]):
        run = [tensor for _, tensor in group]
        if key is None or len(run) < 2 or len(run) == len(node.inputs):
            operands.extend(run)
            continue
        joined = gs.Variable(bench.new_name(f"{node.outputs[0].name}_rows"), run[0].dtype)
        inner.append(Node("Concat", attrs={"axis": node.attrs["axis"]}, inputs=run, outputs=[joined]))
        operands.append(joined)
    if inner:
        set_inputs(node, operands)
    return inner


def _key(node: Node, tensor: gs.Tensor, interpreter: Interpreter, outputs: set[int]) -> tuple[object, ...] | None:
    """What operands that can be joined have in common; None for one that can't."""
    if not interpreter.is_hot(tensor) or len(tensor.outputs) > 1 or id(tensor) in outputs:
        return None
    value = interpreter.value(tensor)
    if node.attrs["axis"] % value.codes.ndim in value.axes:
        return None
    return value.axes, value.dims, interpreter.level[id(tensor)]
