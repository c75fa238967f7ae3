"""Whether chains of other operators can be expected to take in views of what a product reads or gives.

Only an expectation: chains are formed after products.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import onnx_graphsurgeon as gs

from dpiframe.graph_passes.elementwise.rules import ELEMENTWISE, WITHIN_ROWS
from dpiframe.graph_passes.elementwise.views import VIEWS
from dpiframe.graph_passes.graphs import is_standard

_MOVING = {*VIEWS, "Split"} - {"Concat"}
_COMPUTING = {*ELEMENTWISE, *WITHIN_ROWS, "Concat", "Einsum", "MatMul", "Gemm"}


def is_absorbed(tensor: gs.Tensor, outputs: set[int]) -> bool:
    """Whatever reads the tensor can read a part or a view of rows as well. outputs: ids of the tensors that leave a
    graph."""
    waiting, seen = [tensor], {id(tensor)}
    while waiting:
        value = waiting.pop()
        if id(value) in outputs:
            return False
        for node in value.outputs:
            if not is_standard(node) or not _keeps_rows(node, value):
                return False
            if node.op in _MOVING:
                waiting.extend(result for result in node.outputs if id(result) not in seen)
                seen |= {id(result) for result in node.outputs}
            elif node.op not in _COMPUTING:
                return False
    return True


def comes_from_chain(tensor: gs.Tensor, outputs: set[int]) -> bool:
    """What gives the tensor can give a view of its rows instead: nothing else reads it."""
    while id(tensor) not in outputs and len(tensor.outputs) == 1 and tensor.inputs:
        producer = tensor.inputs[0]
        if not is_standard(producer) or not _keeps_rows(producer, producer.inputs[0]):
            return False
        if producer.op not in _MOVING:
            return producer.op in _COMPUTING
        tensor = producer.inputs[0]
    return False


def products_behind(tensors: Iterable[gs.Tensor]) -> list[gs.Node]:
    """The products that read the tensors, or views and parts of them."""
    waiting = deque(tensors)
    seen = {id(tensor) for tensor in waiting}
    found: dict[int, gs.Node] = {}
    while waiting:
        for node in waiting.popleft().outputs:
            if node.op in ("MatMul", "Gemm"):
                found[id(node)] = node
            elif node.op in _MOVING:
                waiting.extend(result for result in node.outputs if id(result) not in seen)
                seen |= {id(result) for result in node.outputs}
    return list(found.values())


def _keeps_rows(node: gs.Node, tensor: gs.Tensor) -> bool:
    if not tensor.shape:
        return False
    return all(result.shape is not None and list(result.shape[:1]) == [tensor.shape[0]] for result in node.outputs)
