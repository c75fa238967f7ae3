"""Parts of an axis that are split off and stacked on one of their own, as attention's heads may be written, and stacked
parts that are joined side by side again: each is a view and a Transpose."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.canonicalize.transposes import moved
from dpiframe.graph_passes.graphs import Node, is_standard, replace_uses, values_of
from dpiframe.graph_passes.workbench import Workbench


def turn_stacks(bench: Workbench, changes: list[str]) -> bool:
    """Let Concat(Unsqueeze(Split(x))) be Transpose(Reshape(x)), and Concat(Split(y)) of parts of size 1 along another
    axis Reshape(Transpose(y)).

    Left alone: parts of different sizes, in another order, or of a tensor of which several sizes aren't known.
    """
    outputs = bench.output_ids()
    found = 0
    for graph in bench.graphs():
        for node in list(graph.nodes):
            if node.op != "Concat" or not is_standard(node) or len(node.inputs) < 2:
                continue
            if id(node.outputs[0]) in outputs or not node.outputs[0].outputs:
                continue
            turned = _stacked(bench, graph, node) or _joined(bench, graph, node)
            if turned is not None:
                replace_uses(node.outputs[0], turned)
                found += 1
    if found:
        changes.append(f"{found} stacks of parts are views")
    return bool(found)


def _stacked(bench: Workbench, graph: gs.Graph, node: Node) -> gs.Tensor | None:
    """x of shape [..., count * size, ...] as [..., count, size, ...], with the count moved to the new axis."""
    parts = [_unstacked(tensor) for tensor in node.inputs]
    split = _split_into([part for part, _ in parts])
    if split is None:
        return None
    source = split.inputs[0]
    rank, count = len(source.shape), len(parts)
    new, axis = int(node.attrs["axis"]) % (rank + 1), int(split.attrs.get("axis", 0)) % rank
    if any(at is None or at % (rank + 1) != new for _, at in parts):
        return None
    size = split.outputs[0].shape[axis]
    sizes = [*source.shape[:axis], count, size, *source.shape[axis + 1 :]]
    cut = _reshape(bench, graph, source, sizes)
    return _transpose(bench, graph, cut, moved(rank + 1, axis, new))


def _joined(bench: Workbench, graph: gs.Graph, node: Node) -> gs.Tensor | None:
    """y of shape [..., count, ..., size, ...] as [..., 1, ..., count * size, ...]."""
    split = _split_into(list(node.inputs))
    if split is None:
        return None
    source = split.inputs[0]
    rank, count = len(source.shape), len(node.inputs)
    axis, to = int(split.attrs.get("axis", 0)) % rank, int(node.attrs["axis"]) % rank
    if axis == to or split.outputs[0].shape[axis] != 1 or not isinstance(source.shape[to], int):
        return None
    turned = _transpose(bench, graph, source, moved(rank, axis, to - 1 if axis < to else to))
    sizes = list(source.shape)
    sizes[to] *= count
    joined = _reshape(bench, graph, turned, [*sizes[:axis], *sizes[axis + 1 :]])
    # a view of its own, which mostly meets the Squeeze behind the Concat
    return _reshape(bench, graph, joined, [*sizes[:axis], 1, *sizes[axis + 1 :]])


def _unstacked(tensor: gs.Tensor) -> tuple[gs.Tensor, int | None]:
    """What an Unsqueeze of one axis was made of, and the axis."""
    node = tensor.inputs[0] if tensor.inputs else None
    if node is None or node.op != "Unsqueeze" or not is_standard(node):
        return tensor, None
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    listed = (
        values_of(axes).ravel().tolist() if axes is not None and is_small_constant(axes) else node.attrs.get("axes")
    )
    return (node.inputs[0], int(listed[0])) if listed is not None and len(listed) == 1 else (tensor, None)


def _split_into(parts: list[gs.Tensor]) -> Node | None:
    """The Split whose outputs these are, all of one size and in order, of a tensor with at most one unknown size and
    no empty axis."""
    split = parts[0].inputs[0] if parts[0].inputs else None
    if split is None or split.op != "Split" or not is_standard(split) or len(split.outputs) != len(parts):
        return None
    if any(part is not output for part, output in zip(parts, split.outputs, strict=True)):
        return None
    source, shapes = split.inputs[0], [part.shape for part in parts]
    if source.shape is None or any(shape is None or list(shape) != list(shapes[0]) for shape in shapes):
        return None
    axis = int(split.attrs.get("axis", 0)) % len(source.shape)
    known = isinstance(shapes[0][axis], int) and source.shape[axis] == len(parts) * shapes[0][axis]
    # a Reshape takes a 0 for the size that was there
    written = 0 not in source.shape and sum(not isinstance(size, int) for size in source.shape) <= 1
    return split if known and written else None


def _reshape(bench: Workbench, graph: gs.Graph, source: gs.Tensor, sizes: list[int | str]) -> gs.Tensor:
    result = gs.Variable(bench.new_name(f"{source.name}_parts"), source.dtype, sizes)
    target = np.array([size if isinstance(size, int) else -1 for size in sizes], np.int64)
    shape = gs.Constant(bench.new_name(f"{result.name}_shape"), target)
    graph.nodes.append(Node("Reshape", name=bench.new_name(result.name), inputs=[source, shape], outputs=[result]))
    return result


def _transpose(bench: Workbench, graph: gs.Graph, source: gs.Tensor, order: list[int]) -> gs.Tensor:
    if order == sorted(order):
        return source
    sizes = [source.shape[axis] for axis in order]
    result = gs.Variable(bench.new_name(f"{source.name}_turned"), source.dtype, sizes)
    name = bench.new_name(result.name)
    graph.nodes.append(Node("Transpose", name=name, attrs={"perm": order}, inputs=[source], outputs=[result]))
    return result
