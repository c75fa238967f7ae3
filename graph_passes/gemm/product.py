"""Which nodes are products that a FusedGemm can compute: a left operand with rows, times a constant weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.gemm.parts import Part, find_part
from dpiframe.graph_passes.graphs import is_standard

FLOAT32 = np.dtype(np.float32)


@dataclass
class Product:
    """`node` computes left x weight: [leading axes..., K] with [N, K] (layout `nk`) or [K, N] (`kn`). left: where these
    values of K lie. addend: what a Gemm adds to the product."""

    node: gs.Node
    left: Part
    weight: gs.Constant
    layout: str
    k: int
    n: int
    addend: gs.Tensor | None = None


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
    if node.outputs[0].shape is None:
        raise NotSupportedError("the shape of its result is unknown")
    return Product(node, _part_of(left), weight, layout, k, n, addend)


def _part_of(left: gs.Tensor) -> Part:
    """What a left operand is a view or a part of. Parts that can't be read by 16 bytes, though the operand can, aren't
    taken."""
    leading, k = len(left.shape) - 1, left.shape[-1]
    part = find_part(left, leading)
    if k % 4 == 0 and (part.begin % 4 or part.row % 4):
        part = find_part(left, leading, whole_rows=True)
    return part


def _check_gemm(node: gs.Node) -> None:
    if node.attrs.get("transA", 0):
        raise NotSupportedError("its left operand is transposed")
    adds = len(node.inputs) > 2 and not node.inputs[2].is_empty()
    if node.attrs.get("alpha", 1.0) != 1.0 or (adds and node.attrs.get("beta", 1.0) != 1.0):
        raise NotSupportedError("it scales the product or what it adds (alpha, beta)")
