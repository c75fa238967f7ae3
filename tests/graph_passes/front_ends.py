"""Random front ends for property tests: fields, id layouts, casts, pooling, joins, slices and whatever reads them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int | str, ...]
_TYPES = {
    np.int32: TensorProto.INT32,
    np.int64: TensorProto.INT64,
    np.float32: TensorProto.FLOAT,
    np.float64: TensorProto.DOUBLE,
}


@dataclass
class FrontEnd:
    """A model under construction. `floats`: tensors of table rows and what was made of them, by name, with their
    shapes."""

    draw: st.DrawFn
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: dict[str, tuple[Shape, type, int]] = field(default_factory=dict)
    initializers: dict[str, np.ndarray] = field(default_factory=dict)
    floats: dict[str, Shape] = field(default_factory=dict)
    count: int = 0

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}_{self.count}"

    def constant(self, values: object, dtype: type = np.int64) -> str:
        name = self.name("constant")
        self.initializers[name] = np.array(values, dtype)
        return name

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        output = self.name(op.lower())
        self.nodes.append(helper.make_node(op, list(inputs), [output], **attributes))
        return output

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def maybe(self) -> bool:
        return self.draw(st.booleans())

    def pick(self, options: list) -> object:
        return self.draw(st.sampled_from(options))

    # ids

    def ids(self, length: int | None) -> tuple[str, int]:
        """int64 ids [b] or, with a length, [b, length]; and how many values they may have."""
        high = self.integer(1, 12)
        layout = self.pick(["own", "own", "matrix", "float matrix", "column matrix"])
        columns = length or 1
        if layout == "own" or (layout == "column matrix" and length):
            dtype = self.pick([np.int64, np.int32, np.float32])
            name = self.add_input(("b", length) if length else ("b",), dtype, high)
        elif layout == "column matrix":
            rows = self.integer(1, 3)
            matrix = self.add_input((rows, "b"), np.int64, high)
            return self.steps(self.node("Gather", matrix, self.constant(self.integer(0, rows - 1)), axis=0), high)
        else:
            extra = self.integer(0, 3)
            dtype = np.int64 if layout == "matrix" else self.pick([np.float32, np.float64])
            matrix = self.add_input(("b", columns + extra), dtype, high)
            start = self.integer(0, extra)
            if not length and self.maybe():
                name = self.node("Gather", matrix, self.constant(start), axis=1)
            else:
                name = self.slice(matrix, start, start + columns, 1)
                if not length:
                    name = self.node("Squeeze", name, self.constant([1]))
        if dtype in (np.float32, np.float64) or self.maybe():
            name = self.node("Cast", name, to=TensorProto.INT64)
        return self.steps(name, high)

    def steps(self, ids: str, high: int) -> tuple[str, int]:
        dtype = np.int64 if ids.startswith(("cast", "gather", "squeeze", "slice")) else self.inputs[ids][1]
        for _ in range(self.integer(0, 2)):
            n = self.integer(1, 5)
            op = self.pick(["Add", "Mod", "Div", "Mul"])
            ids = self.node(str(op), ids, self.constant(n, dtype))
            high = {"Add": high + n, "Mod": n, "Div": (high - 1) // n + 1, "Mul": (high - 1) * n + 1}[str(op)]
        return ids, high

    def add_input(self, shape: Shape, dtype: type, high: int) -> str:
        name = self.name("input")
        self.inputs[name] = (shape, dtype, high)
        return name

    def lookup(self) -> None:
        length = self.pick([None, None, 1, 2, 3, 30])
        ids, high = self.ids(length)  # type: ignore[arg-type]
        rows, dim = self.rows(ids, high)
        self.floats[rows] = ("b", length, dim) if length else ("b", dim)
        if length and self.maybe():
            self.pool(rows, ids, dim)

    def lookup_list(self) -> None:
        """A list of any length, a new one or one that was looked up before, pooled at once."""
        lists = [name for name, (shape, *_) in self.inputs.items() if shape[1:] in (("l",), ("m",))]
        if lists and self.maybe():
            name = str(self.pick(lists))
        else:
            dtype = self.pick([np.int64, np.int64, np.int32, np.float32])
            name = self.add_input(("b", self.pick(["l", "m"])), dtype, self.integer(1, 12))  # type: ignore[arg-type]
        high = self.inputs[name][2]
        ids = self.node("Cast", name, to=TensorProto.INT64) if self.inputs[name][1] is np.float32 else name
        ids, high = self.steps(ids, high)
        rows, dim = self.rows(ids, high)
        if self.maybe():
            self.pool(rows, ids, dim)
            return
        op = self.pick(["ReduceSum", "ReduceSum", "ReduceMean", "ReduceMax"])
        self.floats[self.node(str(op), rows, self.constant([1]), keepdims=0)] = ("b", dim)

    def rows(self, ids: str, high: int) -> tuple[str, int]:
        """Rows of a table, a new one or one that was there, and how wide they are."""
        dim = self.integer(1, 4)
        tables = [n for n, t in self.initializers.items() if n.startswith("table") and len(t) >= high]
        if tables and self.maybe():
            name = str(self.pick(tables))
            dim = self.initializers[name].shape[1]
        else:
            name = self.name("table")
            self.initializers[name] = np.random.default_rng(self.count).normal(size=(high, dim)).astype(np.float32)
        return self.node("Gather", name, ids), dim

    def pool(self, rows: str, ids: str, dim: int) -> None:
        zero = self.constant(0, np.int64 if not ids.startswith("input") else self.inputs[ids][1])
        kind = 0
        for node in self.nodes:
            if node.output[0] == ids and node.op_type in ("Add", "Mod", "Div", "Mul"):
                kind = self.initializers[node.input[1]].dtype.type
        if kind:
            zero = self.constant(0, kind)
        mask = self.node("Cast", self.node("Not", self.node("Equal", ids, zero)), to=TensorProto.FLOAT)
        wide = self.node("Unsqueeze", mask, self.constant([2]))
        masked = self.node("Mul", rows, wide)
        axis = self.constant([1])
        total = self.node("ReduceSum", masked, axis, keepdims=0)
        if self.maybe():
            count = self.node("ReduceSum", mask, axis, keepdims=1)
            total = self.node("Div", total, self.node("Add", count, self.constant(1e-8, np.float32)))
        self.floats[total] = ("b", dim)

    # what is made of rows

    def dense(self) -> None:
        columns = self.integer(1, 3)
        name = self.add_input(("b", columns), np.float32, 9)
        self.floats[name] = ("b", columns)

    def slice(self, data: str, start: int, end: int, axis: int) -> str:
        return self.node("Slice", data, *(self.constant([v]) for v in (start, end, axis)))

    def step(self) -> None:
        name = str(self.pick(list(self.floats)))
        shape = self.floats[name]
        rank = len(shape)
        sizes = [int(d) for d in shape[1:]]
        op = self.pick(
            [
                "unsqueeze",
                "squeeze",
                "flatten",
                "concat",
                "concat",
                "slice",
                "pick",
                "transpose",
                "expand",
                "sum",
                "mean",
                "max",
                "relu",
                "no effect",
                "add",
                "add",
                "reshape",
                "zero",
                "split",
            ]
        )
        if op == "unsqueeze" and rank < 4:
            axis = self.integer(1, rank)
            self.put(self.node("Unsqueeze", name, self.constant([axis])), (*shape[:axis], 1, *shape[axis:]))
        elif op == "squeeze" and 1 in sizes:
            axis = 1 + sizes.index(1)
            if rank > 2:
                self.put(self.node("Squeeze", name, self.constant([axis])), (*shape[:axis], *shape[axis + 1 :]))
        elif op == "flatten" and rank > 1:
            self.put(self.node("Flatten", name), ("b", int(np.prod(sizes))))
        elif op == "reshape" and rank > 2:
            total = int(np.prod(sizes))
            cut = self.pick([d for d in range(1, total + 1) if total % d == 0])
            self.put(self.node("Reshape", name, self.constant([-1, cut, total // cut])), ("b", cut, total // cut))
        elif op == "concat" and rank > 1:
            axis = self.integer(1, rank - 1)
            fitting = [n for n, s in self.floats.items() if _without(s, axis) == _without(shape, axis)]
            parts = [name, *(str(self.pick(fitting)) for _ in range(self.integer(0, 3)))]
            size = sum(int(self.floats[p][axis]) for p in parts)
            at = axis if self.maybe() else axis - rank
            self.put(self.node("Concat", *parts, axis=at), (*shape[:axis], size, *shape[axis + 1 :]))
        elif op in ("slice", "pick", "split") and rank > 1:
            axis = self.integer(1, rank - 1)
            size = int(shape[axis])
            start = self.integer(0, size - 1)
            end = self.integer(start + 1, size)
            if op == "slice":
                self.put(self.slice(name, start, end, axis), (*shape[:axis], end - start, *shape[axis + 1 :]))
            elif op == "pick":
                listed = [self.integer(-size, size - 1) for _ in range(self.integer(1, 3))]
                picked = self.node("Gather", name, self.constant(listed), axis=axis)
                self.put(picked, (*shape[:axis], len(listed), *shape[axis + 1 :]))
            elif size > 1:
                cut = self.integer(1, size - 1)
                outputs = [self.name("split"), self.name("split")]
                operands = [name, self.constant([cut, size - cut])]
                self.nodes.append(helper.make_node("Split", operands, outputs, axis=axis))
                for output, part in zip(outputs, (cut, size - cut), strict=True):
                    self.put(output, (*shape[:axis], part, *shape[axis + 1 :]))
        elif op == "transpose" and rank > 2:
            order = [0, *self.draw(st.permutations(range(1, rank)))]
            self.put(self.node("Transpose", name, perm=order), tuple(shape[i] for i in order))
        elif op == "expand" and 1 in sizes:
            axis = 1 + sizes.index(1)
            target = [3 if i == axis else 1 for i in range(rank)]
            self.put(self.node("Expand", name, self.constant(target)), (*shape[:axis], 3, *shape[axis + 1 :]))
        elif op in ("sum", "mean", "max") and rank > 1:
            axis = self.integer(1, rank - 1)
            keep = self.integer(0, 1)
            reduce = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax"}[str(op)]
            left = (*shape[:axis], *((1,) if keep else ()), *shape[axis + 1 :])
            self.put(self.node(reduce, name, self.constant([axis - rank]), keepdims=keep), left)
        elif op == "relu":
            self.put(self.node("Relu", name), shape)
        elif op == "no effect":
            self.put(self.node("Cast", self.node("Identity", name), to=TensorProto.FLOAT), shape)
        elif op == "zero":
            self.put(self.node("Add", name, self.constant([0], np.float32)), shape)
        elif op == "add":
            fitting = [n for n, s in self.floats.items() if s == shape]
            self.put(self.node("Add", name, str(self.pick(fitting))), shape)

    def put(self, name: str, shape: Shape) -> None:
        self.floats[name] = shape

    def model(self) -> onnx.ModelProto:
        made = [name for name in self.floats if name not in self.inputs]
        outputs = self.draw(st.lists(st.sampled_from(made), min_size=1, max_size=4, unique=True))
        graph = helper.make_graph(
            self.nodes,
            "front_end",
            [helper.make_tensor_value_info(n, _TYPES[dtype], shape) for n, (shape, dtype, _) in self.inputs.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, self.floats[n]) for n in outputs],
            [numpy_helper.from_array(values, name) for name, values in self.initializers.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)

    def case(self, batch: int, seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        sizes = {"b": batch, "l": 1 + seed % 4, "m": 3}
        return {
            name: rng.integers(0, high, [sizes.get(d, d) for d in shape]).astype(dtype)  # type: ignore[call-overload]
            for name, (shape, dtype, high) in self.inputs.items()
        }


def _without(shape: Shape, axis: int) -> Shape | None:
    return (len(shape), *shape[:axis], *shape[axis + 1 :]) if axis < len(shape) else None


@st.composite
def front_ends(draw: st.DrawFn) -> tuple[onnx.ModelProto, FrontEnd]:
    """A model, and what makes cases for it."""
    front_end = FrontEnd(draw)
    for _ in range(front_end.integer(1, 4)):
        front_end.lookup()
    for _ in range(front_end.pick([0, 0, 1, 2, 3])):  # type: ignore[call-overload]
        front_end.lookup_list()
    if front_end.maybe():
        front_end.dense()
    for _ in range(front_end.integer(0, 10)):
        front_end.step()
    return front_end.model(), front_end
