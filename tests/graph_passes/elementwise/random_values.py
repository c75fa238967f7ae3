"""A random model under construction: its inputs, weights and values, and what its operators may take of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int | str, ...]
TYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "float64": TensorProto.DOUBLE,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
}
MAX_ELEMENTS = 200


@dataclass
class RandomValues:
    """A model without operators. values: tensors that have all row axes, with shape and type.

    exact: only operators whose every bit is settled. many_sizes: of these, none whose order of additions matters, on
    numbers of many sizes. special: the inputs hold NaN and infinities, for which runtimes
    differ where the largest or smallest of several is taken, and in casts to integers.
    """

    draw: st.DrawFn
    rows: Shape
    exact: bool
    special: bool
    many_sizes: bool
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: dict[str, tuple[Shape, str]] = field(default_factory=dict)
    initializers: dict[str, np.ndarray] = field(default_factory=dict)
    values: dict[str, tuple[Shape, str]] = field(default_factory=dict)
    count: int = 0

    # drawing

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def maybe(self) -> bool:
        return self.draw(st.booleans())

    def pick(self, options: object) -> object:
        return self.draw(st.sampled_from(list(options)))  # type: ignore[call-overload]

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}_{self.count}"

    def sizes(self, rank: int) -> tuple[int, ...]:
        return tuple(self.integer(1, 4) for _ in range(rank))

    # tensors

    def constant(self, values: object, dtype: str = "int64") -> str:
        name = self.name("constant")
        self.initializers[name] = np.array(values, dtype)
        return name

    def numbers(self, shape: tuple[int, ...], kind: str) -> np.ndarray:
        return self.random_numbers(np.random.default_rng(self.integer(0, 1 << 16)), shape, kind)

    def random_numbers(self, rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
        """Multiples of 1/4 up to 2, sums and products of a few of which are exact; else of many sizes."""
        if kind == "bool":
            return rng.integers(0, 2, shape).astype(bool)
        if self.many_sizes and kind.startswith("float"):
            return np.asarray(rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(kind)
        values = rng.integers(-8, 9, shape)
        return np.asarray(values / 4 if kind.startswith("float") else values).astype(kind)

    def add_input(self, sizes: tuple[int, ...], kind: str) -> str:
        name = self.name("input")
        self.inputs[name] = self.values[name] = ((*self.rows, *sizes), kind)
        return name

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        output = self.name(op.lower())
        self.nodes.append(helper.make_node(op, list(inputs), [output], **attributes))
        return output

    def put(self, name: str, sizes: tuple[int | str, ...], kind: str) -> str:
        if np.prod([int(size) for size in sizes], dtype=int) <= MAX_ELEMENTS:
            self.values[name] = ((*self.rows, *sizes), kind)
        return name

    def some(self, *kinds: str) -> tuple[str, tuple[int, ...], str] | None:
        """A value of one of these types (or any): its name, sizes and type."""
        fitting = [name for name, (_, kind) in self.values.items() if not kinds or kind in kinds]
        if not fitting:
            return None
        name = str(self.pick(fitting[-6:]))
        shape, kind = self.values[name]
        return name, tuple(int(size) for size in shape[len(self.rows) :]), kind

    def operand(self, sizes: tuple[int, ...], kind: str) -> tuple[str, tuple[int, ...]]:
        """Something that broadcasts with a value of these sizes: a number, a weight, or another value."""
        choice = self.pick(["number", "weight", "value", "value"])
        if choice == "value":
            fitting = [
                (name, tuple(int(size) for size in shape[len(self.rows) :]))
                for name, (shape, other) in self.values.items()
                if other == kind and len(shape) == len(self.rows) + len(sizes)
            ]
            fitting = [(name, own) for name, own in fitting if broadcasts(own, sizes)]
            if fitting:
                return self.pick(fitting)  # type: ignore[return-value]
        if choice == "number" or not sizes:
            return self.constant(self.numbers((), kind), kind), ()
        rank = self.integer(1, len(sizes))
        own = tuple(1 if self.integer(0, 3) == 0 else size for size in sizes[len(sizes) - rank :])
        leading = (1,) * self.integer(0, len(sizes) - rank + len(self.rows))
        return self.constant(self.numbers((*leading, *own), kind), kind), own

    # the result

    def model(self) -> onnx.ModelProto | None:
        made = [name for name in self.values if name not in self.inputs]
        if not made:
            return None
        outputs = self.draw(st.lists(st.sampled_from(made), min_size=1, max_size=4, unique=True))
        graph = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_tensor_value_info(n, TYPES[kind], shape) for n, (shape, kind) in self.inputs.items()],
            [helper.make_tensor_value_info(n, TYPES[self.values[n][1]], self.values[n][0]) for n in outputs],
            [numpy_helper.from_array(values, name) for name, values in self.initializers.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)

    def case(self, lengths: dict[str, int], seed: int) -> dict[str, np.ndarray]:
        """Inputs for these lengths of the row axes."""
        rng = np.random.default_rng(seed)
        case = {}
        for name, (shape, kind) in self.inputs.items():
            sizes = [lengths[dim] if isinstance(dim, str) else dim for dim in shape]
            array = self.random_numbers(rng, tuple(sizes), kind)
            if self.special and kind.startswith("float") and array.size:
                array.flat[rng.integers(0, array.size, 2)] = rng.choice([np.nan, np.inf, -np.inf, -0.0], 2)
            case[name] = array
        return case


def broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(a, b, strict=True))
