"""Products written for column vectors become products of rows, which every runtime has faster kernels for."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.graphs import Node, drop, is_standard, set_producer, values_of
from dpiframe.graph_passes.workbench import Workbench

MIN_OPSET = 13
_VIEWS = ("Unsqueeze", "Reshape")
_ELEMENTWISE = ("Add", "Sub", "Mul", "Div", "Tanh", "Relu", "Sigmoid")
_TYPES = {np.dtype(name) for name in ("float16", "float32", "float64")}
"""ONNX Runtime multiplies matrices of integers with MatMul alone."""


def use_rows(bench: Workbench, changes: list[str]) -> bool:
    """Compute `W x` of columns x [b, K, 1] as `x W^T` of rows [b, K], and what follows on rows as well.

    A product is changed where a node gives its column, and an operator after it where all its operands are views of
    rows: so the views move on, and those between two products cancel.
    """
    if bench.opset < MIN_OPSET:
        return False
    products = followers = 0
    for graph in bench.graphs():
        gone = []
        for node in list(graph.nodes):
            if not is_standard(node) or not node.well_formed:
                continue
            if _multiplies_column(node):
                _multiply_rows(bench, graph, node)
                products += 1
            elif _can_follow(node):
                _follow(bench, graph, node)
                followers += 1
            else:
                continue
            gone.append(node)
        drop(graph, gone)
    if products:
        changes.append(f"{products} products of columns are products of rows, with {followers} operators after them")
    return bool(products or followers)


def _multiplies_column(node: gs.Node) -> bool:
    if node.op != "MatMul" or node.outputs[0].dtype not in _TYPES:
        return False
    weight, column = node.inputs
    constant = isinstance(weight, gs.Constant) and weight.shape is not None and len(weight.shape) == 2
    return constant and _is_column(column) and bool(column.inputs) and _is_column(node.outputs[0])


def _is_column(tensor: gs.Tensor) -> bool:
    """[b, K, 1] of a known K."""
    shape = tensor.shape
    return (
        shape is not None and len(shape) == 3 and shape[2] == 1 and isinstance(shape[1], int) and shape[0] is not None
    )


def _rows_behind(column: gs.Tensor) -> gs.Tensor | None:
    """The rows [b, K] that a column is a view of."""
    producer = column.inputs[0] if column.inputs else None
    if producer is None or producer.op not in _VIEWS or not is_standard(producer):
        return None
    rows = producer.inputs[0]
    return rows if rows.shape is not None and list(rows.shape) == list(column.shape)[:2] else None


def _can_follow(node: gs.Node) -> bool:
    """An elementwise operator on columns of one shape that are views of rows, and on constants."""
    if node.op not in _ELEMENTWISE or not _is_column(node.outputs[0]):
        return False
    shape = list(node.outputs[0].shape)
    columns = [tensor for tensor in node.inputs if not isinstance(tensor, gs.Constant)]
    if not all(_is_column(tensor) and list(tensor.shape) == shape for tensor in columns):
        return False
    constants = [tensor for tensor in node.inputs if isinstance(tensor, gs.Constant)]
    if not all(is_small_constant(tensor) and _row_shape(tensor) is not None for tensor in constants):
        return False
    return bool(columns) and all(_rows_behind(tensor) is not None for tensor in columns)


def _row_shape(constant: gs.Constant) -> list[int] | None:
    """The shape that a constant operand of columns has beside rows."""
    shape = list(constant.shape)
    if all(size == 1 for size in shape):
        return [1]
    if len(shape) == 2 and shape[1] == 1:
        return shape[:1]
    return [1, shape[1]] if len(shape) == 3 and shape[0] == shape[2] == 1 else None


def _multiply_rows(bench: Workbench, graph: gs.Graph, node: gs.Node) -> None:
    weight, column = node.inputs
    rows = _rows_behind(column)
    if rows is None:
        rows = gs.Variable(bench.new_name(f"{column.name}_rows"), column.dtype, list(column.shape)[:2])
        axes = gs.Constant(bench.new_name(f"{column.name}_axes"), np.array([2], np.int64))
        graph.nodes.append(
            Node("Squeeze", name=bench.new_name(f"{column.name}_row"), inputs=[column, axes], outputs=[rows])
        )
    _append(bench, graph, node, "Gemm", {"transB": 1}, [rows, weight])


def _follow(bench: Workbench, graph: gs.Graph, node: gs.Node) -> None:
    operands = []
    for tensor in node.inputs:
        if not isinstance(tensor, gs.Constant):
            operands.append(_rows_behind(tensor))
            continue
        values = np.ascontiguousarray(values_of(tensor)).reshape(_row_shape(tensor))
        operands.append(gs.Constant(bench.new_name(f"{tensor.name}_row"), values))
    _append(bench, graph, node, node.op, dict(node.attrs), operands)


def _append(
    bench: Workbench, graph: gs.Graph, node: gs.Node, op: str, attributes: dict[str, object], operands: list[gs.Tensor]
) -> None:
    """Compute rows instead of the node's column, and give the column as a view of them."""
    column = node.outputs[0]
    rows = gs.Variable(bench.new_name(f"{column.name}_rows"), column.dtype, list(column.shape)[:2])
    axes = gs.Constant(bench.new_name(f"{column.name}_axes"), np.array([2], np.int64))
    name = bench.new_name(f"{node.name}_rows") if node.name else ""
    graph.nodes.append(Node(op, name=name, attrs=attributes, inputs=operands, outputs=[rows]))
    view = Node("Unsqueeze", name=bench.new_name(f"{column.name}_column"), inputs=[rows, axes])
    graph.nodes.append(view)
    set_producer(column, view, gs.Variable(bench.new_name(column.name), column.dtype, column.shape))
