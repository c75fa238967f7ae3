"""Decide an If whose condition is known before the model runs, and put its branch in its place."""

from __future__ import annotations

import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.graphs import Node, detach, is_standard, values_of
from dpiframe.graph_passes.workbench import Workbench


def decide_branches(bench: Workbench, changes: list[str]) -> bool:
    """Splice the taken branch of every If with a constant condition into the graph around it."""
    decided: list[gs.Node] = []
    for graph in bench.graphs():
        nodes: list[gs.Node] = []
        for node in graph.nodes:
            branch = _taken(node)
            if branch is None:
                nodes.append(node)
            else:
                nodes.extend(_unpack(bench, graph, node, branch))
                decided.append(node)
        graph.nodes = nodes
    detach(decided)
    if decided:
        changes.append(f"{len(decided)} If nodes with a known condition are replaced by their branch")
    return bool(decided)


def _taken(node: gs.Node) -> gs.Graph | None:
    if node.op != "If" or not is_standard(node) or not is_small_constant(node.inputs[0]):
        return None
    condition = values_of(node.inputs[0])
    if condition.size != 1:
        return None
    branch = node.attrs["then_branch" if condition.item() else "else_branch"]
    # a sparse initializer belongs to its graph's protobuf and can't move
    return None if branch.proto.sparse_initializer else branch


def _unpack(bench: Workbench, graph: gs.Graph, node: gs.Node, branch: gs.Graph) -> list[gs.Node]:
    """The branch's nodes, with Identity nodes that give the If's outputs, for the graph around it."""
    prefix = next((tensor.name for tensor in node.outputs if tensor.name), "if")
    moved, results, wanted = branch.nodes, list(branch.outputs), list(node.outputs)
    # sibling branches may use the same names: here they must be unique
    for tensor in _own_tensors(branch, graph):
        tensor.name = bench.new_name(f"{prefix}_{tensor.name}")
    for inner in moved:
        inner.name = bench.new_name(f"{prefix}_{inner.name}") if inner.name else ""
    graph.constants.extend(branch.constants)
    branch.nodes, branch.constants = [], []
    ends = [Node("Identity", inputs=[r], outputs=[t]) for r, t in zip(results, wanted, strict=True) if t.name]
    return [*moved, *ends]


def _own_tensors(branch: gs.Graph, around: gs.Graph) -> list[gs.Tensor]:
    """The branch's tensors, and constants that only it reads and nothing outside it declares."""
    outer = {id(tensor) for tensor in around.constants}
    inside = {id(node) for node in branch.nodes}
    found = {id(tensor): tensor for node in branch.nodes for tensor in node.outputs if tensor.name}
    found |= {id(tensor): tensor for tensor in branch.constants}
    for tensor in [*branch.outputs, *(t for node in branch.nodes for t in node.inputs)]:
        own = isinstance(tensor, gs.Constant) and id(tensor) not in outer
        if own and all(id(reader) in inside for reader in tensor.outputs):
            found[id(tensor)] = tensor
    return list(found.values())
