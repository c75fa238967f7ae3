"""What a fused node costs on a GPU, in microseconds, roughly: enough to tell branches worth a stream from others."""

from __future__ import annotations

import math

import onnx_graphsurgeon as gs

from dpiframe.graph_passes.functions import GEMM, op_of

ROWS = 512
"""Of a batch whose size isn't known: at ten times as many each kernel fills the card by itself."""
LAUNCH_US = 2.0
BYTES_A_US = 3e6
FLOPS_A_US = 1e8


def cost_of(node: gs.Node) -> float:
    """A launch, the bytes of the node's outputs and row inputs, and a product's arithmetic."""
    moved = sum(_bytes(tensor) for tensor in (*node.inputs, *node.outputs) if not isinstance(tensor, gs.Constant))
    return LAUNCH_US + moved / BYTES_A_US + _flops(node) / FLOPS_A_US


def _bytes(tensor: gs.Tensor) -> float:
    return 4.0 * _elements(tensor)


def _elements(tensor: gs.Tensor) -> int:
    if tensor.shape is None:
        return ROWS
    return math.prod(size if isinstance(size, int) else ROWS for size in tensor.shape)


def _flops(node: gs.Node) -> float:
    if op_of(node) != GEMM:
        return 0.0
    rows = _elements(node.outputs[0]) / node.outputs[0].shape[-1]
    return 2.0 * rows * _elements(node.inputs[1])
