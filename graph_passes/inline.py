"""Put model-local functions that hold lookups into the graph, where the passes see them; other functions stay as they are."""

from __future__ import annotations

import onnx
from onnx.inliner import inline_selected_functions

from dpiframe.graph_passes.functions import DOMAIN


def inline_lookup_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every function that holds a Gather, itself or through functions it calls, inlined. Ours stay."""
    functions = {(f.domain, f.name): f for f in model.functions if f.domain != DOMAIN}
    chosen = {key for key, f in functions.items() if any(_holds_gather(node) for node in f.node)}
    while True:
        callers = {key for key, f in functions.items() if any((n.domain, n.op_type) in chosen for n in f.node)} - chosen
        if not callers:
            break
        chosen |= callers
    return inline_selected_functions(model, sorted(chosen)) if chosen else model


def _holds_gather(node: onnx.NodeProto) -> bool:
    if node.op_type == "Gather" and node.domain in ("", "ai.onnx"):
        return True
    return any(_holds_gather(inner) for a in node.attribute if a.HasField("g") for inner in a.g.node)
