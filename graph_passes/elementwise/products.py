"""Small products of matrices as products of elements and a sum: what reads each element of a row once, such as a
matrix and a vector, and, where that is wanted, small products within a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from dpiframe.graph_passes.elementwise.indices import grid
from dpiframe.graph_passes.elementwise.lines import Expr, RefusedError, wide
from dpiframe.graph_passes.elementwise.operands import Operands
from dpiframe.graph_passes.elementwise.program import Sizes

Labels = Sequence[str]
"""A name for each axis, as in Einsum."""


def contract(x: Expr, over: Labels, y: Expr, along: Labels, result: Labels) -> Expr:
    """The sum of x * y over the labels that the result lacks."""
    sizes = _label_sizes((x, over), (y, along))
    # axes of one element come back at the end
    order = _order(*([label for label in labels if sizes[label] > 1] for labels in (over, along, result)))
    product = _spread(x, over, order) * _spread(y, along, order)
    summed = [axis for axis, label in enumerate(order) if label not in result]
    kept = [label for label in order if label in result]
    shape = tuple(sizes[label] for label in result)
    left = x.lines.reduce("sum", product, summed, keep=product_keeps(order, summed, shape, product.sizes))
    index = grid(tuple(sizes[label] for label in kept))
    moved = index.transpose([kept.index(label) for label in result if label in kept])
    return x.lines.view(left, moved.reshape(shape))


def product_keeps(order: Sequence[str], summed: Sequence[int], shape: Sizes, sizes: Sizes) -> bool:
    """Whether the sum has the result's shape if it keeps axes of one element for what was summed."""
    return shape == tuple(1 if axis in summed else sizes[axis] for axis in range(len(order)))


def _order(over: Labels, along: Labels, result: Labels) -> list[str]:
    """All labels, in the order in which the products lie: that of an operand which has them all, or with the summed
    ones last."""
    labels = [*result, *(label for label in dict.fromkeys([*over, *along]) if label not in result)]
    return next((list(own) for own in (over, along) if len(own) == len(labels)), labels)


def _spread(x: Expr, own: Labels, order: Sequence[str]) -> Expr:
    """The operand with an axis for every label, those that it lacks of size 1, and none for labels of size 1."""
    sizes = dict(zip(own, x.sizes, strict=True))
    kept = [label for label in own if label in order]
    index = grid(tuple(sizes[label] for label in kept))
    moved = index.transpose([kept.index(label) for label in order if label in kept])
    spread = moved.reshape([sizes.get(label, 1) for label in order])
    lacking = len(order) - len(x.sizes)
    if lacking >= 0 and np.array_equal(spread, grid((*[1] * lacking, *x.sizes))):
        return x
    # axes in front that it lacks come by broadcasting
    while spread.ndim and order[len(order) - spread.ndim] not in kept:
        spread = spread[0]
    return x.lines.view(x, spread)


def product(n: Operands, limit: int, x: Expr, over: Labels, y: Expr, along: Labels, result: Labels) -> Expr:
    """`contract`, where it is small: no element of a row is read twice, or at most `limit` products a row."""
    sizes = _label_sizes((x, over), (y, along))
    if any(len(set(labels)) < len(labels) for labels in (over, along, result)) or not set(result) <= sizes.keys():
        raise RefusedError("it takes a diagonal")
    count = math.prod(sizes.values())
    once = [math.prod(sizes[label] for label in result)]
    once += [math.prod(e.sizes) for e, index in ((x, 0), (y, 1)) if n.is_row(index)]
    if count > max(once) and not (n.is_row(0) and n.is_row(1) and count <= limit):
        raise RefusedError("it is a product of matrices", telling=False)
    return contract(wide(x), over, wide(y), along, result)


def _label_sizes(*operands: tuple[Expr, Labels]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for x, labels in operands:
        for label, size in zip(labels, x.sizes, strict=True):
            if sizes.setdefault(label, size) != size:
                raise RefusedError("its operands broadcast within a product")
    return sizes


def _matmul(limit: int, n: Operands) -> Expr:
    x = n.row(0) if n.is_row(0) else n.weight(0)
    y = n.row(1) if n.is_row(1) else n.weight(1)
    if n.is_row(0) and n.is_row(1):
        if min(len(x.sizes), len(y.sizes)) < 2 or len(x.sizes) != len(y.sizes):
            raise RefusedError("it is a product of matrices", telling=False)
        outer = [f"b{axis}" for axis in range(len(x.sizes) - 2)]
        over, along, result = [*outer, "m", "k"], [*outer, "k", "n"], [*outer, "m", "n"]
    elif n.is_row(0) and 1 <= len(y.sizes) <= 2 and x.sizes:
        outer = [f"b{axis}" for axis in range(len(x.sizes) - 1)]
        columns = ["n"][: len(y.sizes) - 1]
        over, along, result = [*outer, "k"], ["k", *columns], [*outer, *columns]
    elif n.is_row(1) and len(x.sizes) == 2 and len(y.sizes) >= 2:
        outer = [f"b{axis}" for axis in range(len(y.sizes) - 2)]
        over, along, result = ["m", "k"], [*outer, "k", "n"], [*outer, "m", "n"]
    else:
        raise RefusedError("it is a product of matrices", telling=False)
    return n.lines.cast(n.kind, product(n, limit, x, over, y, along, result))


def _gemm(limit: int, n: Operands) -> Expr:
    if n.attribute("transA", 0) or n.rows > 1:
        raise RefusedError("it is a product of matrices", telling=False)
    along = ["n", "k"] if n.attribute("transB", 0) else ["k", "n"]
    y = product(n, limit, n.row(0), ["k"], n.weight(1), along, ["n"])
    alpha, beta = n.attribute("alpha", 1.0), n.attribute("beta", 1.0)
    y = y if alpha == 1 else y * alpha
    if n.has(2):
        y = y + (n.wide(2) if beta == 1 else n.wide(2) * beta)
    return n.lines.cast(n.kind, y)


def _einsum(limit: int, n: Operands) -> Expr:
    """Einsum of two operands whose row axes come first in both and in the result, or lack in a weight."""
    equation = str(n.attribute("equation", "")).replace(" ", "")
    terms, arrow, result = equation.partition("->")
    operands = terms.split(",")
    if not arrow or len(operands) != 2 or "." in equation or len(n.node.inputs) != 2:
        raise RefusedError("its equation has another form")
    rows = result[: n.rows]
    values = []
    for index, labels in enumerate(operands):
        if n.is_row(index) and labels.startswith(rows):
            values.append((n.row(index), labels[n.rows :]))
        elif not set(rows) & set(labels):
            values.append((n.weight(index), labels))
        else:
            raise RefusedError("it works across rows")
        if set(rows) & set(values[-1][1]) or len(values[-1][1]) != len(values[-1][0].sizes):
            raise RefusedError("its equation has another form")
    (x, over), (y, along) = values
    return n.lines.cast(n.kind, product(n, limit, x, over, y, along, result[n.rows :]))


def product_rules(limit: int) -> dict[str, Callable[[Operands], Expr]]:
    """limit: products a row up to which operands that are both row values are multiplied although elements repeat."""
    rules = {"MatMul": _matmul, "Gemm": _gemm, "Einsum": _einsum}
    return {name: partial(rule, limit) for name, rule in rules.items()}
