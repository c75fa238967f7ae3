"""A matrix that is laid out flat and cut into its rows again: each piece is a row of it, whatever the sizes are
computed from."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.progressions import Progressions
from dpiframe.graph_passes.canonicalize.sizes import Size, number
from dpiframe.graph_passes.graphs import Node, is_standard, replace_uses
from dpiframe.graph_passes.workbench import Workbench


def pick_split_rows(bench: Workbench, changes: list[str]) -> bool:
    """Replace `Split(Reshape(x, [-1]), sizes)` of an x [k, n] and k sizes n, known or not, by k picks of rows."""
    outputs = bench.output_ids()
    found = 0
    for graph in bench.graphs():
        for node in list(graph.nodes):
            if node.op != "Split" or any(id(tensor) in outputs for tensor in node.outputs):
                continue
            if not any(tensor.outputs for tensor in node.outputs):
                continue
            matrix = _matrix(node)
            if matrix is not None:
                for row, tensor in enumerate(node.outputs):
                    replace_uses(tensor, _pick(bench, graph, matrix, row, tensor))
                found += 1
    if found:
        changes.append(f"{found} matrices that are split flat are picked from by row")
    return bool(found)


def _matrix(node: Node) -> gs.Tensor | None:
    """The matrix whose rows the pieces are."""
    if not is_standard(node) or len(node.inputs) != 2 or node.attrs.get("axis", 0) not in (0, -1):
        return None
    flat = node.inputs[0]
    reshape = flat.inputs[0] if flat.inputs else None
    if reshape is None or reshape.op != "Reshape" or not is_standard(reshape):
        return None
    found = Progressions()
    matrix, sizes = reshape.inputs[0], found.listed(node.inputs[1])
    before, after = found.dims(matrix), found.dims(flat)
    if sizes is None or before is None or after is None or (len(before), len(after)) != (2, 1):
        return None
    rows: Size = number(len(node.outputs))
    return matrix if before[0] == rows and set(sizes) == {before[1]} and len(sizes) == len(node.outputs) else None


def _pick(bench: Workbench, graph: gs.Graph, matrix: gs.Tensor, row: int, piece: gs.Tensor) -> gs.Tensor:
    picked = gs.Variable(bench.new_name(f"{piece.name}_row"), matrix.dtype, [matrix.shape[1]])
    index = gs.Constant(bench.new_name(f"{piece.name}_index"), np.array(row, np.int64))
    name = bench.new_name(picked.name)
    graph.nodes.append(Node("Gather", name=name, attrs={"axis": 0}, inputs=[matrix, index], outputs=[picked]))
    return picked
