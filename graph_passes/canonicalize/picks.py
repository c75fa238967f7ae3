"""Elements that are picked behind a batch axis which is moved out of the way for it, picked where they are."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.canonicalize.simplify import same_shape
from dpiframe.graph_passes.canonicalize.transposes import moved
from dpiframe.graph_passes.graphs import Node, is_standard, replace_uses, values_of
from dpiframe.graph_passes.workbench import Workbench


def pick_in_place(bench: Workbench, changes: list[str]) -> bool:
    """Let Transpose, GatherND of constant indices and Transpose back, an exporter's `Z[:, i, j]`, be a Gather; and what
    it makes of a selection by a mask that is the same for each row."""
    outputs = bench.output_ids()
    found = 0
    for graph in bench.graphs():
        for node in list(graph.nodes):
            if id(node.outputs[0]) in outputs or not node.outputs[0].outputs:
                continue
            picked = _picked(node) or _selected(node)
            if picked is not None:
                replace_uses(node.outputs[0], _gather(bench, graph, node, *picked))
                found += 1
    if found:
        changes.append(f"{found} picks across the batch are picks behind it")
    return bool(found)


def _picked(node: Node) -> tuple[gs.Tensor, np.ndarray, int] | None:
    """What is picked from, the positions among its axes behind the batch, taken as one, and how many axes these are."""
    back = node
    pick = _producer(back.inputs[0], "GatherND") if back.op == "Transpose" and is_standard(back) else None
    away = _producer(pick.inputs[0], "Transpose") if pick is not None else None
    if pick is None or away is None or pick.attrs.get("batch_dims", 0) or not is_small_constant(pick.inputs[1]):
        return None
    source, index = away.inputs[0], values_of(pick.inputs[1])
    shape = source.shape
    if shape is None or not all(isinstance(dim, int) for dim in shape[1:]) or index.ndim < 1:
        return None
    rank, depth = len(shape), index.shape[-1]
    away_order, back_order = away.attrs.get("perm"), back.attrs.get("perm")
    if depth >= rank or away_order is None or back_order is None:
        return None
    # the batch moves behind the axes that are picked from, and then from there to the front again
    behind = list(away_order).index(0)
    there = index.ndim - 1 + behind - depth
    result = index.ndim - 1 + rank - depth
    if behind < depth or list(away_order) != moved(rank, 0, behind) or list(back_order) != moved(result, there, 0):
        return None
    sizes = np.array(shape[1 : 1 + depth])
    if (index < -sizes).any() or (index >= sizes).any():
        return None
    return source, np.ravel_multi_index(np.moveaxis(index % sizes, -1, 0), tuple(sizes)), depth


def _selected(node: Node) -> tuple[gs.Tensor, np.ndarray, int] | None:
    """The same for Reshape(GatherND(Z, Transpose(NonZero(Expand(mask, Shape(Z)))))), rows of what a mask selects."""
    select = _producer(node.inputs[0], "GatherND") if node.op == "Reshape" and is_standard(node) else None
    turned = _producer(select.inputs[1], "Transpose") if select is not None else None
    found = _producer(turned.inputs[0], "NonZero") if turned is not None else None
    spread = _producer(found.inputs[0], "Expand") if found is not None else None
    if select is None or turned is None or spread is None or not is_small_constant(spread.inputs[0]):
        return None
    if select.attrs.get("batch_dims", 0) or turned.attrs.get("perm", [1, 0]) != [1, 0]:
        return None
    source, mask = select.inputs[0], values_of(spread.inputs[0])
    shape = source.shape
    if shape is None or not all(isinstance(dim, int) for dim in shape[1:]) or not _has_shape_of(spread, source):
        return None
    if mask.ndim == len(shape) and mask.shape[0] == 1:
        mask = mask[0]
    fits = all(size in (1, whole) for size, whole in zip(mask.shape[::-1], shape[::-1], strict=False))
    if mask.ndim >= len(shape) or not fits or not is_small_constant(node.inputs[1]):
        return None
    positions = np.flatnonzero(np.broadcast_to(mask, shape[1:]))
    rows = values_of(node.inputs[1]).tolist()
    return (source, positions, len(shape) - 1) if len(positions) and rows == [-1, len(positions)] else None


def _has_shape_of(spread: Node, source: gs.Tensor) -> bool:
    """Whether an Expand's result has the shape of a tensor."""
    shape = _producer(spread.inputs[1], "Shape")
    return same_shape(spread.outputs[0], source) or (
        shape is not None and not shape.attrs and shape.inputs[0] is source
    )


def _gather(
    bench: Workbench, graph: gs.Graph, node: Node, source: gs.Tensor, index: np.ndarray, depth: int
) -> gs.Tensor:
    name, result = node.outputs[0].name, node.outputs[0]
    if depth > 1:
        shape = [0, int(np.prod(source.shape[1 : 1 + depth])), *source.shape[1 + depth :]]
        flat = gs.Variable(bench.new_name(f"{name}_flat"), source.dtype, [source.shape[0], *shape[1:]])
        target = gs.Constant(bench.new_name(f"{name}_shape"), np.array(shape, np.int64))
        graph.nodes.append(Node("Reshape", name=bench.new_name(flat.name), inputs=[source, target], outputs=[flat]))
        source = flat
    picked = gs.Variable(bench.new_name(f"{name}_picked"), result.dtype, result.shape)
    positions = gs.Constant(bench.new_name(f"{name}_positions"), index.astype(np.int64))
    gather = Node(
        "Gather", name=bench.new_name(picked.name), attrs={"axis": 1}, inputs=[source, positions], outputs=[picked]
    )
    graph.nodes.append(gather)
    return picked


def _producer(tensor: gs.Tensor, op: str) -> Node | None:
    producer = tensor.inputs[0] if tensor.inputs else None
    return producer if producer is not None and producer.op == op and is_standard(producer) else None
