"""What standard operators are in a program: one operator of the table, or a few lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce

import numpy as np

from dpiframe.custom_ops.elementwise_operators import NUMPY_TYPES, OPERATORS
from dpiframe.graph_passes.elementwise.lines import Expr, RefusedError, is_float, wide
from dpiframe.graph_passes.elementwise.operands import TYPES, Operands
from dpiframe.graph_passes.graphs import numpy_type

Rule = Callable[[Operands], Expr]
Composition = Callable[[Operands, Expr], Expr]


def _operator(name: str, n: Operands) -> Expr:
    return n.lines.apply(name, *n.all())


def _composed(rule: Composition, n: Operands) -> Expr:
    """Several lines from the first operand; in float32 for float16, and rounded once."""
    n.only_first_output()
    return n.lines.cast(n.kind, rule(n, n.wide()))


def exp(x: Expr) -> Expr:
    return x.lines.apply("exp", x)


def log(x: Expr) -> Expr:
    return x.lines.apply("log", x)


def tanh(x: Expr) -> Expr:
    return x.lines.apply("tanh", x)


def sqrt(x: Expr) -> Expr:
    return x.lines.apply("sqrt", x)


def absolute(x: Expr) -> Expr:
    return x.lines.apply("abs", x)


def where(condition: Expr, x: Expr | float, y: Expr | float) -> Expr:
    return condition.lines.apply("where", condition, x, y)


def lesser(x: Expr, y: Expr | float) -> Expr:
    return x.lines.apply("minimum", x, y)


def greater(x: Expr, y: Expr | float) -> Expr:
    return x.lines.apply("maximum", x, y)


def softplus(x: Expr) -> Expr:
    return greater(x, 0) + log(exp(-absolute(x)) + 1)


def hard_sigmoid(x: Expr, alpha: float, beta: float) -> Expr:
    return lesser(greater(x * alpha + beta, 0), 1)


def gelu(x: Expr, approximate: str) -> Expr:
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
        return 0.5 * x * (1 + tanh(inner))
    return 0.5 * x * (1 + x.lines.apply("erf", x * math.sqrt(0.5)))


COMPOSED: dict[str, Composition] = {
    "LeakyRelu": lambda n, x: x.lines.apply("leakyrelu", x, n.attribute("alpha", 0.01)),
    "Elu": lambda n, x: where(x < 0, (exp(x) - 1) * n.attribute("alpha", 1.0), x),
    "Selu": lambda n, x: (
        where(x > 0, x, (exp(x) - 1) * n.attribute("alpha", 1.6732632423543772))
        * n.attribute("gamma", 1.05070102214813)
    ),
    "Celu": lambda n, x: (
        greater(x, 0) + lesser((exp(x / n.attribute("alpha", 1.0)) - 1) * n.attribute("alpha", 1.0), 0)
    ),
    "ThresholdedRelu": lambda n, x: where(x > n.attribute("alpha", 1.0), x, 0),
    "HardSigmoid": lambda n, x: hard_sigmoid(x, n.attribute("alpha", 0.2), n.attribute("beta", 0.5)),
    "HardSwish": lambda _, x: x * hard_sigmoid(x, 1 / 6, 0.5),
    "Softplus": lambda _, x: softplus(x),
    "Softsign": lambda _, x: x / (absolute(x) + 1),
    "Gelu": lambda n, x: gelu(x, n.attribute("approximate", "none")),
    "Mish": lambda _, x: x * tanh(softplus(x)),
    "Swish": lambda n, x: x * x.lines.apply("sigmoid", x * n.attribute("alpha", 1.0)),
}


def _mod(n: Operands) -> Expr:
    return n.lines.apply("fmod" if n.attribute("fmod", 0) else "mod", *n.all())


def _pow(n: Operands) -> Expr:
    x, exponent = n.all()
    known = n.lines.number_of(exponent)
    if known == 2:
        return x * x
    if known == 3:
        return x * x * x
    return n.lines.apply("pow", x, n.lines.cast(x.type, exponent) if known is None else known)


def _clip(n: Operands) -> Expr:
    """A bound that isn't given is the type's last finite number, so that infinite values don't stay."""
    x = n.x()
    last = float(np.finfo(NUMPY_TYPES[x.type]).max) if is_float(x) else None
    for index, bounded, bound in ((1, greater, last and -last), (2, lesser, last)):
        limit = n.x(index) if n.has(index) else bound
        x = x if limit is None else bounded(x, limit)
    return x


def _variadic(name: str, n: Operands) -> Expr:
    return reduce(lambda x, y: n.lines.apply(name, x, y), n.all())


def _mean(n: Operands) -> Expr:
    operands = list(map(wide, n.all()))
    return n.lines.cast(n.kind, reduce(lambda x, y: x + y, operands) / len(operands))


def _same(n: Operands) -> Expr:
    return n.row()


def _dropout(n: Operands) -> Expr:
    n.only_first_output()
    training = n.constant(2)
    if training is not None and training.any():
        raise RefusedError("it drops values at random")
    return n.row()


def _cast(n: Operands) -> Expr:
    target = numpy_type(n.attribute("to", 0))
    if not isinstance(target, np.dtype) or target not in TYPES:
        raise RefusedError("it casts to a type that isn't supported")
    return n.lines.cast(TYPES[target], n.x())


ELEMENTWISE: dict[str, Rule] = {
    **{o.onnx: partial(_operator, o.name) for o in OPERATORS if o.onnx},
    **{name: partial(_composed, rule) for name, rule in COMPOSED.items()},
    "Mod": _mod,
    "Pow": _pow,
    "Clip": _clip,
    "Min": partial(_variadic, "minimum"),
    "Max": partial(_variadic, "maximum"),
    "Sum": partial(_variadic, "add"),
    "Mean": _mean,
    "Identity": _same,
    "Dropout": _dropout,
    "Cast": _cast,
}


def total(x: Expr, axes: Sequence[int], keep: bool = True) -> Expr:
    return x.lines.reduce("sum", x, axes, keep)


def largest(x: Expr, axes: Sequence[int], keep: bool = True) -> Expr:
    return x.lines.reduce("max", x, axes, keep)


def mean(x: Expr, axes: Sequence[int], keep: bool = True) -> Expr:
    if not is_float(x):
        raise RefusedError("it averages integers")
    return total(x, axes, keep) / math.prod(x.sizes[axis] for axis in axes)


def log_sum_exp(x: Expr, axes: Sequence[int], keep: bool) -> Expr:
    top = largest(x, axes)
    shift = where(absolute(top) < math.inf, top, 0)
    return log(total(exp(x - shift), axes, keep)) + x.lines.reshape(shift, total(x, axes, keep).sizes)


REDUCED: dict[str, Callable[[Expr, Sequence[int], bool], Expr]] = {
    "ReduceSum": total,
    "ReduceMean": mean,
    "ReduceMax": largest,
    "ReduceMin": lambda x, axes, keep: x.lines.reduce("min", x, axes, keep),
    "ReduceProd": lambda x, axes, keep: x.lines.reduce("prod", x, axes, keep),
    "ReduceSumSquare": lambda x, axes, keep: total(x * x, axes, keep),
    "ReduceL1": lambda x, axes, keep: total(absolute(x), axes, keep),
    "ReduceL2": lambda x, axes, keep: sqrt(total(x * x, axes, keep)),
    "ReduceLogSum": lambda x, axes, keep: log(total(x, axes, keep)),
    "ReduceLogSumExp": log_sum_exp,
}


def _reduced(rule: Callable[[Expr, Sequence[int], bool], Expr], n: Operands) -> Expr:
    axes = n.axes()
    if not axes:
        if n.attribute("noop_with_empty_axes", 0):
            # the operator's other half, a square or a logarithm, happens all the same in some runtimes only
            raise RefusedError("it reduces over no axis")
        raise RefusedError("it reduces over the batch, too")
    return n.lines.cast(n.kind, rule(wide(n.row()), axes, bool(n.attribute("keepdims", 1))))


def _softmax(n: Operands) -> Expr:
    x, axes = _normalized(n)
    powers = exp(x - largest(x, axes))
    return n.lines.cast(n.kind, powers / total(powers, axes))


def _log_softmax(n: Operands) -> Expr:
    x, axes = _normalized(n)
    shifted = x - largest(x, axes)
    return n.lines.cast(n.kind, shifted - log(total(exp(shifted), axes)))


def _normalized(n: Operands) -> tuple[Expr, list[int]]:
    """The operand, and the axes over which a softmax sums up to 1: before opset 13 all from one on."""
    x = wide(n.row())
    first = n.axis(n.attribute("axis", -1 if n.opset >= 13 else 1))
    return x, [first] if n.opset >= 13 else list(range(first, len(x.sizes)))


def _layer_normalization(n: Operands) -> Expr:
    n.only_first_output()
    x = wide(n.row())
    axes = list(range(n.axis(n.attribute("axis", -1)), len(x.sizes)))
    # The mean's own error is the same for a whole row. What it leaves is found in the same pass as the squares, and
    # taken away: that matters where elements are large and near each other.
    nearly = x - mean(x, axes)
    rest = mean(nearly, axes)
    variance = n.lines.apply("relu", mean(nearly * nearly, axes) - rest * rest)
    deviation = sqrt(variance + n.attribute("epsilon", 1e-5))
    y = (nearly - rest) / deviation * n.wide(1)
    return n.lines.cast(n.kind, y + n.wide(2) if n.has(2) else y)


def _rms_normalization(n: Operands) -> Expr:
    x = wide(n.row())
    axes = list(range(n.axis(n.attribute("axis", -1)), len(x.sizes)))
    return n.lines.cast(n.kind, x / sqrt(mean(x * x, axes) + n.attribute("epsilon", 1e-5)) * n.wide(1))


def _batch_normalization(n: Operands) -> Expr:
    n.only_first_output()
    if n.attribute("training_mode", 0):
        raise RefusedError("it is in training mode")
    x = wide(n.row())
    if n.rows > 1 or not x.sizes:
        raise RefusedError("its channels are no axis of static size behind the batch")
    along = (x.sizes[0],) + (1,) * (len(x.sizes) - 1)
    scale, shift, average, variance = (
        n.lines.reshape(n.lines.cast(x.type, n.weight(index)), along) for index in range(1, 5)
    )
    factor = scale / sqrt(variance + n.attribute("epsilon", 1e-5))
    return n.lines.cast(n.kind, x * factor + (shift - average * factor))


WITHIN_ROWS: dict[str, Rule] = {
    **{name: partial(_reduced, rule) for name, rule in REDUCED.items()},
    "Softmax": _softmax,
    "LogSoftmax": _log_softmax,
    "LayerNormalization": _layer_normalization,
    "RMSNormalization": _rms_normalization,
    "BatchNormalization": _batch_normalization,
}
