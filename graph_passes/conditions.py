"""What passes need of a model before they run, and promise of it afterwards. Each condition looks at every node a few
times, and says of what a pass got wrong how to put it right.

A file may break any of ONNX's rules, and comes out as it went in. So these look only at what passes made or moved.
"""

from __future__ import annotations

import onnx_graphsurgeon as gs

from dpiframe.graph_passes.functions import DOMAIN, calls, is_fused
from dpiframe.graph_passes.graphs import Node, constant_values, first_too_early, is_standard, node_label
from dpiframe.graph_passes.workbench import Workbench


def nodes_are_in_order(bench: Workbench) -> str | None:
    """Nodes stand behind those whose outputs they read: passes go through a graph once, from its inputs on."""
    for graph in bench.graphs():
        node = first_too_early(graph.nodes)
        if node is not None:
            return f"node '{node_label(node)}' stands before one whose output it reads: call bench.tidy()"
    return None


def constants_are_initializers(bench: Workbench) -> str | None:
    """No Constant node stands between a table, a weight, an axis or an index and the node that takes it as known."""
    outputs = bench.output_ids()
    for graph in bench.graphs():
        for node in graph.nodes:
            known = node.op == "Constant" and is_standard(node) and constant_values(node) is not None
            if known and id(node.outputs[0]) not in outputs:
                return f"node '{node_label(node)}' is a Constant, which passes don't look into: run canonicalize"
    return None


def interface_is_kept(bench: Workbench) -> str | None:
    """The model's inputs and outputs are the file's, and outputs that nodes gave are still given."""
    graph, file = bench.graph, bench.graph.proto
    stored = {tensor.name for tensor in file.initializer} - bench.overridable
    inputs = [value.name for value in file.input if value.name not in stored]
    if (now := [tensor.name for tensor in graph.inputs]) != inputs:
        return f"the inputs {inputs} have become {now}: leave graph.inputs as it is"
    outputs = [value.name for value in file.output]
    if (now := [tensor.name for tensor in graph.outputs]) != outputs:
        return f"the outputs {outputs} have become {now}: keep these tensors, and call set_producer for them"
    sources = {id(tensor) for tensor in graph.inputs}
    lost = [t for t in graph.outputs if not (t.inputs or isinstance(t, gs.Constant) or id(t) in sources)]
    given = {name for node in file.node for name in node.output} if lost else set()
    name = next((tensor.name for tensor in lost if tensor.name in given), None)
    return f"no node gives output '{name}' any more: call set_producer for it" if name else None


def names_are_apart(bench: Workbench) -> str | None:
    """Of what the nodes of one graph give, and the constants that they read, no two have one name."""
    for graph in bench.graphs():
        named: dict[str, int] = {}
        for node in graph.nodes:
            for tensor in node.outputs:
                if tensor.name and named.setdefault(tensor.name, id(tensor)) != id(tensor):
                    return _taken(node, tensor)
            for tensor in node.inputs:
                if isinstance(tensor, gs.Constant) and named.setdefault(tensor.name, id(tensor)) != id(tensor):
                    return _taken(node, tensor)
    return None


def _taken(node: Node, tensor: gs.Tensor) -> str:
    return f"node '{node_label(node)}' has a second tensor named '{tensor.name}': name it by bench.new_name"


def fused_nodes_have_bodies(bench: Workbench) -> str | None:
    """Every op of ours that a pass formed, and every one in a region's body, has a function in the model that takes and
    gives as much as it: without our library, that is what runs."""
    for graph in bench.graphs():
        for node in graph.nodes:
            if is_fused(node) and node.proto is None:
                problem = _without_body(bench, node)
                if problem is not None:
                    return f"node '{node_label(node)}' {problem}"
    return None


def _without_body(bench: Workbench, node: Node) -> str | None:
    function = bench.functions.get((DOMAIN, node.op, ""))
    if function is None:
        return f"calls {node.op}, which no function defines: make it one by add_function, and call what that returns"
    if DOMAIN not in bench.opset_import:
        return f"is of domain {DOMAIN}, which the model doesn't import: add_function does"
    if (len(node.inputs), len(node.outputs)) != (len(function.input), len(function.output)):
        return f"has other inputs and outputs than the body of {node.op}: give it as many as add_function was given"
    if any(entry.domain == DOMAIN for entry in function.opset_import):
        for domain, op in calls(function.node):
            if domain == DOMAIN and (DOMAIN, op, "") not in bench.functions:
                return f"calls {op} in its body, which no function defines: keep the functions that bodies call"
    return None


LEGIBLE = (nodes_are_in_order, constants_are_initializers)
"""What a pass needs that looks for patterns."""
SOUND = (nodes_are_in_order, interface_is_kept, names_are_apart, fused_nodes_have_bodies)
"""What every pass promises."""
