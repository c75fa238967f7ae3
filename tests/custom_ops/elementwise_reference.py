"""What a program of FusedElementwise means, in plain numpy: docs/ops/fused-elementwise.md line by line.

What is not exact (exp and the like, sums, products) is computed in the next wider type and rounded once, and can be
disturbed by as much as a kernel may differ, which tells how far the outputs of a right kernel may lie apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpiframe.custom_ops.elementwise_operators import BY_NAME, NUMPY_TYPES
from dpiframe.graph_passes.elementwise.program import (
    REDUCTIONS,
    Const,
    ElementwiseProgram,
    Input,
    Line,
    Sizes,
    elements,
    parse_program,
)

Array = np.ndarray
WIDER = {"f16": np.float64, "f32": np.float64, "f64": np.longdouble}
ULPS = 2
"""By which a kernel's exp, tanh, ... may differ from the exact value."""
FLUSHED = ("sigmoid", "f32")
"""Results below the smallest normal number may be zero."""
SUM_ERROR = {"f16": 2.0**-10, "f32": 2.0**-22, "f64": 2.0**-50}
"""By which a kernel's sum may differ from the exact one, as a part of the sum of magnitudes."""


DISTURBED_RUNS = 12
ZERO_OF_EITHER_SIGN = ("minimum", "maximum", "relu")
"""Operators, besides reductions, whose zeros may have either sign."""


def run(text: str, inputs: Sequence[Array], noise: int | None = None) -> list[Array]:
    """The outputs, each with the row axes in front. noise is a seed: it disturbs whatever a kernel may compute
    inexactly."""
    program = parse_program(text)
    with np.errstate(all="ignore"):
        return _Interpreter(program, inputs, noise).outputs()


def compare(text: str, inputs: Sequence[Array], actual: Sequence[Array]) -> None:
    """Raise AssertionError unless the outputs are right: the same numbers where all is exact, else within what inexact
    values before them may move them."""
    expected = run(text, inputs)
    program = parse_program(text)
    assert len(actual) == len(expected)
    inexact = _inexact(program)
    runs = [run(text, inputs, noise) for noise in range(DISTURBED_RUNS)] if any(inexact) else []
    for i, (mine, wanted) in enumerate(zip(actual, expected, strict=True)):
        what = f"output {i} of\n{text}"
        assert mine.dtype == wanted.dtype, f"{what}: type {mine.dtype}, not {wanted.dtype}"
        assert mine.shape == wanted.shape, f"{what}: shape {mine.shape}, not {wanted.shape}"
        disturbed = [outputs[i] for outputs in runs] if inexact[program.outputs[i]] else []
        wrong = ~_close(mine, wanted, disturbed)
        if wrong.any():
            where = tuple(int(n) for n in np.argwhere(wrong)[0])
            raise AssertionError(f"{what}: at {where} {mine[where]!r}, not {wanted[where]!r}")


def _inexact(program: ElementwiseProgram) -> list[bool]:
    """For each value whether anything inexact is in it."""
    result: list[bool] = []
    for value in program.values:
        mine = False
        if isinstance(value, Line):
            operator = BY_NAME.get(value.name)
            mine = operator is not None and not operator.exact
            mine |= value.name in (*REDUCTIONS, *ZERO_OF_EITHER_SIGN) and value.type.startswith("f")
            mine |= any(result[operand] for operand in value.operands)
        result.append(mine)
    return result


def _close(mine: Array, wanted: Array, disturbed: list[Array]) -> Array:
    with np.errstate(all="ignore"):
        same = mine == wanted
        if mine.dtype.kind == "f":
            same |= np.isnan(mine) & np.isnan(wanted)
        if not disturbed:
            return same
        wide = np.longdouble
        spread = np.zeros(wanted.shape, wide)
        for other in disturbed:
            gap = np.abs(other.astype(wide) - wanted.astype(wide))
            # what disturbing turns into NaN or out of it may be anything
            gap = np.where(np.isnan(gap), np.inf, gap)
            unmoved = other == wanted
            if mine.dtype.kind == "f":
                unmoved |= np.isnan(other) & np.isnan(wanted)
            spread = np.maximum(spread, np.where(unmoved, 0, gap))
        allowed = 8 * spread
        if mine.dtype.kind == "f":
            allowed = allowed + 4 * np.spacing(np.abs(wanted)).astype(wide)
        gap = np.abs(mine.astype(wide) - wanted.astype(wide))
        return same | (gap <= allowed) | np.isinf(spread)


class _Interpreter:
    def __init__(self, program: ElementwiseProgram, inputs: Sequence[Array], noise: int | None) -> None:
        self.program = program
        self.noise = None if noise is None else np.random.default_rng(noise)
        # half of the runs leave some values as they are, so that those behind them are disturbed alone
        self.amounts = [-1, -0.5, 0.5, 1] + [0, 0] * ((noise or 0) % 2)
        self.flushes = (noise or 0) % 3 == 1
        self.anything = 0.0 if noise is None else (np.nan, 0.0, np.inf, -np.inf)[noise % 4]
        self.rows = self.row_axes(inputs)
        self.values: list[Array] = []
        """Each with all row axes in front, of size 1 where it doesn't depend on one, then its own sizes."""
        given = iter(inputs)
        for value in program.values:
            if isinstance(value, Input):
                self.values.append(self.input(value, next(given)))
            elif isinstance(value, Const):
                number = np.array(value.number, NUMPY_TYPES[value.type])
                self.values.append(number.reshape((1,) * program.rows))
            else:
                self.values.append(self.line(value))

    def outputs(self) -> list[Array]:
        results = []
        for output in self.program.outputs:
            sizes = self.values[output].shape[self.program.rows :]
            results.append(np.ascontiguousarray(np.broadcast_to(self.values[output], (*self.rows, *sizes))))
        return results

    def row_axes(self, inputs: Sequence[Array]) -> tuple[int, ...]:
        found: dict[int, int] = {}
        for value, array in zip(self.program.inputs, inputs, strict=True):
            for axis, letter in enumerate(value.mask):
                if letter == "x":
                    size = array.shape[array.ndim - len(value.sizes) - self.program.rows + axis]
                    assert found.setdefault(axis, size) == size
        return tuple(found[axis] for axis in range(self.program.rows))

    def input(self, value: Input, array: Array) -> Array:
        assert array.dtype == NUMPY_TYPES[value.type]
        rows = tuple(size if letter == "x" else 1 for size, letter in zip(self.rows, value.mask, strict=True))
        return array.reshape((*rows, *value.sizes))

    def line(self, line: Line) -> Array:
        operands = [self.values[operand] for operand in line.operands]
        dtype = np.dtype(NUMPY_TYPES[line.type])
        if line.name == "cast":
            return _cast(operands[0], dtype)
        if line.name == "view":
            return self.picked(operands[0], _view_indices(line), line.sizes)
        if line.name == "pick":
            return self.picked(operands[0], np.array(line.numbers), line.sizes)
        if line.name == "join":
            rows = np.broadcast_shapes(*(a.shape[: self.program.rows] for a in operands))
            parts = [np.broadcast_to(a, (*rows, *a.shape[self.program.rows :])) for a in operands]
            return np.concatenate(parts, self.program.rows + line.numbers[0])
        if line.name in REDUCTIONS:
            return self.reduce(line, operands[0])
        return self.operator(line, operands)

    def picked(self, operand: Array, indices: Array, sizes: Sizes) -> Array:
        rows = operand.shape[: self.program.rows]
        flat = operand.reshape((*rows, elements(operand.shape[self.program.rows :])))
        return flat[..., indices.reshape(-1)].reshape((*rows, *sizes))

    def operator(self, line: Line, operands: list[Array]) -> Array:
        operator = BY_NAME[line.name]
        rows, rank = self.program.rows, len(line.sizes)
        aligned = []
        for array in operands:
            sizes = array.shape[rows:]
            aligned.append(array.reshape((*array.shape[:rows], *(1,) * (rank - len(sizes)), *sizes)))
        kind = self.kind(line.operands[-1])
        if not operator.exact:
            aligned = [array.astype(WIDER[kind]) for array in aligned]
        elif kind == "f16":
            aligned = [array if array.dtype == np.bool_ else array.astype(np.float32) for array in aligned]
        x, y, z = (*aligned, None, None, None)[:3]
        names = {"np": np, "x": x, "y": y, "z": z, "divide": _divide, "remainder": _remainder, "erf": _erf}
        result = np.asarray(eval(operator.reference, names))
        result = result.astype(NUMPY_TYPES[line.type])
        if self.noise is not None and result.dtype.kind == "f":
            if not operator.exact:
                result = self.disturb(result, ULPS * np.spacing(np.abs(result)))
                if self.flushes and (line.name, line.type) == FLUSHED:
                    result = np.where(result < np.finfo(result.dtype).tiny, 0, result).astype(result.dtype)
            elif line.name in ZERO_OF_EITHER_SIGN:
                result = self.disturb_zeros(result)
        shape = np.broadcast_shapes(result.shape, (*(1,) * rows, *line.sizes))
        return np.broadcast_to(result, shape)

    def kind(self, value: int) -> str:
        return self.program.values[value].type

    def reduce(self, line: Line, operand: Array) -> Array:
        axes = tuple(self.program.rows + axis for axis in line.numbers)
        rows = operand.shape[: self.program.rows]
        floating = operand.dtype.kind == "f"
        wide = operand.astype(WIDER[line.type]) if floating else operand
        if line.name == "max":
            result = self.disturb_zeros(np.max(operand, axes))
        elif line.name == "min":
            result = self.disturb_zeros(np.min(operand, axes))
        else:
            of = np.sum if line.name == "sum" else np.prod
            result = of(wide, axes, dtype=wide.dtype)
            if floating and self.noise is not None:
                result = self.disturb_total(line, wide, axes, result)
        return np.asarray(result).astype(operand.dtype).reshape((*rows, *line.sizes))

    def disturb_total(self, line: Line, terms: Array, axes: tuple[int, ...], total: Array) -> Array:
        """Where the order decides whether a part of the total leaves the type's range, it may be anything."""
        assert self.noise is not None
        limits = np.finfo(np.float32 if line.type == "f16" else NUMPY_TYPES[line.type])
        sizes = np.where(np.isfinite(terms), np.abs(terms), 0)
        if line.name == "sum":
            size = np.sum(sizes, axes)
            leaves = size > limits.max
        else:
            size = np.abs(total) * (terms.size / max(total.size, 1))
            sizes = np.where(sizes == 0, 1, sizes)
            leaves = np.prod(np.maximum(sizes, 1), axes) > limits.max
            leaves |= np.prod(np.minimum(sizes, 1), axes) < limits.tiny
        return self.disturb_zeros(np.where(leaves, self.anything, self.disturb(total, SUM_ERROR[line.type] * size)))

    def disturb_zeros(self, values: Array) -> Array:
        if self.noise is None or values.dtype.kind != "f":
            return values
        return np.where(values == 0, self.noise.choice([0.0, -0.0], values.shape), values).astype(values.dtype)

    def disturb(self, values: Array, by: Array) -> Array:
        assert self.noise is not None
        moved = values + np.where(np.isfinite(by), by, 0) * self.noise.choice(self.amounts, values.shape)
        return np.where(np.isfinite(values), moved, values).astype(values.dtype)


def _view_indices(line: Line) -> Array:
    offset, *strides = line.numbers
    indices = np.array(offset)
    for size, stride in zip(line.sizes, strides, strict=True):
        indices = indices[..., None] + np.arange(size) * stride
    return indices


def _cast(array: Array, to: np.dtype) -> Array:
    if array.dtype.kind == "f" and to.kind == "i":
        low, high = np.iinfo(to).min, -float(np.iinfo(to).min)
        wide = np.trunc(array.astype(np.float64))
        inside = (wide >= low) & (wide < high)
        return np.where(inside, np.where(inside, wide, 0).astype(to), to.type(low))
    if to == np.bool_:
        return array != 0
    return array.astype(to)


def _divide(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return x / y
    by = np.where(y == 0, 1, y).astype(x.dtype)
    quotient = x // by
    rest = x - quotient * by
    # // rounds down: towards zero is one more where the signs differ and a rest is left
    return np.where(y == 0, 0, quotient + ((rest != 0) & ((x < 0) != (by < 0)))).astype(x.dtype)


def _remainder(x: Array, y: Array) -> Array:
    by = np.where(y == 0, 1, y).astype(x.dtype)
    # by -1 nothing is left; the smallest integer divided by it would overflow
    return np.where((y == 0) | (by == -1), 0, x % np.where(by == -1, 1, by)).astype(x.dtype)


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x)
