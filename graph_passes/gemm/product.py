"""Which nodes are products that a FusedGemm can compute: a left operand with rows, times a constant weight."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.graphs import is_standard

FLOAT32 = np.dtype(np.float32)
MAX_LEFT_AXES = 8


@dataclass
class Product:
    """`node` computes left x weight: [leading axes..., K] with [N, K] (layout `nk`) or [K, N] (`kn`). addend: what a
    Gemm adds to it. left_axes: how many of the left operand's last axes make up K, where the node read them flattened.
    """

    node: gs.Node
    left: gs.Tensor
    weight: gs.Constant
    layout: str
    k: int
    n: int
    addend: gs.Tensor | None = None
    left_axes: int = 1


class NotSupportedError(Exception):
    """A product that looks like a match and isn't: the message says why."""


def match_product(node: gs.Node) -> Product | None:
    """The product that a node computes, None where it computes something else. Raises NotSupportedError."""
    if not is_standard(node) or not node.well_formed or node.op not in ("MatMul", "Gemm"):
        return None
    left, weight = node.inputs[:2]
    if not isinstance(weight, gs.Constant):
        return None
    if weight.dtype != FLOAT32 or left.dtype != FLOAT32:
        raise NotSupportedError(f"its types are {left.dtype} and {weight.dtype}, not float32")
    if weight.shape is None or len(weight.shape) != 2:
        raise NotSupportedError("its weight has not two axes")
    layout, addend = "kn", None
    if node.op == "Gemm":
        _check_gemm(node)
        layout = "nk" if node.attrs.get("transB", 0) else "kn"
        addend = node.inputs[2] if len(node.inputs) > 2 and not node.inputs[2].is_empty() else None
    n, k = weight.shape if layout == "nk" else weight.shape[::-1]
    if n == 1 or k == 1:
        # a sum of products, or a scaled row: chains of other operators take these in
        return None
    if 0 in (n, k):
        raise NotSupportedError("its weight is empty")
    if left.shape is None or len(left.shape) < 2 or left.shape[-1] != k:
        raise NotSupportedError("the shape of its left operand is unknown")
    left, left_axes = _before_flattening(left)
    return Product(node, left, weight, layout, k, n, addend, left_axes)


def _before_flattening(left: gs.Tensor) -> tuple[gs.Tensor, int]:
    """What a left operand was before its last axes were made one, and how many these are there: the same bytes."""
    producer = left.inputs[0] if left.inputs else None
    if producer is None or producer.op not in ("Reshape", "Flatten", "Squeeze") or not is_standard(producer):
        return left, 1
    source = producer.inputs[0]
    leading = len(left.shape) - 1
    if source.shape is None or len(source.shape) <= leading or isinstance(source, gs.Constant):
        return left, 1
    last = list(source.shape)[leading:]
    same_rows = None not in left.shape and list(source.shape)[:leading] == list(left.shape)[:leading]
    if not same_rows or len(last) > MAX_LEFT_AXES or not all(isinstance(size, int) for size in last):
        return left, 1
    return (source, len(last)) if math.prod(last) == left.shape[-1] else (left, 1)


def _check_gemm(node: gs.Node) -> None:
    if node.attrs.get("transA", 0):
        raise NotSupportedError("its left operand is transposed")
    adds = len(node.inputs) > 2 and not node.inputs[2].is_empty()
    if node.attrs.get("alpha", 1.0) != 1.0 or (adds and node.attrs.get("beta", 1.0) != 1.0):
        raise NotSupportedError("it scales the product or what it adds (alpha, beta)")
