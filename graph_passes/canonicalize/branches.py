"""Decide an If whose condition is known before the model runs (P36), and put its branch in its place."""

from __future__ import annotations

import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.workbench import Workbench, values_of


def decide_branches(bench: Workbench, changes: list[str]) -> bool:
    """Splice the taken branch of every If with a constant condition into the graph around it."""
    decided = 0
    for graph in bench.graphs():
        for node in list(graph.nodes):
            if node.op == "If" and is_small_constant(node.inputs[0]):
                taken = "then_branch" if bool(values_of(node.inputs[0]).ravel()[0]) else "else_branch"
                _splice(graph, node, node.attrs[taken], f"{node.outputs[0].name}_")
                decided += 1
    if decided:
        changes.append(f"{decided} If nodes with a known condition are replaced by their branch")
    return bool(decided)


def _splice(graph: gs.Graph, node: gs.Node, branch: gs.Graph, prefix: str) -> None:
    # names must stay unique in the graph that the branch moves into
    for inner in branch.nodes:
        inner.name = prefix + inner.name if inner.name else ""
        for tensor in inner.outputs:
            if not tensor.is_empty():
                tensor.name = prefix + tensor.name
    for tensor in branch.tensors().values():
        if isinstance(tensor, gs.Constant) and tensor.outputs and all(n in branch.nodes for n in tensor.outputs):
            tensor.name = prefix + tensor.name
    at = next(i for i, n in enumerate(graph.nodes) if n is node)
    moved = list(branch.nodes)
    results, wanted = list(branch.outputs), list(node.outputs)
    node.inputs.clear()
    node.outputs.clear()
    for result, tensor in zip(results, wanted, strict=True):
        moved.append(gs.Node("Identity", inputs=[result], outputs=[tensor]))
    graph.nodes[at : at + 1] = moved
    # nothing may still point at the branch that wasn't taken
    for attribute in ("then_branch", "else_branch"):
        other = node.attrs[attribute]
        if other is not branch:
            for inner in other.nodes:
                inner.inputs.clear()
    branch.nodes = []
