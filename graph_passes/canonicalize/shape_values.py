"""Integer tensors that describe shapes, evaluated with symbols: `[batch, 26, 16]` is known although `batch` isn't.

Exporters compute shapes at run time (Shape -> Gather -> Concat -> Reshape). Here each such tensor becomes a numpy array
of objects: int, str (a dimension's symbol) or None (unknown).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.graphs import is_standard, values_of

Dim = int | str | None
_MAX_ELEMENTS = 64


def shape_values(graph: gs.Graph, known: dict[int, np.ndarray] | None = None) -> dict[int, np.ndarray]:
    """id(tensor) -> object array, for the graph's integer and boolean tensors of at most 64 elements that follow from
    shapes.

    `known` holds the outer graph's values. Expects nodes in topological order with inferred shapes.
    """
    values = dict(known or {})
    for node in graph.nodes:
        rule = _RULES.get(node.op)
        if rule is None or not is_standard(node) or len(node.outputs) != 1:
            continue
        if node.op == "Shape":
            result = _shape(node)
        else:
            arguments = [value_of(t, values) for t in node.inputs]
            if any(a is None for a in arguments):
                continue
            try:
                result = rule(node, *arguments)
            except (ValueError, IndexError, TypeError, ZeroDivisionError):
                continue
        if result is not None and result.size <= _MAX_ELEMENTS:
            values[id(node.outputs[0])] = result
    return values


def value_of(tensor: gs.Tensor, values: dict[int, np.ndarray]) -> np.ndarray | None:
    """The tensor's value as an object array, where it is a known shape value or a small constant of integers or
    booleans."""
    if isinstance(tensor, gs.Constant):
        if not is_small_constant(tensor, 8 * _MAX_ELEMENTS) or np.dtype(tensor.dtype).kind not in "iub":
            return None
        return values_of(tensor).astype(object)
    return values.get(id(tensor))


def is_known(value: np.ndarray) -> bool:
    return all(isinstance(element, (int, bool, np.bool_)) for element in value.ravel())


def _shape(node: gs.Node) -> np.ndarray | None:
    shape = node.inputs[0].shape
    if shape is None:
        return None
    return _objects(shape[node.attrs.get("start", 0) : node.attrs.get("end", len(shape))])


def _objects(elements: list[Any]) -> np.ndarray:
    array = np.empty(len(elements), object)
    array[:] = elements
    return array


def _elementwise(function: Callable[[Any, Any], Any]) -> Callable[..., np.ndarray]:
    def apply(node: gs.Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.frompyfunc(function, 2, 1)(a, b) if a.ndim or b.ndim else np.array(function(a[()], b[()]), object)

    return apply


def _add(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return a if b == 0 else b if a == 0 else None


def _sub(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if b == 0 else 0 if a == b and a is not None else None


def _mul(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if 0 in (a, b):
        return 0
    return a if b == 1 else b if a == 1 else None


def _div(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return int(abs(a) // abs(b)) * (1 if (a >= 0) == (b > 0) else -1)
    return a if b == 1 else None


def _equal(a: Dim, b: Dim) -> bool | None:
    if a is None or b is None:
        return None
    if isinstance(a, str) or isinstance(b, str):
        if a == b:
            return True
        other = b if isinstance(a, str) else a
        return False if isinstance(other, int) and other < 0 else None
    return a == b


def _where(node: gs.Node, condition: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    pick = np.frompyfunc(lambda c, x, y: None if c is None else x if c else y, 3, 1)
    return np.asarray(pick(condition, a, b), object)


def _slice(node: gs.Node, data: np.ndarray, *arguments: np.ndarray) -> np.ndarray | None:
    if not all(is_known(a) for a in arguments) or data.ndim != 1:
        return None
    starts, ends = arguments[0], arguments[1]
    step = int(arguments[3][0]) if len(arguments) > 3 else 1
    start, end = int(starts[0]), int(ends[0])
    return data[start : None if end > data.size or (step < 0 and end < -data.size) else end : step]


def _gather(node: gs.Node, data: np.ndarray, index: np.ndarray) -> np.ndarray | None:
    if node.attrs.get("axis", 0) != 0 or not is_known(index):
        return None
    return np.asarray(data[index.astype(np.int64)], object)


def _reshape(node: gs.Node, data: np.ndarray, shape: np.ndarray) -> np.ndarray | None:
    return data.reshape([int(d) for d in shape]) if is_known(shape) and 0 not in shape else None


def _unsqueeze(node: gs.Node, data: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray | None:
    listed = _axes(node, axes)
    return None if listed is None else np.expand_dims(data, listed)


def _squeeze(node: gs.Node, data: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray:
    return np.squeeze(data, _axes(node, axes))


def _axes(node: gs.Node, axes: np.ndarray | None) -> tuple[int, ...] | None:
    """Axes by operand or, before opset 13, by attribute."""
    given = node.attrs.get("axes") if axes is None else axes.ravel()
    return None if given is None else tuple(int(a) for a in given)


def _constant_of_shape(node: gs.Node, shape: np.ndarray) -> np.ndarray | None:
    if not is_known(shape) or int(np.prod(shape.astype(np.int64))) > _MAX_ELEMENTS:
        return None
    value = node.attrs.get("value")
    fill = values_of(value).ravel()[0] if value is not None else np.float32(0)
    if fill.dtype.kind not in "iub":
        return None
    return np.full([int(d) for d in shape], fill.item(), object)


def _concat(node: gs.Node, *parts: np.ndarray) -> np.ndarray:
    return np.concatenate(parts, axis=node.attrs["axis"])


def _cast(node: gs.Node, data: np.ndarray) -> np.ndarray | None:
    target = node.attrs["to"]
    integer = target in (6, 7) or target in (np.int32, np.int64, np.dtype(np.int32), np.dtype(np.int64))
    return data if integer and all(not isinstance(e, bool) for e in data.ravel()) else None


_RULES: dict[str, Callable[..., np.ndarray | None]] = {
    "Shape": _shape,
    "Add": _elementwise(_add),
    "Sub": _elementwise(_sub),
    "Mul": _elementwise(_mul),
    "Div": _elementwise(_div),
    "Equal": _elementwise(_equal),
    "Where": _where,
    "Slice": _slice,
    "Gather": _gather,
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "ConstantOfShape": _constant_of_shape,
    "Concat": _concat,
    "Cast": _cast,
    "Identity": lambda node, data: data,
}
