"""Fold what is known before the model runs, leaving tables alone."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx.reference import ReferenceEvaluator

from dpiframe.graph_passes.graph_writer import write_node
from dpiframe.graph_passes.graphs import byte_size, constant_values, is_standard, node_label, replace_uses, values_of
from dpiframe.graph_passes.model_io import is_external
from dpiframe.graph_passes.workbench import Workbench

# Large enough for stacked expert weights, far too small for an embedding table that matters.
MAX_FOLD_BYTES = 4 << 20
# Folding must not make the file grow: an Expand of a small constant stays an Expand.
MAX_GROWTH_BYTES = 1 << 16

# Operators whose every bit is settled, so that folding gives what the runtime would have given. Others (Softmax,
# MatMul) round in ways of their own, or mean something else in older operator sets; the runtime folds them itself.
_EXACT = {
    *("Cast", "Shape", "Size", "ConstantOfShape"),
    *("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Tile"),
    *("Concat", "Split", "Slice", "Gather", "GatherElements", "GatherND", "Where"),
    *("OneHot", "EyeLike", "NonZero", "Trilu", "ScatterElements", "ScatterND", "Pad", "Compress"),
    *("Add", "Sub", "Mul", "Div", "Neg", "Abs", "Sqrt", "Floor", "Ceil"),
    *("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Not"),
}
_EXACT_ON_INTEGERS = {"Mod", "Min", "Max", "Range", "CumSum", "ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"}


def constant_nodes(bench: Workbench, changes: list[str]) -> bool:
    """A Constant node's tensor becomes an initializer, as the other exporter writes it."""
    outputs = bench.output_ids()
    found = 0
    for graph in bench.graphs():
        for node in graph.nodes:
            if (
                node.op != "Constant"
                or not is_standard(node)
                or id(node.outputs[0]) in outputs
                or not node.outputs[0].outputs
            ):
                continue
            values = constant_values(node)
            if values is not None:
                replace_uses(node.outputs[0], gs.Constant(node.outputs[0].name, values))
                found += 1
    if found:
        changes.append(f"{found} Constant nodes are initializers now")
    return bool(found)


def fold_constants(bench: Workbench, changes: list[str]) -> bool:
    """Evaluate nodes whose inputs are all small constants, with ONNX's reference implementation."""
    outputs = bench.output_ids()
    found = []
    for graph in bench.graphs():
        for node in graph.nodes:
            if _is_foldable(node, outputs):
                results = _evaluate(node, bench.opset)
                if results is None:
                    continue
                for tensor, value in zip(node.outputs, results, strict=True):
                    replace_uses(tensor, gs.Constant(tensor.name, value))
                found.append(node_label(node))
    if found:
        changes.append(f"{len(found)} nodes of constants are folded")
    return bool(found)


def is_small_constant(tensor: gs.Tensor, limit: int = MAX_FOLD_BYTES) -> bool:
    """A constant that may be read: stored in the file itself, of a numpy type, and small."""
    if not isinstance(tensor, gs.Constant) or not isinstance(tensor.dtype, np.dtype) or byte_size(tensor) > limit:
        return False
    stored = getattr(tensor._values, "tensor", None)
    return not (isinstance(stored, onnx.TensorProto) and is_external(stored))


def _is_foldable(node: gs.Node, outputs: set[int]) -> bool:
    if not is_standard(node) or not node.inputs or node.op not in _EXACT | _EXACT_ON_INTEGERS:
        return False
    if any(id(tensor) in outputs or not tensor.outputs for tensor in node.outputs):
        return False
    given = [tensor for tensor in node.inputs if not tensor.is_empty()]
    if not all(is_small_constant(tensor) for tensor in given):
        return False
    if node.op in _EXACT_ON_INTEGERS and any(tensor.dtype.kind not in "iu" for tensor in given):
        return False
    allowed = max(MAX_GROWTH_BYTES, sum(map(byte_size, given)))
    for tensor in node.outputs:
        known = tensor.shape is not None and all(isinstance(d, int) for d in tensor.shape)
        if not known and node.op in ("ConstantOfShape", "Expand", "Tile", "Range"):
            return False
        if known and int(np.prod(tensor.shape, dtype=np.int64)) * 8 > allowed * 2:
            return False
    return True


def _evaluate(node: gs.Node, opset: int) -> list[np.ndarray] | None:
    inputs = {t.name: values_of(t) for t in node.inputs if isinstance(t, gs.Constant)}
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(write_node(node), opsets={"": opset}).run(None, inputs)
    except Exception:  # the reference doesn't cover every type: such a node simply stays
        return None
    arrays = [np.asarray(value) for value in results]
    fits = all(
        array.dtype.kind in "biuf" and tensor.dtype in (None, array.dtype)
        for array, tensor in zip(arrays, node.outputs, strict=True)
    )
    return arrays if fits else None
