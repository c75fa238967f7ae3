"""Integer tensors whose elements follow a rule though their number isn't known: the offsets 0, L, 2L, ... of equally
long bags, lengths that are all equal, and sizes that are products of dimensions.

What an exporter computes at run time (Range, or CumSum over Expand) is found by its producers, a small rule for each
operator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.canonicalize.sizes import Size, divided, number, plus, product, solved, times
from dpiframe.graph_passes.graphs import Node, is_standard, values_of

_MAX_ELEMENTS = 64
_MAX_DEPTH = 64
_END = 1 << 31
"""An end of a slice from which on it means the end of the axis."""


@dataclass(frozen=True)
class Listed:
    """A scalar or a vector, element by element."""

    elements: tuple[Size, ...]


@dataclass(frozen=True)
class Fill:
    """A tensor of equal elements."""

    element: Size
    shape: tuple[Size, ...]


@dataclass(frozen=True)
class Ramp:
    """first * step, (first + 1) * step, ... along the last axis; equal along the others, of which there are `axes`."""

    first: int
    step: Size
    count: Size
    axes: int = 0


Rule = Listed | Fill | Ramp


class Progressions:
    """Finds rules and lengths. The graph must not be changed meanwhile."""

    def __init__(self) -> None:
        self._rules: dict[int, Rule | None] = {}
        self._depth = 0

    def rule(self, tensor: gs.Tensor) -> Rule | None:
        """The rule that a tensor of integers follows, where there is one."""
        if isinstance(tensor, gs.Constant):
            return _constant(tensor)
        producer = tensor.inputs[0] if tensor.inputs else None
        if producer is None or not is_standard(producer) or self._depth > _MAX_DEPTH:
            return None
        if id(tensor) not in self._rules:
            self._rules[id(tensor)] = None
            handler = _RULES.get(producer.op)
            self._depth += 1
            try:
                if handler is not None and producer.outputs[0] is tensor:
                    self._rules[id(tensor)] = handler(self, producer)
            except (IndexError, TypeError, ValueError):
                # operands that no runtime would take
                pass
            finally:
                self._depth -= 1
        return self._rules[id(tensor)]

    def scalar(self, tensor: gs.Tensor) -> Size | None:
        """The value of a tensor of one element."""
        rule = self.rule(tensor)
        return rule.elements[0] if isinstance(rule, Listed) and len(rule.elements) == 1 else None

    def listed(self, tensor: gs.Tensor) -> tuple[Size, ...] | None:
        """The elements of a vector of known length."""
        rule = self.rule(tensor)
        if isinstance(rule, Fill) and len(rule.shape) == 1:
            count = rule.shape[0].number
            return (rule.element,) * count if count is not None and count <= _MAX_ELEMENTS else None
        return rule.elements if isinstance(rule, Listed) else None

    def ramp(self, tensor: gs.Tensor) -> Ramp | None:
        """A vector as a ramp."""
        rule = self.rule(tensor)
        if isinstance(rule, Ramp):
            return rule if rule.axes == 0 else None
        if isinstance(rule, Listed) and len(rule.elements) > 1 and rule.elements[0] == number(0):
            step = rule.elements[1]
            if all(element == times(number(i), step) for i, element in enumerate(rule.elements)):
                return Ramp(0, step, number(len(rule.elements)))
        return None

    def dims(self, tensor: gs.Tensor) -> tuple[Size, ...] | None:
        """The dimensions of a tensor of known rank. One that is known by nothing else is a symbol of its own."""
        if tensor.shape is None:
            return None
        found = [
            number(dim) if isinstance(dim, int) else Size(1, (str(dim) if dim else f"{tensor.name}#{axis}",))
            for axis, dim in enumerate(tensor.shape)
        ]
        producer = tensor.inputs[0] if tensor.inputs and is_standard(tensor.inputs[0]) else None
        if producer is not None and producer.op == "Reshape":
            solved = self._reshaped(producer)
            return solved if solved is not None and len(solved) == len(found) else tuple(found)
        if producer is not None and len(found) == 1 and producer.op in _LENGTHS:
            length = _LENGTHS[producer.op](self, producer)
            return (length,) if length is not None else tuple(found)
        if producer is not None and producer.op == "Split" and len(found) == 1 and len(producer.inputs) > 1:
            sizes = self.listed(producer.inputs[1])
            place = next(i for i, output in enumerate(producer.outputs) if output is tensor)
            return (sizes[place],) if sizes is not None and place < len(sizes) else tuple(found)
        return tuple(found)

    def length(self, tensor: gs.Tensor) -> Size | None:
        """How many elements a vector has."""
        dims = self.dims(tensor)
        return dims[0] if dims is not None and len(dims) == 1 else None

    def _reshaped(self, node: Node) -> tuple[Size, ...] | None:
        target = self.listed(node.inputs[1])
        before = self.dims(node.inputs[0])
        if target is None or before is None:
            return None
        if not node.attrs.get("allowzero", 0):
            target = tuple(before[i] if size == number(0) else size for i, size in enumerate(target))
        return solved(before, target)


def _length_of_slice(found: Progressions, node: Node) -> Size | None:
    """Of `x[k:]`, for an x that has k elements at least."""
    start, end, *rest = [_integer(tensor) for tensor in node.inputs[1:]]
    before = found.length(node.inputs[0])
    whole = start >= 0 and end >= _END and rest in ([], [0], [0, 1])
    return plus(before, number(-start)) if before is not None and whole else None


def _length_of_concat(found: Progressions, node: Node) -> Size | None:
    total: Size | None = number(0)
    for tensor in node.inputs:
        length = found.length(tensor)
        total = plus(total, length) if total is not None and length is not None else None
    return total


def _constant(tensor: gs.Constant) -> Rule | None:
    if not is_small_constant(tensor, 1 << 16) or np.dtype(tensor.dtype).kind not in "iu":
        return None
    values = values_of(tensor)
    if values.ndim > 1:
        equal = values.size > 0 and (values == values.flat[0]).all()
        return Fill(number(values.flat[0]), tuple(map(number, values.shape))) if equal else None
    values = values.ravel()
    if values.size <= _MAX_ELEMENTS:
        return Listed(tuple(number(v) for v in values.tolist()))
    step = int(values[1])
    regular = bool((values.astype(np.int64) == np.arange(values.size, dtype=np.int64) * step).all())
    return Ramp(0, number(step), number(values.size)) if regular else None


def _integer(tensor: gs.Tensor) -> int:
    """A constant that must be there. Raises TypeError where it isn't."""
    if not is_small_constant(tensor, 64):
        raise TypeError("not a constant")
    return int(values_of(tensor).item())


def _shape(found: Progressions, node: Node) -> Rule | None:
    dims = found.dims(node.inputs[0])
    return Listed(dims[node.attrs.get("start", 0) : node.attrs.get("end", len(dims))]) if dims is not None else None


def _size(found: Progressions, node: Node) -> Rule | None:
    dims = found.dims(node.inputs[0])
    total = product(dims) if dims is not None else None
    return Listed((total,)) if total is not None else None


def _same(found: Progressions, node: Node) -> Rule | None:
    return found.rule(node.inputs[0])


def _squeeze(found: Progressions, node: Node) -> Rule | None:
    rule = found.rule(node.inputs[0])
    if isinstance(rule, Ramp):
        return _without_axis_0(rule, node)
    return rule if isinstance(rule, Listed) else None


def _unsqueeze(found: Progressions, node: Node) -> Rule | None:
    rule = found.rule(node.inputs[0])
    return rule if isinstance(rule, Listed) and len(rule.elements) == 1 else None


def _reshape(found: Progressions, node: Node) -> Rule | None:
    rule = found.rule(node.inputs[0])
    target = found.listed(node.inputs[1])
    if target is None or number(0) in target:
        return None
    if isinstance(rule, Fill):
        shape = solved(rule.shape, target)
        return Fill(rule.element, shape) if shape is not None else None
    if isinstance(rule, Listed) and len(target) <= 1:
        return rule
    return replace(rule, axes=0) if isinstance(rule, Ramp) and rule.axes == 0 and len(target) == 1 else None


def _gather(found: Progressions, node: Node) -> Rule | None:
    rule, index = found.rule(node.inputs[0]), node.inputs[1]
    if node.attrs.get("axis", 0) != 0 or not is_small_constant(index, 512):
        return None
    if isinstance(rule, Ramp):
        return replace(rule, axes=rule.axes - 1) if rule.axes and values_of(index).ndim == 0 else None
    elements = found.listed(node.inputs[0])
    return Listed(tuple(elements[int(i)] for i in values_of(index).ravel())) if elements is not None else None


def _slice(found: Progressions, node: Node) -> Rule | None:
    rule = found.rule(node.inputs[0])
    start, end = _integer(node.inputs[1]), _integer(node.inputs[2])
    axis = _integer(node.inputs[3]) if len(node.inputs) > 3 else 0
    step = _integer(node.inputs[4]) if len(node.inputs) > 4 else 1
    if axis != 0 or step != 1:
        return None
    if isinstance(rule, Ramp):
        return rule if rule.axes else None
    elements = found.listed(node.inputs[0])
    return Listed(elements[start : len(elements) if end >= _END else end]) if elements is not None else None


def _concat(found: Progressions, node: Node) -> Rule | None:
    last = found.rule(node.inputs[-1])
    if len(node.inputs) == 2 and isinstance(last, Ramp):
        return _behind_zero(found, node, last)
    parts = [found.listed(tensor) for tensor in node.inputs]
    if any(part is None for part in parts) or node.attrs["axis"] not in (0, -1):
        return None
    return Listed(tuple(element for part in parts for element in part or ()))


def _behind_zero(found: Progressions, node: Node, ramp: Ramp) -> Rule | None:
    """Zeros before running sums: offsets made from lengths."""
    zero = found.rule(node.inputs[0])
    shape = zero.shape if isinstance(zero, Fill) else (number(1),)
    element = zero.element if isinstance(zero, Fill) else found.scalar(node.inputs[0])
    count = plus(ramp.count, number(1))
    fits = ramp.first == 1 and node.attrs["axis"] in (-1, ramp.axes) and shape[-1] == number(1)
    return replace(ramp, first=0, count=count) if fits and element == number(0) and count is not None else None


def _binary(operation: Callable[[Size, Size], Size | None]) -> Callable[[Progressions, Node], Rule | None]:
    def apply(found: Progressions, node: Node) -> Rule | None:
        a, b = (found.scalar(tensor) for tensor in node.inputs)
        if a is not None and b is not None:
            result = operation(a, b)
            return Listed((result,)) if result is not None else None
        for tensor, factor in ((node.inputs[0], b), (node.inputs[1], a)):
            ramp = found.rule(tensor)
            if operation is times and factor is not None and isinstance(ramp, Ramp):
                step = times(ramp.step, factor)
                return replace(ramp, step=step) if step is not None else None
        return None

    return apply


def _minus(a: Size, b: Size) -> Size | None:
    return plus(a, Size(-b.factor, b.symbols, -b.add))


def _range(found: Progressions, node: Node) -> Rule | None:
    start, limit, step = (found.scalar(tensor) for tensor in node.inputs)
    if start != number(0) or limit is None or step is None:
        return None
    count = divided(limit, step)
    return Ramp(0, step, count) if count is not None else None


def _filled(found: Progressions, shape: gs.Tensor, element: Size | None) -> Rule | None:
    sizes = found.listed(shape)
    return Fill(element, sizes) if element is not None and sizes is not None else None


def _constant_of_shape(found: Progressions, node: Node) -> Rule | None:
    value = node.attrs.get("value")
    integer = value is not None and np.dtype(value.dtype).kind == "i"
    return _filled(found, node.inputs[0], number(values_of(value).item()) if integer else None)


def _expand(found: Progressions, node: Node) -> Rule | None:
    return _filled(found, node.inputs[1], found.scalar(node.inputs[0]))


def _axes_of(found: Progressions, node: Node) -> list[int] | None:
    if len(node.inputs) > 1:
        listed = found.listed(node.inputs[1])
        return [int(size.add) for size in listed] if listed is not None else None
    given = node.attrs.get("axes")
    return list(given) if given is not None else None


def _reduce_sum(found: Progressions, node: Node) -> Rule | None:
    rule, axes = found.rule(node.inputs[0]), _axes_of(found, node)
    if not isinstance(rule, Fill) or axes is None or node.attrs.get("keepdims", 1):
        return None
    reduced = {axis % len(rule.shape) for axis in axes}
    count = product(tuple(size for axis, size in enumerate(rule.shape) if axis in reduced))
    element = times(rule.element, count) if count is not None else None
    shape = tuple(size for axis, size in enumerate(rule.shape) if axis not in reduced)
    return Fill(element, shape) if element is not None else None


def _reduce_prod(found: Progressions, node: Node) -> Rule | None:
    elements = found.listed(node.inputs[0])
    total = product(elements) if elements is not None and len(node.inputs) == 1 and "axes" not in node.attrs else None
    return Listed((total,)) if total is not None else None


def _cum_sum(found: Progressions, node: Node) -> Rule | None:
    rule = found.rule(node.inputs[0])
    if not isinstance(rule, Fill) or node.attrs.get("reverse", 0):
        return None
    if _integer(node.inputs[1]) not in (-1, len(rule.shape) - 1):
        return None
    return Ramp(0 if node.attrs.get("exclusive", 0) else 1, rule.element, rule.shape[-1], len(rule.shape) - 1)


def _without_axis_0(ramp: Ramp, node: Node) -> Rule | None:
    given = node.attrs.get("axes") if len(node.inputs) < 2 else [_integer(node.inputs[1])]
    return replace(ramp, axes=ramp.axes - 1) if ramp.axes and list(given or ()) == [0] else None


_LENGTHS: dict[str, Callable[[Progressions, Node], Size | None]] = {
    "Slice": _length_of_slice,
    "Concat": _length_of_concat,
}
_RULES: dict[str, Callable[[Progressions, Node], Rule | None]] = {
    "Shape": _shape,
    "Size": _size,
    "Identity": _same,
    "Cast": _same,
    "CastLike": _same,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Add": _binary(plus),
    "Sub": _binary(_minus),
    "Mul": _binary(times),
    "Range": _range,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "ReduceSum": _reduce_sum,
    "ReduceProd": _reduce_prod,
    "CumSum": _cum_sum,
}
