"""Which tensors are embedding tables, and which nodes look rows of them up."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.graphs import is_standard
from dpiframe.graph_passes.workbench import Workbench

TABLE_TYPES = (np.dtype(np.float32), np.dtype(np.float16))
# What quantizing tools leave between rows and DequantizeLinear.
_VIEWS = {"Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose"}


def count_lookups(bench: Workbench) -> int:
    """Lookups in the model, whether or not Identity and Constant nodes still stand between them and their tables; in
    tables of unsupported types too, which are left alone."""
    return sum(_may_look_up(node, bench) for graph in bench.graphs() for node in graph.nodes)


def _may_look_up(node: gs.Node, bench: Workbench) -> bool:
    if not gathers_rows(node):
        return False
    return is_table(_origin(node.inputs[0], {"Identity"}), bench) or quantized_table(node, bench) is not None


def _origin(tensor: gs.Tensor, through: Collection[str]) -> gs.Tensor:
    """What a tensor is made from by nodes of these operators alone; of a Constant node its value."""
    while tensor.inputs and tensor.inputs[0].op in through and tensor.inputs[0].inputs:
        tensor = tensor.inputs[0].inputs[0]
    if tensor.inputs and tensor.inputs[0].op == "Constant":
        tensor = tensor.inputs[0].attrs.get("value", tensor)
    return tensor


def is_table(tensor: gs.Tensor, bench: Workbench) -> bool:
    """A constant (or overridable) 2-D tensor of floats of any width, stored in the file or beside it."""
    # types that NumPy lacks are numbers: bfloat16 and narrower
    floating = isinstance(tensor.dtype, int) or (tensor.dtype is not None and np.dtype(tensor.dtype).kind == "f")
    return floating and _is_stored_matrix(tensor, bench)


def quantized_table(node: gs.Node, bench: Workbench) -> gs.Tensor | None:
    """The table of 8-bit numbers that a lookup reads, which DequantizeLinear makes floats before it or behind it."""
    if not gathers_rows(node):
        return None
    table = _origin(node.inputs[0], {"Identity", "DequantizeLinear"})
    before = table is not _origin(node.inputs[0], {"Identity"})
    if not (before or _is_dequantized(node.outputs[0])):
        return None
    numbers = isinstance(table.dtype, int) or (table.dtype is not None and np.dtype(table.dtype).itemsize == 1)
    return table if numbers and _is_stored_matrix(table, bench) else None


def _is_dequantized(tensor: gs.Tensor) -> bool:
    """Whether DequantizeLinear reads it, also behind views of it."""
    waiting = [tensor]
    while waiting:
        for reader in waiting.pop().outputs:
            if reader.op == "DequantizeLinear":
                return True
            if reader.op in _VIEWS:
                waiting.extend(reader.outputs)
    return False


def _is_stored_matrix(tensor: gs.Tensor, bench: Workbench) -> bool:
    shape = tensor.shape
    stored = isinstance(tensor, gs.Constant) or tensor.name in bench.overridable
    return stored and shape is not None and len(shape) == 2 and all(isinstance(d, int) for d in shape)


def is_float_table(tensor: gs.Tensor, bench: Workbench) -> bool:
    """A table of a type that can be looked up in."""
    return tensor.dtype in TABLE_TYPES and is_table(tensor, bench)


def is_lookup(node: gs.Node, bench: Workbench) -> bool:
    """A lookup: Gather on axis 0 of a constant 2-D float table."""
    return gathers_rows(node) and is_float_table(node.inputs[0], bench)


def gathers_rows(node: gs.Node) -> bool:
    """Gather on axis 0, of whatever."""
    return node.op == "Gather" and is_standard(node) and node.attrs.get("axis", 0) in (0, -2)
