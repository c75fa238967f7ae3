"""Fold what is known before the model runs, leaving tables alone."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx.reference import ReferenceEvaluator
from onnx_graphsurgeon.exporters.onnx_exporter import OnnxExporter

from dpiframe.graph_passes.model_io import is_external
from dpiframe.graph_passes.workbench import Workbench, byte_size, node_label, replace_uses

# Large enough for stacked expert weights, far too small for an embedding table that matters.
MAX_FOLD_BYTES = 4 << 20
# Folding must not make the file grow: an Expand of a small constant stays an Expand.
MAX_GROWTH_BYTES = 1 << 16

_NEVER = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}


def constant_nodes(bench: Workbench, changes: list[str]) -> bool:
    """A Constant node's tensor becomes an initializer, as the other exporter writes it (P3)."""
    outputs = bench.output_ids()
    found = 0
    for graph in bench.graphs():
        for node in graph.nodes:
            if node.op != "Constant" or node.domain not in (None, "", "ai.onnx") or id(node.outputs[0]) in outputs:
                continue
            values = _constant_values(node)
            if values is not None:
                replace_uses(node.outputs[0], gs.Constant(node.outputs[0].name, values))
                found += 1
    if found:
        changes.append(f"{found} Constant nodes are initializers now")
    return bool(found)


def _constant_values(node: gs.Node) -> object:
    attributes = node.attrs
    if "value" in attributes:
        return attributes["value"]._values
    for name, dtype in (
        ("value_int", np.int64),
        ("value_ints", np.int64),
        ("value_float", np.float32),
        ("value_floats", np.float32),
    ):
        if name in attributes:
            return np.array(attributes[name], dtype)
    return None


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
    if not isinstance(tensor, gs.Constant) or isinstance(tensor.dtype, int) or byte_size(tensor) > limit:
        return False
    proto = getattr(tensor._values, "tensor", None)
    return not (isinstance(proto, onnx.TensorProto) and is_external(proto))


def _is_foldable(node: gs.Node, outputs: set[int]) -> bool:
    if node.domain not in (None, "", "ai.onnx") or not node.inputs or node.op in _NEVER:
        return False
    if any(isinstance(value, gs.Graph) for value in node.attrs.values()):
        return False
    if any(id(tensor) in outputs or not tensor.outputs for tensor in node.outputs):
        return False
    if not all(tensor.is_empty() or is_small_constant(tensor) for tensor in node.inputs):
        return False
    allowed = max(MAX_GROWTH_BYTES, sum(byte_size(t) for t in node.inputs if isinstance(t, gs.Constant)))
    for tensor in node.outputs:
        known = tensor.shape is not None and all(isinstance(d, int) for d in tensor.shape)
        if not known and node.op in ("ConstantOfShape", "Expand", "Tile", "Range"):
            return False
        if known and int(np.prod(tensor.shape, dtype=np.int64)) * 8 > allowed * 2:
            return False
    return True


def _evaluate(node: gs.Node, opset: int) -> list[np.ndarray] | None:
    inputs = {t.name: np.asarray(t.values) for t in node.inputs if isinstance(t, gs.Constant)}
    try:
        evaluator = ReferenceEvaluator(OnnxExporter.export_node(node), opsets={"": opset})
        results = evaluator.run(None, inputs)
    except Exception:  # the reference doesn't cover every op and type: such a node simply stays
        return None
    if not all(isinstance(value, np.ndarray) or np.isscalar(value) for value in results):
        return None
    return [np.asarray(value) for value in results]
