"""Whether chains of other operators can be expected to take in views of what a product reads or gives.

Only an expectation: chains are formed after products.
"""

from __future__ import annotations

import onnx_graphsurgeon as gs

from dpiframe.graph_passes.elementwise.rules import ELEMENTWISE, WITHIN_ROWS
from dpiframe.graph_passes.elementwise.views import VIEWS
from dpiframe.graph_passes.graphs import is_standard

_MOVING = {*VIEWS, "Split"} - {"Concat"}
_COMPUTING = {*ELEMENTWISE, *WITHIN_ROWS, "Concat", "Einsum", "MatMul", "Gemm"}


def is_absorbed(tensor: gs.Tensor, outputs: set[int]) -> bool:
    """Whatever reads the tensor can read a part or a view of rows as well. outputs: ids of the tensors that leave a
    graph."""
    return id(tensor) not in outputs and all(_takes_views(node, tensor, outputs) for node in tensor.outputs)


def comes_from_chain(tensor: gs.Tensor, outputs: set[int]) -> bool:
    """What gives the tensor can give a view of its rows instead: nothing else reads it."""
    if id(tensor) in outputs or len(tensor.outputs) != 1 or not tensor.inputs:
        return False
    producer = tensor.inputs[0]
    if not is_standard(producer) or not _keeps_rows(producer, producer.inputs[0]):
        return False
    if producer.op in _MOVING:
        return comes_from_chain(producer.inputs[0], outputs)
    return producer.op in _COMPUTING


def _takes_views(node: gs.Node, tensor: gs.Tensor, outputs: set[int]) -> bool:
    if not is_standard(node) or not _keeps_rows(node, tensor):
        return False
    if node.op in _MOVING:
        return all(is_absorbed(result, outputs) for result in node.outputs)
    return node.op in _COMPUTING


def _keeps_rows(node: gs.Node, tensor: gs.Tensor) -> bool:
    if not tensor.shape:
        return False
    return all(result.shape is not None and list(result.shape[:1]) == [tensor.shape[0]] for result in node.outputs)
