"""An Einsum that is a plain matrix product becomes one (P19)."""

from __future__ import annotations

import onnx_graphsurgeon as gs

from dpiframe.graph_passes.graphs import Node, drop, is_standard, set_producer
from dpiframe.graph_passes.workbench import Workbench


def name_products(bench: Workbench, changes: list[str]) -> bool:
    """Rewrite `...k,kn->...n` as MatMul.

    Left alone: a single column, which ONNX Runtime sums in another order as a MatMul than as an Einsum, and operands
    of which one may be repeated along k, as only Einsum does.
    """
    found = 0
    for graph in bench.graphs():
        gone = [node for node in graph.nodes if node.op == "Einsum" and is_standard(node) and _is_product(node)]
        for node in gone:
            output = node.outputs[0]
            product = Node("MatMul", name=bench.new_name(f"{output.name}_product"), inputs=list(node.inputs))
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
