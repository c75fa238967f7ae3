"""Random graphs of supported operators for property tests: row values, weights, views, broadcasting, reductions."""

from __future__ import annotations

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper

from tests.graph_passes.elementwise.random_values import TYPES, RandomValues, Shape, broadcasts

SMOOTH = ("Sigmoid", "Tanh", "Erf", "Softsign", "Sin", "Cos", "Atan", "HardSigmoid", "Elu", "LeakyRelu", "Celu")
"""Functions of one operand that keep errors as small as they are."""
PLAIN = ("Abs", "Neg", "Relu", "Identity")
STAIRS = ("Sign", "Floor", "Ceil", "Round")
"""Functions that may make a small error one of 1."""
COMPARISONS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")


class RandomGraph(RandomValues):
    """Adds an operator at a time."""

    def step(self) -> None:
        steps = [self.arithmetic, self.arithmetic, self.unary, self.compare, self.select, self.cast, self.variadic]
        steps += [self.reshape, self.transpose, self.slice, self.split, self.gather, self.expand, self.tile]
        steps += [self.concat, self.concat, self.logic]
        steps += [self.divide, self.root] if self.many_sizes else [self.reduce, self.reduce]
        if not self.exact:
            steps += [self.smooth, self.smooth, self.softmax, self.normalize, self.matvec, self.matmul, self.gemm]
        self.pick(steps)()  # type: ignore[operator]

    def floats(self) -> tuple[str, tuple[int, ...], str] | None:
        return self.some("float32", "float16", "float64")

    def arithmetic(self) -> None:
        found = self.some("float32", "float16", "float64", "int32", "int64")
        if found is None:
            return
        name, sizes, kind = found
        other, own = self.operand(sizes, kind)
        op = str(self.pick(["Add", "Sub", "Mul", "Add", "Sub"]))
        pair = [name, other] if self.maybe() else [other, name]
        self.put(self.node(op, *pair), np.broadcast_shapes(sizes, own), kind)

    def divide(self) -> None:
        found = self.some("float32", "float64")
        if found is not None:
            name, sizes, kind = found
            other, own = self.operand(sizes, kind)
            self.put(self.node("Div", name, other), np.broadcast_shapes(sizes, own), kind)

    def root(self) -> None:
        found = self.some("float32", "float64")
        if found is not None:
            name, sizes, kind = found
            self.put(self.node("Sqrt", name), sizes, kind)

    def unary(self) -> None:
        found = self.floats()
        if found is not None:
            name, sizes, kind = found
            plain = [*PLAIN, *STAIRS] if self.exact else PLAIN
            plain = [op for op in plain if not (self.special and op in ("Relu", "Sign"))]
            self.put(self.node(str(self.pick(plain)), name), sizes, kind)

    def smooth(self) -> None:
        found = self.floats()
        if found is not None:
            name, sizes, kind = found
            if kind == "float32":
                self.put(self.node(str(self.pick(SMOOTH)), name), sizes, kind)

    def compare(self) -> None:
        found = self.some("int32", "int64", *(["float32"] if self.exact else []))
        if found is not None:
            name, sizes, kind = found
            other, own = self.operand(sizes, kind)
            self.put(self.node(str(self.pick(COMPARISONS)), name, other), np.broadcast_shapes(sizes, own), "bool")

    def logic(self) -> None:
        found = self.some("bool")
        if found is not None:
            name, sizes, _ = found
            if self.maybe():
                self.put(self.node("Not", name), sizes, "bool")
            else:
                other, own = self.operand(sizes, "bool")
                op = str(self.pick(["And", "Or", "Xor"]))
                self.put(self.node(op, name, other), np.broadcast_shapes(sizes, own), "bool")

    def select(self) -> None:
        condition, value = self.some("bool"), self.some("float32", "int64")
        if condition is None or value is None or len(condition[1]) != len(value[1]):
            return
        name, sizes, kind = value
        if broadcasts(condition[1], sizes):
            both = np.broadcast_shapes(condition[1], sizes)
            other, own = self.operand(both, kind)
            self.put(self.node("Where", condition[0], name, other), np.broadcast_shapes(both, own), kind)

    def cast(self) -> None:
        found = self.some()
        if found is not None:
            name, sizes, kind = found
            targets = ["float32", "float32", "float64", "int64", "int32", "bool"]
            # ONNX Runtime leaves out the rounding of halves between operators that it computes in float32
            target = str(self.pick(targets if self.many_sizes else [*targets, "float16"]))
            whole = not target.startswith("float") and not self.exact
            if whole and kind.startswith("float"):
                return
            if not self.special or not kind.startswith("float") or target.startswith("float"):
                self.put(self.node("Cast", name, to=TYPES[target]), sizes, target)

    def variadic(self) -> None:
        found = self.some("float32")
        if found is not None:
            name, sizes, kind = found
            other, own = self.operand(sizes, kind)
            ops = ["Sum"] if self.special else ["Max", "Min", "Sum"]
            op = str(self.pick([*ops, *([] if self.exact else ["Mean"])]))
            self.put(self.node(op, name, other, name), np.broadcast_shapes(sizes, own), kind)

    def reshape(self) -> None:
        found = self.some()
        if found is None:
            return
        name, sizes, kind = found
        total = int(np.prod(sizes))
        first = self.pick([n for n in range(1, total + 1) if total % n == 0])
        target = (int(first), total // int(first))  # type: ignore[call-overload]
        choice = self.pick(["reshape", "flatten", "unsqueeze", "squeeze"])
        if choice == "reshape":
            shape = [*(0 for _ in self.rows), *target]
            self.put(self.node("Reshape", name, self.constant(shape)), target, kind)
        elif choice == "flatten" and len(self.rows) == 1 and sizes:
            self.put(self.node("Flatten", name, axis=1), (total,), kind)
        elif choice == "unsqueeze" and len(sizes) < 4:
            axis = self.integer(0, len(sizes))
            at = self.constant([axis + len(self.rows)])
            self.put(self.node("Unsqueeze", name, at), (*sizes[:axis], 1, *sizes[axis:]), kind)
        elif choice == "squeeze" and 1 in sizes:
            axis = sizes.index(1)
            at = self.constant([axis - len(sizes)])
            self.put(self.node("Squeeze", name, at), (*sizes[:axis], *sizes[axis + 1 :]), kind)

    def transpose(self) -> None:
        found = self.some()
        if found is not None and len(found[1]) > 1:
            name, sizes, kind = found
            order = self.draw(st.permutations(range(len(sizes))))
            rows = len(self.rows)
            perm = [*range(rows), *(axis + rows for axis in order)]
            self.put(self.node("Transpose", name, perm=perm), tuple(sizes[axis] for axis in order), kind)

    def slice(self) -> None:
        found = self.some()
        if found is None or not found[1]:
            return
        name, sizes, kind = found
        axis = self.integer(0, len(sizes) - 1)
        size = sizes[axis]
        if self.maybe():
            start = self.integer(0, size - 1)
            end, step = self.integer(start + 1, size + 2), self.integer(1, 2)
        else:
            start, end, step = size - 1, -(1 << 40), -self.integer(1, 2)
        at = axis + len(self.rows) if self.maybe() else axis - len(sizes)
        taken = len(range(size)[start : None if step < 0 else end : step])
        cut = self.node("Slice", name, *(self.constant([v]) for v in (start, end, at, step)))
        self.put(cut, (*sizes[:axis], taken, *sizes[axis + 1 :]), kind)

    def split(self) -> None:
        found = self.some()
        if found is None or not found[1]:
            return
        name, sizes, kind = found
        axis = self.integer(0, len(sizes) - 1)
        if sizes[axis] > 1:
            cut = self.integer(1, sizes[axis] - 1)
            lengths = [cut, sizes[axis] - cut]
            outputs = [self.name("split"), self.name("split")]
            node = helper.make_node("Split", [name, self.constant(lengths)], outputs, axis=axis - len(sizes))
            self.nodes.append(node)
            for output, length in zip(outputs, lengths, strict=True):
                self.put(output, (*sizes[:axis], length, *sizes[axis + 1 :]), kind)

    def gather(self) -> None:
        found = self.some()
        if found is None or not found[1]:
            return
        name, sizes, kind = found
        axis = self.integer(0, len(sizes) - 1)
        shape = self.pick([(), (1,), (3,), (2, 2)])
        index = np.random.default_rng(self.integer(0, 99)).integers(-sizes[axis], sizes[axis], shape)  # type: ignore[call-overload]
        taken = self.node("Gather", name, self.constant(index), axis=axis + len(self.rows))
        self.put(taken, (*sizes[:axis], *index.shape, *sizes[axis + 1 :]), kind)

    def expand(self) -> None:
        found = self.some()
        if found is not None:
            name, sizes, kind = found
            target = [3 if size == 1 and self.maybe() else size for size in sizes]
            self.put(self.node("Expand", name, self.constant([*(1 for _ in self.rows), *target])), tuple(target), kind)

    def tile(self) -> None:
        found = self.some("float32", "int64", "bool")
        if found is not None:
            name, sizes, kind = found
            times = [self.integer(1, 2) for _ in sizes]
            repeated = self.node("Tile", name, self.constant([*(1 for _ in self.rows), *times]))
            self.put(repeated, tuple(size * n for size, n in zip(sizes, times, strict=True)), kind)

    def concat(self) -> None:
        found = self.some()
        if found is None or not found[1]:
            return
        _, sizes, kind = found
        axis = self.integer(0, len(sizes) - 1)
        fitting = [
            (other, int(shape[len(self.rows) + axis]))
            for other, (shape, type_) in self.values.items()
            if type_ == kind
            and _without(shape, len(self.rows) + axis) == _without((*self.rows, *sizes), len(self.rows) + axis)
        ]
        parts = [self.pick(fitting) for _ in range(self.integer(1, 3))]
        joined = self.node("Concat", *(part for part, _ in parts), axis=axis + len(self.rows))  # type: ignore[misc]
        self.put(joined, (*sizes[:axis], sum(n for _, n in parts), *sizes[axis + 1 :]), kind)  # type: ignore[misc]

    def reduce(self) -> None:
        found = self.some("float32", "float64", "int64")
        if found is None or not found[1]:
            return
        name, sizes, kind = found
        axes = sorted({self.integer(0, len(sizes) - 1) for _ in range(self.integer(1, 2))})
        ops = ["ReduceSum"] if self.special else ["ReduceSum", "ReduceMax", "ReduceMin"]
        if kind == "float32" and not self.exact:
            ops += ["ReduceMean", "ReduceSumSquare", "ReduceL1", "ReduceLogSumExp"]
        keep = self.integer(0, 1)
        at = self.constant([axis + len(self.rows) for axis in axes])
        left = tuple(1 if axis in axes else size for axis, size in enumerate(sizes) if keep or axis not in axes)
        self.put(self.node(str(self.pick(ops)), name, at, keepdims=keep), left, kind)

    def softmax(self) -> None:
        found = self.some("float32")
        if found is not None and found[1]:
            name, sizes, kind = found
            axis = self.integer(-len(sizes), -1)
            self.put(self.node(str(self.pick(["Softmax", "LogSoftmax"])), name, axis=axis), sizes, kind)

    def normalize(self) -> None:
        found = self.some("float32")
        if found is None or not found[1]:
            return
        name, sizes, kind = found
        if self.maybe() and len(self.rows) == 1:
            weights = [self.numbers((sizes[0],), kind) for _ in range(3)]
            weights.append(np.abs(self.numbers((sizes[0],), kind)) + 1)
            operands = [self.constant(weight, kind) for weight in weights]
            self.put(self.node("BatchNormalization", name, *operands), sizes, kind)
        elif sizes[-1] > 1:
            # a variance near 0 would blow up the errors of what comes before
            spread = self.node("Add", name, self.constant(np.arange(sizes[-1]) * 4, kind))
            operands = [self.constant(self.numbers(sizes[-1:], kind), kind) for _ in range(self.integer(1, 2))]
            self.put(self.node("LayerNormalization", spread, *operands), sizes, kind)

    def matvec(self) -> None:
        found = self.some("float32")
        if found is not None and found[1]:
            name, sizes, kind = found
            weight = self.constant(self.numbers((sizes[-1], 1), kind), kind)
            self.put(self.node("MatMul", name, weight), (*sizes[:-1], 1), kind)

    def gemm(self) -> None:
        found = self.some("float32")
        if found is None or len(found[1]) != 1 or len(self.rows) != 1:
            return
        name, sizes, kind = found
        columns = 1 if sizes[0] > 1 else self.integer(1, 4)
        transposed = self.integer(0, 1)
        shape = (columns, sizes[0]) if transposed else (sizes[0], columns)
        operands = [name, self.constant(self.numbers(shape, kind), kind)]
        if self.maybe():
            operands.append(self.constant(self.numbers(self.pick([(), (1,), (columns,)]), kind), kind))  # type: ignore[arg-type]
        alpha, beta = self.pick([(1.0, 1.0), (0.5, 2.0)])  # type: ignore[misc]
        self.put(self.node("Gemm", *operands, transB=transposed, alpha=alpha, beta=beta), (columns,), kind)

    def matmul(self) -> None:
        found = self.some("float32")
        if found is None or len(found[1]) < 2:
            return
        name, sizes, kind = found
        rank, rows = len(sizes), len(self.rows)
        turned = self.node("Transpose", name, perm=[*range(rows + rank - 2), rows + rank - 1, rows + rank - 2])
        self.put(self.node("MatMul", name, turned), (*sizes[:-1], sizes[-2]), kind)


def _without(shape: Shape, axis: int) -> Shape:
    return (len(shape), *shape[:axis], *shape[axis + 1 :])


@st.composite
def random_graphs(
    draw: st.DrawFn, exact: bool, special: bool = False, many_sizes: bool = False
) -> tuple[onnx.ModelProto, RandomGraph]:
    """A model, and what makes cases for it."""
    rows: Shape = draw(st.sampled_from([("b",), ("b",), ("b", "l")]))
    graph = RandomGraph(draw, rows, exact, special, many_sizes)
    for _ in range(graph.integer(1, 3)):
        graph.add_input(
            graph.sizes(graph.integer(0, 3)), str(graph.pick(["float32", "float32", "float32", "int64", "bool"]))
        )
    for _ in range(graph.integer(2, 14)):
        graph.step()
    model = graph.model()
    if model is None:
        name, sizes, kind = graph.some()  # type: ignore[misc]
        graph.put(graph.node("Identity", name), sizes, kind)
        model = graph.model()
    assert model is not None
    return model, graph
