"""Compute equal things once: nodes of the same operator, attributes and inputs share one output."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.graphs import byte_size, is_standard, replace_uses, values_of
from dpiframe.graph_passes.workbench import Workbench

_SMALL = 1 << 12
_DRAWS = {
    "RandomNormal",
    "RandomUniform",
    "RandomNormalLike",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
    "Dropout",
}


def share_common_nodes(bench: Workbench, changes: list[str]) -> bool:
    """Let the readers of a repeated node read the first one's outputs. Nodes that give a graph's output stay."""
    outputs = bench.output_ids()
    shared = 0
    for graph in bench.graphs():
        first: dict[Hashable, gs.Node] = {}
        for node in graph.nodes:
            key = _key(node)
            if key is None or any(id(tensor) in outputs for tensor in node.outputs):
                continue
            kept = first.setdefault(key, node)
            if kept is not node and any(tensor.outputs for tensor in node.outputs):
                for old, new in zip(node.outputs, kept.outputs, strict=True):
                    replace_uses(old, new)
                shared += 1
    if shared:
        changes.append(f"{shared} repeated nodes are computed once")
    return bool(shared)


def _key(node: gs.Node) -> Hashable | None:
    if node.op in _DRAWS or not is_standard(node):
        return None
    attributes = []
    for name, value in sorted(node.attrs.items()):
        if isinstance(value, gs.Constant) and byte_size(value) <= _SMALL:
            value = _constant_key(value)
        elif isinstance(value, list):
            value = tuple(value)
        elif not isinstance(value, (int, float, str)):
            return None
        attributes.append((name, value))
    inputs = tuple(
        _constant_key(t) if is_small_constant(t, _SMALL) else "" if t.is_empty() else id(t) for t in node.inputs
    )
    # an output that one of them leaves out can't stand for the other's
    return node.op, tuple(attributes), inputs, tuple(t.is_empty() for t in node.outputs)


def _constant_key(tensor: gs.Constant) -> Hashable:
    values = np.asarray(values_of(tensor))
    return str(values.dtype), values.shape, values.tobytes()
