"""What a provider gains by a group: kernels of ONNX Runtime's that it saves, and what it costs to compute it here."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence

import onnx_graphsurgeon as gs

from dpiframe.graph_passes.elementwise.cpu_times import NODE, PASS, lost
from dpiframe.graph_passes.elementwise.program import ElementwiseProgram
from dpiframe.graph_passes.elementwise.views import IN_PLACE, VIEWS
from dpiframe.graph_passes.graphs import Node, is_standard

PRODUCTS = {"cpu": 1 << 17, "cuda": 1 << 14}
"""Products a row up to which two row values are multiplied as matrices here. Measured: up to there, what a matrix costs
a library before it computes anything, and the transposition before it, are more than what the library gains."""
WAITING = {"cpu": math.inf, "cuda": 2048}
"""Elements a row up to which early nodes may wait for a later group. On a GPU, more of them are worth a launch of their
own, which can run beside what the others wait for."""

_GEMM_ACTIVATIONS = {"Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "HardSigmoid", "Softplus", "Softsign"}
_BATCHES = (32, 256)
_KERNELS = {"Mish": 3, "HardSwish": 2, "Celu": 2, "ReduceLogSum": 2}
"""Operators that ONNX Runtime has no kernel for, and so runs as several."""


def absorbed(node: Node, accepted: Container[int], provider: str) -> bool:
    """ONNX Runtime fuses the node into the matrix product before it: on a CPU an activation, and the addition of
    weights, to what has two axes."""
    if provider != "cpu":
        return False
    if node.op in _GEMM_ACTIVATIONS:
        producer = _only_producer(node.inputs[0])
        if producer is None or id(producer) in accepted:
            return False
        if producer.op == "Add":
            return _is_matrix(node.inputs[0]) and absorbed(producer, accepted, provider)
        return producer.op in ("Gemm", "Conv")
    if node.op == "Add":
        for product, weights in (node.inputs, node.inputs[::-1]):
            producer = _only_producer(product)
            if producer is not None and producer.op == "MatMul" and id(producer) not in accepted:
                constant = isinstance(weights, gs.Constant) and isinstance(producer.inputs[1], gs.Constant)
                return constant and (_is_matrix(product) or _is_fixed(product))
    return False


def _is_matrix(tensor: gs.Tensor) -> bool:
    return tensor.shape is None or len(tensor.shape) == 2


def _is_fixed(tensor: gs.Tensor) -> bool:
    """All of its sizes are known: then ONNX Runtime lays out what has more axes as a matrix."""
    return all(isinstance(size, int) for size in tensor.shape)


def kernels(nodes: Sequence[Node], provider: str) -> int:
    """How many kernels ONNX Runtime would run for these nodes."""
    inside = {id(node) for node in nodes}
    count = 0
    for node in nodes:
        if node.op in IN_PLACE:
            continue
        if provider == "cpu" and node.op in _GEMM_ACTIVATIONS:
            producer = _only_producer(node.inputs[0])
            if producer is not None and producer.op == "Gemm" and id(producer) in inside:
                continue
        if provider == "cpu" and _is_gate_of_itself(node):
            continue
        count += _KERNELS.get(node.op, 1)
    return count


def _is_gate_of_itself(node: Node) -> bool:
    """The sigmoid of x * sigmoid(x), which ONNX Runtime computes at once on a CPU."""
    readers = node.outputs[0].outputs
    if node.op != "Sigmoid" or len(readers) != 1 or readers[0].op != "Mul":
        return False
    return any(tensor is node.inputs[0] for tensor in readers[0].inputs)


def work(nodes: Sequence[Node]) -> int:
    """Elements a row that these nodes read or make."""
    return sum(
        max(_elements(tensor) for tensor in (*node.inputs, *node.outputs) if not isinstance(tensor, gs.Constant))
        for node in nodes
        if node.op not in IN_PLACE
    )


def why_not(
    nodes: Sequence[Node], program: ElementwiseProgram, results: Sequence[gs.Tensor], provider: str
) -> str | None:
    """Why the group is better left to ONNX Runtime; None where it isn't. results: what the group gives."""
    count = kernels(nodes, provider)
    # a view launches nothing, but costs a GPU's host as much as any node
    saved = max(count, len(nodes)) if provider == "cuda" else count
    if count == 0 or saved < 2:
        return "ONNX Runtime runs it as one kernel"
    if provider == "cpu" and _nanoseconds_saved(nodes, program, results, count) < 0:
        return "ONNX Runtime is as fast on a CPU"
    return None


def copies_better(node: Node, program: ElementwiseProgram) -> bool:
    """On a CPU, ONNX Runtime moves this node's elements faster than the kernel reads them one by one."""
    return node.op in VIEWS and lost(program) > NODE / _BATCHES[0]


def _nanoseconds_saved(
    nodes: Sequence[Node], program: ElementwiseProgram, results: Sequence[gs.Tensor], count: int
) -> float:
    """By the whole group, at the batch at which it saves least."""
    given = {id(tensor) for tensor in results}
    between = sum(
        _elements(tensor)
        for node in nodes
        if node.op not in IN_PLACE
        for tensor in node.outputs
        if id(tensor) not in given
    )
    per_row = PASS * between - lost(program)
    return min(NODE * (count - 1) + batch * per_row for batch in _BATCHES)


def _elements(tensor: gs.Tensor) -> int:
    return math.prod(dim for dim in tensor.shape or () if isinstance(dim, int))


def _only_producer(tensor: gs.Tensor) -> Node | None:
    """The standard node that makes a tensor for a single reader."""
    if len(tensor.outputs) != 1 or not tensor.inputs or not is_standard(tensor.inputs[0]):
        return None
    return tensor.inputs[0]
