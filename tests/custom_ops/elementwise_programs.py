"""Random programs of FusedElementwise, valid by construction, and inputs for them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from hypothesis import strategies as st

from dpiframe.custom_ops.elementwise_operators import ANY, FLOATS, INTEGERS, NUMPY_TYPES, OPERATORS, Operator
from dpiframe.graph_passes.elementwise.program import (
    REDUCTIONS,
    Const,
    ElementwiseProgram,
    Input,
    Line,
    Sizes,
    Value,
    elements,
)

SPECIAL_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 88.5, -103.9, 3e38, 1e-7, 6e4)
SPECIAL_INTEGERS = {"i32": (0, 1, -1, 2**31 - 1, -(2**31)), "i64": (0, 1, -1, 2**63 - 1, -(2**63), 1 << 40)}
MAX_ELEMENTS = 1500


@dataclass
class Case:
    program: str
    inputs: list[np.ndarray]


def numbers(rng: np.random.Generator, kind: str, shape: tuple[int, ...], special: bool) -> np.ndarray:
    """Random numbers of a type, with a few that are likely to be treated wrongly if `special`."""
    dtype = np.dtype(NUMPY_TYPES[kind])
    if kind == "bool":
        return rng.integers(0, 2, shape).astype(dtype)
    if kind in FLOATS:
        values = np.asarray(rng.standard_normal(shape) * rng.choice([0.1, 1, 1, 1, 10], shape))
        odd: tuple[float, ...] = SPECIAL_FLOATS
    else:
        values = np.asarray(rng.integers(-9, 10, shape))
        odd = SPECIAL_INTEGERS[kind]
    with np.errstate(over="ignore"):
        values = values.astype(dtype)
        if special:
            values = np.where(rng.random(shape) < 0.05, rng.choice(np.array(odd).astype(dtype), shape), values)
    return values


class Generator:
    """types: those that values may have."""

    def __init__(self, seed: int, types: tuple[str, ...] = ANY, max_lines: int = 25) -> None:
        self.random = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        self.types = types
        self.max_lines = max_lines
        self.program = ElementwiseProgram(rows=1 if self.random.random() < 0.7 else 2)
        self.masks: list[str] = []
        self.sizes = [self.random.choice([1, 2, 3, 4, 5, 7, 8, 10, 16, 17, 26, 33]) for _ in range(3)]

    def case(self, rows: tuple[int, ...] | None = None, special: bool | None = None) -> Case:
        self.add_inputs()
        for _ in range(self.random.randint(1, self.max_lines)):
            make: Callable[[], None] = self.random.choices(
                [self.operator, self.cast, self.view, self.pick, self.join, self.reduce, self.constant],
                [10, 1, 2, 1, 2, 2, 1],
            )[0]
            make()
        self.add_outputs()
        if rows is None:
            rows = tuple(self.random.choice([0, 1, 1, 2, 3, 5, 16, 33]) for _ in range(self.program.rows))
        if special is None:
            special = self.random.random() < 0.3
        inputs = [self.input_of(value, rows, special) for value in self.program.inputs]
        return Case(str(self.program), inputs)

    def input_of(self, value: Input, rows: tuple[int, ...], special: bool) -> np.ndarray:
        shape = tuple(size if letter == "x" else 1 for size, letter in zip(rows, value.mask, strict=True))
        if "x" not in value.mask:
            shape = (1,) * self.random.randint(0, 2)
        return numbers(self.rng, value.type, (*shape, *value.sizes), special)

    def add(self, value: Value, mask: str) -> int:
        self.program.values.append(value)
        self.masks.append(mask)
        return len(self.program.values) - 1

    def line(self, name: str, kind: str, sizes: Sizes, operands: tuple[int, ...], more: tuple[int, ...] = ()) -> int:
        masks = [self.masks[operand] for operand in operands]
        mask = "".join("x" if "x" in letters else "-" for letters in zip(*masks, strict=True))
        return self.add(Line(name, kind, sizes, operands, more), mask)

    def add_inputs(self) -> None:
        rows = self.program.rows
        for i in range(self.random.randint(1, 5)):
            mask = "x" * rows if i == 0 else "".join(self.random.choice("xx-") for _ in range(rows))
            self.add(Input(self.random.choice(self.types), mask, self.some_sizes()), mask)

    def add_outputs(self) -> None:
        whole = [i for i, mask in enumerate(self.masks) if "-" not in mask]
        count = min(len(whole), self.random.randint(1, 3))
        self.program.outputs = [whole[-1], *self.random.sample(whole, count - 1)]

    def some_sizes(self) -> Sizes:
        rank = self.random.choice([0, 1, 1, 2, 2, 3])
        return tuple(self.random.choice([*self.sizes, 1]) for _ in range(rank))

    def any_value(self, types: tuple[str, ...]) -> int:
        """One of these types, made by a cast if there is none."""
        found = [i for i, value in enumerate(self.program.values) if value.type in types]
        if found and self.random.random() < 0.95:
            # the later ones more often, so that programs are deep
            return max(self.random.choice(found), self.random.choice(found))
        operand = self.random.randrange(len(self.program.values))
        kind = self.random.choice([kind for kind in self.types if kind in types] or types)
        return self.line("cast", kind, self.program.values[operand].sizes, (operand,))

    def partner(self, value: int, kind: str) -> int:
        """A value of this type whose sizes broadcast with the given one's."""
        sizes = self.program.values[value].sizes
        found = [i for i, v in enumerate(self.program.values) if v.type == kind and _broadcast(sizes, v.sizes)]
        if found and self.random.random() < 0.9:
            return self.random.choice(found)
        if self.random.random() < 0.5:
            return self.add(Const(kind, self.number(kind)), "-" * self.program.rows)
        return self.line("cast", kind, sizes, (value,))

    def number(self, kind: str) -> float | int | bool:
        return cast("float | int | bool", numbers(self.rng, kind, (), self.random.random() < 0.2).item())

    def operator(self) -> None:
        usable = [op for op in OPERATORS if set(op.types) & set(self.types)]
        usable = [op for op in usable if "bool" in self.types or not (op.gives_bool or op.name == "where")]
        operator: Operator = self.random.choice(usable)
        first = self.any_value(tuple(kind for kind in operator.types if kind in self.types))
        kind = self.program.values[first].type
        operands = [first]
        while len(operands) < operator.arity - (operator.name == "where"):
            operands.append(self.partner(first, kind))
        if operator.name == "where":
            operands.insert(0, self.partner(first, "bool"))
        self.random.shuffle(operands) if operator.name != "where" else None
        sizes: Sizes | None = ()
        for operand in operands:
            sizes = None if sizes is None else _broadcast(sizes, self.program.values[operand].sizes)
        if sizes is None or elements(sizes) > MAX_ELEMENTS:
            return
        self.line(operator.name, "bool" if operator.gives_bool else kind, sizes, tuple(operands))

    def cast(self) -> None:
        operand = self.any_value(self.types)
        self.line("cast", self.random.choice(self.types), self.program.values[operand].sizes, (operand,))

    def constant(self) -> None:
        kind = self.random.choice(self.types)
        self.add(Const(kind, self.number(kind)), "-" * self.program.rows)

    def view(self) -> None:
        operand = self.any_value(self.types)
        value = self.program.values[operand]
        strides = [elements(value.sizes[axis + 1 :]) for axis in range(len(value.sizes))]
        sizes, offset = list(value.sizes), 0
        match self.random.choice(["reshape", "permute", "slice", "insert", "any"]):
            case "reshape":
                sizes, strides = [elements(value.sizes)], [1]
            case "permute":
                order = self.random.sample(range(len(sizes)), len(sizes))
                sizes, strides = [sizes[axis] for axis in order], [strides[axis] for axis in order]
            case "slice":
                for axis, size in enumerate(sizes):
                    first, last = sorted((self.random.randrange(size), self.random.randrange(size)))
                    step = self.random.choice([1, 1, 2])
                    offset += first * strides[axis]
                    sizes[axis] = (last - first) // step + 1
                    strides[axis] *= step
                    if self.random.random() < 0.2:  # backwards
                        offset += (sizes[axis] - 1) * strides[axis]
                        strides[axis] = -strides[axis]
            case "insert":
                axis = self.random.randint(0, len(sizes))
                size = self.random.choice([1, *self.sizes])
                if len(sizes) < 5 and elements(value.sizes) * size <= MAX_ELEMENTS:
                    sizes.insert(axis, size)
                    strides.insert(axis, self.random.choice([0, 0, 1]) if size == 1 else 0)
            case "any":
                room = elements(value.sizes) - 1
                sizes, strides = [], []
                for _ in range(self.random.randint(0, 3)):
                    size = self.random.choice([1, 2, 3, 5])
                    stride = self.random.randint(0, room // max(size - 1, 1))
                    room -= (size - 1) * stride
                    sizes.append(size)
                    strides.append(stride)
                offset = self.random.randint(0, room)
        self.line("view", value.type, tuple(sizes), (operand,), (offset, *strides))

    def pick(self) -> None:
        operand = self.any_value(self.types)
        value = self.program.values[operand]
        sizes = self.some_sizes()
        if elements(sizes) > MAX_ELEMENTS:
            return
        count, room = elements(sizes), elements(value.sizes)
        if self.random.random() < 0.5:
            indices = [self.random.randrange(room) for _ in range(count)]
        else:  # in runs
            indices = []
            while len(indices) < count:
                first = self.random.randrange(room)
                indices += range(first, min(first + self.random.randint(1, 20), room))
        self.line("pick", value.type, sizes, (operand,), tuple(indices[:count]))

    def join(self) -> None:
        operand = self.any_value(self.types)
        value = self.program.values[operand]
        if not value.sizes:
            return
        axis = self.random.randrange(len(value.sizes))
        parts = [operand]
        for i, other in enumerate(self.program.values):
            same = other.type == value.type and len(other.sizes) == len(value.sizes)
            if same and all(a == b or n == axis for n, (a, b) in enumerate(zip(other.sizes, value.sizes, strict=True))):
                parts += [i] * self.random.choice([0, 1, 1, 2])
        parts = self.random.sample(parts, min(len(parts), self.random.randint(1, 6)))
        sizes = list(value.sizes)
        sizes[axis] = sum(self.program.values[part].sizes[axis] for part in parts)
        if elements(tuple(sizes)) <= MAX_ELEMENTS:
            self.line("join", value.type, tuple(sizes), tuple(parts), (axis,))

    def reduce(self) -> None:
        kinds = tuple(kind for kind in self.types if kind in FLOATS + INTEGERS)
        found = [i for i, v in enumerate(self.program.values) if v.type in kinds and v.sizes]
        if not found:
            return
        operand = self.random.choice(found)
        value = self.program.values[operand]
        rank = len(value.sizes)
        axes = tuple(sorted(self.random.sample(range(rank), self.random.randint(1, rank))))
        if self.random.random() < 0.5:
            sizes = tuple(1 if axis in axes else size for axis, size in enumerate(value.sizes))
        else:
            sizes = tuple(size for axis, size in enumerate(value.sizes) if axis not in axes)
        name = self.random.choice(("sum", "sum", *REDUCTIONS))
        self.line(name, value.type, sizes, (operand,), axes)


def _broadcast(a: Sizes, b: Sizes) -> Sizes | None:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


def cases(types: tuple[str, ...] = ANY, max_lines: int = 25) -> st.SearchStrategy[Case]:
    return st.integers(0, 2**32 - 1).map(lambda seed: Generator(seed, types, max_lines).case())
