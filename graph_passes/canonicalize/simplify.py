"""Nodes that change nothing, as a table of rules: each gives the tensor that the node's output equals, or None."""

from __future__ import annotations

from collections.abc import Callable

import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.canonicalize.shape_plumbing import solve_reshape
from dpiframe.graph_passes.canonicalize.transposes import order_of, turned_twice
from dpiframe.graph_passes.graphs import is_standard, replace_uses, values_of
from dpiframe.graph_passes.workbench import Workbench


def remove_no_ops(bench: Workbench, changes: list[str]) -> bool:
    """Let the readers of a node that changes nothing read its input."""
    outputs = bench.output_ids()
    counts: dict[str, int] = {}
    for graph in bench.graphs():
        for node in graph.nodes:
            rule = RULES.get(node.op)
            if rule is None or not is_standard(node) or not node.outputs:
                continue
            if id(node.outputs[0]) in outputs or not node.outputs[0].outputs:
                continue
            same = rule(node)
            if same is not None:
                replace_uses(node.outputs[0], same)
                counts[node.op] = counts.get(node.op, 0) + 1
    changes.extend(f"{count} {op} nodes without effect are gone" for op, count in sorted(counts.items()))
    return bool(counts)


def same_shape(a: gs.Tensor, b: gs.Tensor) -> bool:
    """Both shapes are known, dimension by dimension (numbers or symbols), and equal."""
    return a.shape is not None and b.shape is not None and None not in a.shape and list(a.shape) == list(b.shape)


def _input(node: gs.Node) -> gs.Tensor:
    return node.inputs[0]


def _cast(node: gs.Node) -> gs.Tensor | None:
    source = node.inputs[0]
    return source if source.dtype is not None and source.dtype == node.outputs[0].dtype else None


def _keeps_order(node: gs.Node) -> gs.Tensor | None:
    """A view, or views of views, that end in the shape in which they began."""
    source = node.inputs[0]
    target = _whole_target(node)
    while True:
        if same_shape(source, node.outputs[0]):
            return source
        shape = list(source.shape) if source.shape is not None else [None]
        if target is not None and None not in shape and solve_reshape(shape, [*target], True) == shape:
            return source
        producer = source.inputs[0] if source.inputs else None
        if producer is None or producer.op not in _VIEWS or not is_standard(producer):
            return None
        source = producer.inputs[0]


def _whole_target(node: gs.Node) -> list[int] | None:
    """A Reshape's target, where it takes nothing from the shape before: then it follows from the number of elements."""
    if node.op != "Reshape" or not is_small_constant(node.inputs[1]):
        return None
    target = values_of(node.inputs[1]).ravel().tolist()
    return None if 0 in target else target


def _same_shape(node: gs.Node) -> gs.Tensor | None:
    return node.inputs[0] if same_shape(node.inputs[0], node.outputs[0]) else None


def _expand(node: gs.Node) -> gs.Tensor | None:
    shape = node.inputs[1].shape
    return _same_shape(node) if shape is not None and len(shape) == 1 else None


def _tile(node: gs.Node) -> gs.Tensor | None:
    source, repeats = node.inputs
    once = is_small_constant(repeats) and (values_of(repeats) == 1).all()
    return source if once and source.shape is not None and len(source.shape) == repeats.shape[0] else None


def _transpose(node: gs.Node) -> gs.Tensor | None:
    """One that changes no order, alone or after others."""
    order, source = order_of(node), node.inputs[0]
    while order is not None and order != sorted(order):
        before = source.inputs[0] if source.inputs else None
        first = order_of(before) if before is not None else None
        if before is None or first is None:
            return None
        order, source = turned_twice(first, order), before.inputs[0]
    return source if order is not None else None


def _slice(node: gs.Node) -> gs.Tensor | None:
    if len(node.inputs) > 4 and not (is_small_constant(node.inputs[4]) and (values_of(node.inputs[4]) == 1).all()):
        return None
    return _same_shape(node)


def _concat(node: gs.Node) -> gs.Tensor | None:
    """One part, but for empty ones: groups of features that a model has none of."""
    axis = int(node.attrs["axis"])
    parts = [tensor for tensor in node.inputs if not _is_empty_along(tensor, axis)]
    return parts[0] if len(parts) == 1 else None


def _is_empty_along(tensor: gs.Tensor, axis: int) -> bool:
    shape = tensor.shape
    return shape is not None and -len(shape) <= axis < len(shape) and shape[axis] == 0


def _dropout(node: gs.Node) -> gs.Tensor | None:
    if len(node.outputs) > 1 and node.outputs[1].outputs:
        return None
    mode = node.inputs[2] if len(node.inputs) > 2 else None
    if mode is not None and not mode.is_empty() and (not is_small_constant(mode) or values_of(mode).any()):
        return None
    return node.inputs[0]


def _add(node: gs.Node) -> gs.Tensor | None:
    a, b = node.inputs
    return _neutral(node, a, b, 0) or _neutral(node, b, a, 0)


def _sub(node: gs.Node) -> gs.Tensor | None:
    return _neutral(node, node.inputs[0], node.inputs[1], 0)


def _mul(node: gs.Node) -> gs.Tensor | None:
    a, b = node.inputs
    return _neutral(node, a, b, 1) or _neutral(node, b, a, 1)


def _div(node: gs.Node) -> gs.Tensor | None:
    return _neutral(node, node.inputs[0], node.inputs[1], 1)


def _neutral(node: gs.Node, kept: gs.Tensor, other: gs.Tensor, value: int) -> gs.Tensor | None:
    """`kept` where `other` is `value` everywhere and broadcasting leaves `kept` in its shape."""
    if isinstance(kept, gs.Constant) or _fill(other) != value or kept.dtype != node.outputs[0].dtype:
        return None
    if kept.shape is None or other.shape is None or None in kept.shape or len(other.shape) > len(kept.shape):
        return None
    tail = list(kept.shape)[len(kept.shape) - len(other.shape) :]
    fits = all(mine == theirs or theirs == 1 for mine, theirs in zip(tail, other.shape, strict=True))
    return kept if fits else None


def _fill(tensor: gs.Tensor) -> float | None:
    """The one value that all elements have, where that is known."""
    if is_small_constant(tensor):
        values = values_of(tensor)
        if values.size and values.dtype.kind in "iuf" and (values == values.flat[0]).all():
            return float(values.flat[0])
        return None
    producer = tensor.inputs[0] if not isinstance(tensor, gs.Constant) and tensor.inputs else None
    if producer is not None and producer.op == "ConstantOfShape":
        value = producer.attrs.get("value")
        return float(values_of(value).ravel()[0]) if value is not None else 0.0
    if producer is not None and producer.op in ("Expand", "Reshape", "Unsqueeze", "Cast"):
        return _fill(producer.inputs[0])
    return None


_VIEWS = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}

RULES: dict[str, Callable[[gs.Node], gs.Tensor | None]] = {
    "Identity": _input,
    "Cast": _cast,
    "Reshape": _keeps_order,
    "Flatten": _keeps_order,
    "Squeeze": _keeps_order,
    "Unsqueeze": _keeps_order,
    "Expand": _expand,
    "Tile": _tile,
    "Transpose": _transpose,
    "Slice": _slice,
    "Concat": _concat,
    "Dropout": _dropout,
    "Add": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
}
