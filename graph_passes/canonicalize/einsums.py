"""An Einsum that is a plain matrix product becomes one."""

from __future__ import annotations

import onnx_graphsurgeon as gs

from dpiframe.graph_passes.graphs import Node, drop, is_standard, set_producer
from dpiframe.graph_passes.workbench import Workbench


def name_products(bench: Workbench, changes: list[str]) -> bool:
    """Rewrite `...k,kn->...n` as MatMul, and `...mk,...nk->...mn` as MatMul with a Transpose.

    Left alone: a single column, which ONNX Runtime sums in another order as a MatMul than as an Einsum, and operands
    of which one may be repeated along k, as only Einsum does.
    """
    found = 0
    for graph in bench.graphs():
        einsums = [node for node in graph.nodes if node.op == "Einsum" and is_standard(node)]
        gone = [node for node in einsums if _is_product(node) or _is_product_of_rows(node)]
        for node in gone:
            output = node.outputs[0]
            left, right = node.inputs
            if not _is_product(node):
                right = _transposed(bench, graph, right)
            product = Node("MatMul", name=bench.new_name(f"{output.name}_product"), inputs=[left, right])
            graph.nodes.append(product)
            set_producer(output, product, gs.Variable(bench.new_name(output.name), output.dtype, output.shape))
        drop(graph, gone)
        found += len(gone)
    if found:
        changes.append(f"{found} Einsum nodes are matrix products")
    return bool(found)


def _is_product(node: gs.Node) -> bool:
    rows, shape = (tensor.shape for tensor in node.inputs) if len(node.inputs) == 2 else (None, None)
    if not rows or shape is None or len(shape) != 2 or shape[1] == 1 or rows[-1] is None or rows[-1] != shape[0]:
        return False
    equation = str(node.attrs.get("equation", "")).replace(" ", "")
    operands, arrow, result = equation.partition("->")
    terms = operands.split(",")
    # letters alone: an ellipsis stands for any number of axes
    if not arrow or len(terms) != 2 or not all(term.isalpha() and len(set(term)) == len(term) for term in terms):
        return False
    left, right = terms
    return (
        len(left) > 1
        and len(right) == 2
        and left[-1] == right[0]
        and right[1] not in left
        and result == left[:-1] + right[1]
    )


def _is_product_of_rows(node: gs.Node) -> bool:
    """All rows of one by all rows of the other, for each element of the axes in front."""
    shapes = [tensor.shape for tensor in node.inputs]
    if len(shapes) != 2 or None in shapes or len(shapes[0]) != len(shapes[1]) or len(shapes[0]) < 3:
        return False
    left, right = shapes
    known = [left[-2], left[-1], right[-2], right[-1]]
    if list(left[:-2]) != list(right[:-2]) or left[-1] != right[-1]:
        return False
    if any(not isinstance(size, int) or size == 1 for size in known):
        return False
    operands, arrow, result = str(node.attrs.get("equation", "")).replace(" ", "").partition("->")
    terms = operands.split(",")
    if not arrow or len(terms) != 2 or not all(term.isalpha() and len(set(term)) == len(term) for term in terms):
        return False
    x, y = terms
    return (
        len(x) == len(y) == len(left)
        and x[:-2] == y[:-2]
        and x[-1] == y[-1]
        and x[-2] not in y
        and result == x[:-1] + y[-2]
    )


def _transposed(bench: Workbench, graph: gs.Graph, matrix: gs.Tensor) -> gs.Tensor:
    """A matrix with its last two axes swapped."""
    rank = len(matrix.shape)
    order = [*range(rank - 2), rank - 1, rank - 2]
    turned = gs.Variable(bench.new_name(f"{matrix.name}_turned"), matrix.dtype, [matrix.shape[axis] for axis in order])
    name = bench.new_name(turned.name)
    graph.nodes.append(Node("Transpose", name=name, attrs={"perm": order}, inputs=[matrix], outputs=[turned]))
    return turned
