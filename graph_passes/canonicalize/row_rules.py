"""What nodes compute of tensors whose batch axis isn't their first, computed of rows: a rule for each operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.canonicalize.layouts import Groups, Layout, regroup
from dpiframe.graph_passes.canonicalize.transposes import ELEMENTWISE, order_of
from dpiframe.graph_passes.graphs import Node, values_of
from dpiframe.graph_passes.workbench import Workbench


class RowRules:
    """layouts: how tensors lie, by id(). made: the nodes that compute their rows, in order; they are in no graph."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self.layouts: dict[int, Layout] = {}
        self.made: list[Node] = []

    def layout_of(self, node: Node) -> Layout | None:
        """Compute a standard node's result of rows. None for what has no rule, and where no operand has a layout."""
        rule = RULES.get(node.op)
        operands = node.inputs if node.op in (*ELEMENTWISE, "MatMul") else node.inputs[:1]
        if rule is None or len(node.outputs) != 1 or not any(id(tensor) in self.layouts for tensor in operands):
            return None
        return rule(self, node)

    # views

    def transpose(self, node: Node) -> Layout | None:
        layout, order = self._of(node), order_of(node)
        if order is None or len(order) != len(layout.axes):
            return None
        return Layout(layout.rows, layout.sizes, tuple(layout.axes[axis] for axis in order))

    def view(self, node: Node) -> Layout | None:
        layout = self._of(node)
        found = regroup(layout, node.outputs[0].shape or ())
        if found is None:
            return None
        rows = layout.rows
        if found.sizes != layout.sizes:
            rows = self._emit("Reshape", [rows, self._constant([0, *found.sizes])], found.sizes, rows)
        return Layout(rows, found.sizes, found.axes)

    def pick(self, node: Node) -> Layout | None:
        """A Gather of constant indices."""
        layout, index = self._of(node), node.inputs[1]
        axis = int(node.attrs.get("axis", 0)) % len(layout.axes)
        if not is_small_constant(index) or len(index.shape) > 1 or 0 in layout.axes[axis] or not layout.axes[axis]:
            return None
        layout = self._merged(layout, axis)
        (place,) = layout.axes[axis]
        count = list(index.shape)
        sizes = (*layout.sizes[: place - 1], *count, *layout.sizes[place:])
        rows = self._emit("Gather", [layout.rows, index], sizes, layout.rows, axis=place)
        if count:
            return Layout(rows, sizes, layout.axes)
        left = [part for at, part in enumerate(layout.axes) if at != axis]
        return Layout(rows, sizes, tuple(tuple(a - (a > place) for a in part) for part in left))

    # arithmetic

    def elementwise(self, node: Node) -> Layout | None:
        first = next(self.layouts[id(tensor)] for tensor in node.inputs if id(tensor) in self.layouts)
        operands: list[gs.Tensor] = []
        for tensor in node.inputs:
            operand = self._beside(first, tensor)
            if operand is None:
                return None
            operands.append(operand)
        rows = self._emit(node.op, operands, first.sizes, node.outputs[0], **node.attrs)
        return Layout(rows, first.sizes, first.axes)

    def _beside(self, first: Layout, tensor: gs.Tensor) -> gs.Tensor | None:
        """An operand as it has to lie beside the rows of another."""
        layout = self.layouts.get(id(tensor))
        if layout is not None:
            theirs = dict(zip(first.flat, layout.flat, strict=False))
            return self.arranged(layout, [[theirs[a]] for (a,) in first.others(())]) if first.like(layout) else None
        if not is_small_constant(tensor) or len(tensor.shape) > len(first.axes):
            return None
        values = values_of(tensor)
        if values.size == 1:
            return tensor if values.ndim == 0 else gs.Constant(self._name(tensor), values.reshape(()))
        aligned = [1] * (len(first.axes) - values.ndim) + list(values.shape)
        shape = []
        for size, part in zip(aligned, first.axes, strict=True):
            if size != 1 and (0 in part or size != first.size(part)):
                return None
            shape += [1] * len(part) if size == 1 else [first.sizes[axis - 1] for axis in part]
        turned = values.reshape(shape).transpose(np.argsort(first.flat))
        # without ones in front, as a bias is written
        turned = turned.reshape(turned.shape[next(at for at, size in enumerate(turned.shape) if size > 1) :])
        return gs.Constant(self._name(tensor), np.ascontiguousarray(turned))

    def softmax(self, node: Node) -> Layout | None:
        layout = self._of(node)
        axis = int(node.attrs.get("axis", -1)) % len(layout.axes)
        if len(layout.axes[axis]) != 1 or layout.axes[axis] == (0,):
            return None
        rows = self._emit("Softmax", [layout.rows], layout.sizes, node.outputs[0], axis=layout.axes[axis][0])
        return Layout(rows, layout.sizes, layout.axes)

    def normalize(self, node: Node) -> Layout | None:
        """A LayerNormalization of the last axis."""
        layout = self._of(node)
        last = layout.axes[-1]
        if int(node.attrs.get("axis", -1)) not in (-1, len(layout.axes) - 1) or 0 in last:
            return None
        size = layout.size(last)
        # weights may have more axes, which would meet others of the rows
        if not all(isinstance(weight, gs.Constant) and list(weight.shape) == [size] for weight in node.inputs[1:]):
            return None
        return self._last(layout, size, node, lambda rows: [rows, *node.inputs[1:]])

    def matmul(self, node: Node) -> Layout | None:
        x, y = (self.layouts.get(id(tensor)) for tensor in node.inputs)
        if x is not None and y is not None:
            return self._product(x, y, node)
        weight = node.inputs[1]
        if x is None or not isinstance(weight, gs.Constant) or len(weight.shape) != 2:
            return None
        return self._weighted(x, weight, node)

    def gemm(self, node: Node) -> Layout | None:
        layout, weight = self.layouts.get(id(node.inputs[0])), node.inputs[1]
        scales = (node.attrs.get(name, 1.0) for name in ("alpha", "beta"))
        if layout is None or node.attrs.get("transA", 0) or not all(scale == 1 for scale in scales):
            return None
        if not is_small_constant(weight) or len(weight.shape) != 2:
            return None
        values = values_of(weight).T if node.attrs.get("transB", 0) else values_of(weight)
        made = self._weighted(layout, gs.Constant(self._name(weight), np.ascontiguousarray(values)), node)
        if made is None or len(node.inputs) < 3 or node.inputs[2].is_empty():
            return made
        bias, product = node.inputs[2], made
        if not isinstance(bias, gs.Constant) or list(bias.shape) != [product.sizes[-1]]:
            return None
        rows = self._emit("Add", [product.rows, bias], product.sizes, node.outputs[0])
        return Layout(rows, product.sizes, product.axes)

    def _weighted(self, x: Layout, weight: gs.Tensor, node: Node) -> Layout | None:
        """The product with a matrix [k, n]: n in the place of the last axis, k."""
        last = x.axes[-1]
        if 0 in last or x.size(last) != weight.shape[0]:
            return None
        return self._last(x, int(weight.shape[1]), node, lambda rows: [rows, weight], op="MatMul")

    def _last(
        self, x: Layout, size: int, node: Node, operands: Callable[[gs.Tensor], list[gs.Tensor]], op: str = ""
    ) -> Layout:
        """What works on the last axis alone, and gives one of this size in its place."""
        groups = [*x.others(x.axes[-1]), list(x.axes[-1])]
        sizes = (*(x.size(group) for group in groups[:-1]), size)
        attributes = {} if op else node.attrs | {"axis": -1}
        rows = self._emit(op or node.op, operands(self.arranged(x, groups)), sizes, node.outputs[0], **attributes)
        number = {axis: index for index, (axis,) in enumerate(groups[:-1], 1)} | {0: 0}
        outer = tuple(tuple(number[axis] for axis in part) for part in x.axes[:-1])
        return Layout(rows, sizes, (*outer, (len(sizes),)))

    def _product(self, x: Layout, y: Layout, node: Node) -> Layout | None:
        """The product of two, a matrix for each element of the axes in front."""
        outer, others = (Layout(layout.rows, layout.sizes, layout.axes[:-2]) for layout in (x, y))
        if len(x.axes) < 3 or len(x.axes) != len(y.axes) or not outer.like(others) or 0 not in outer.flat:
            return None
        if x.size(x.axes[-1]) != y.size(y.axes[-2]):
            return None
        operands = []
        for layout, part in ((x, outer), (y, others)):
            front = [[axis] for axis in part.flat if axis]
            operands.append(self.arranged(layout, [*front, list(layout.axes[-2]), list(layout.axes[-1])]))
        inner = [axis for axis in outer.flat if axis]
        sizes = (*(x.size([axis]) for axis in inner), x.size(x.axes[-2]), y.size(y.axes[-1]))
        number = {axis: index for index, axis in enumerate(inner, 1)} | {0: 0}
        front_axes = tuple(tuple(number[axis] for axis in part) for part in outer.axes)
        rows = self._emit("MatMul", operands, sizes, node.outputs[0])
        return Layout(rows, sizes, (*front_axes, (len(sizes) - 1,), (len(sizes),)))

    # rows

    def _of(self, node: Node) -> Layout:
        return self.layouts[id(node.inputs[0])]

    def _merged(self, layout: Layout, axis: int) -> Layout:
        """The same tensor, with one of its axes a single axis of the rows."""
        part = layout.axes[axis]
        if len(part) == 1:
            return layout
        groups = [list(part) if a == part[0] else [a] for a in range(1, len(layout.sizes) + 1) if a not in part[1:]]
        number = {a: index for index, group in enumerate(groups, 1) for a in group} | {0: 0}
        axes = tuple(tuple(dict.fromkeys(number[a] for a in own)) for own in layout.axes)
        return Layout(self.arranged(layout, groups), tuple(layout.size(group) for group in groups), axes)

    def arranged(self, layout: Layout, groups: Groups) -> gs.Tensor:
        """The rows with these groups of axes as their axes."""
        order, rows = [axis for group in groups for axis in group], layout.rows
        sizes = tuple(layout.size([axis]) for axis in order)
        if order != sorted(order):
            rows = self._emit("Transpose", [rows], sizes, rows, perm=[0, *order])
        if any(len(group) != 1 for group in groups):
            sizes = tuple(layout.size(group) for group in groups)
            rows = self._emit("Reshape", [rows, self._constant([0, *sizes])], sizes, rows)
        return rows

    def _emit(
        self, op: str, inputs: list[gs.Tensor], sizes: Sequence[int], like: gs.Tensor, **attributes: object
    ) -> gs.Tensor:
        batch = next(t.shape[0] for t in inputs if not isinstance(t, gs.Constant))
        result = gs.Variable(self._name(like), like.dtype, [batch, *sizes])
        self.made.append(
            Node(op, name=self._bench.new_name(result.name), attrs=attributes, inputs=inputs, outputs=[result])
        )
        return result

    def _constant(self, values: list[int]) -> gs.Tensor:
        return gs.Constant(self._bench.new_name("rows_shape"), np.array(values, np.int64))

    def _name(self, tensor: gs.Tensor) -> str:
        return self._bench.new_name(f"{tensor.name}_rows")


RULES: dict[str, Callable[[RowRules, Node], Layout | None]] = {
    **dict.fromkeys(ELEMENTWISE, RowRules.elementwise),
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"), RowRules.view),
    "Transpose": RowRules.transpose,
    "Gather": RowRules.pick,
    "Softmax": RowRules.softmax,
    "LayerNormalization": RowRules.normalize,
    "MatMul": RowRules.matmul,
    "Gemm": RowRules.gemm,
}
