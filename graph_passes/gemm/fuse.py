"""The pass `fuse_gemm`: products with constant weights, with all that is done to each element after them."""

from __future__ import annotations

import onnx_graphsurgeon as gs

from dpiframe.graph_passes.functions import DOMAIN, PoolExhaustedError, add_function
from dpiframe.graph_passes.gemm.body import MIN_OPSET, OUTPUT, body_inputs, gemm_body
from dpiframe.graph_passes.gemm.epilogue import Operation, addition, following
from dpiframe.graph_passes.gemm.product import NotSupportedError, Product, match_product
from dpiframe.graph_passes.gemm.program import MAX_STEPS, GemmProgram, Step
from dpiframe.graph_passes.graphs import Node, detach, node_label, reads, set_producer, tidy
from dpiframe.graph_passes.pass_base import Pass
from dpiframe.graph_passes.report import PassReport
from dpiframe.graph_passes.workbench import Workbench

OP = "FusedGemm"
Chain = tuple[list[Operation], list[gs.Node], gs.Tensor]


class FuseGemm(Pass):
    """A product, its bias, its activation and what else is done to its elements, as one node (CUDA only).

    1. The product is a Gemm or MatMul with a constant float32 weight, in either layout, of any leading axes (P2); its
       left operand may be flattened for it (P7).
    2. Vectors, columns and matrices of the product's shape are added, subtracted and multiplied: biases, residual adds,
       gates, a cross layer's x0 * (x W + b) + x with the bias in either place (P21).
    3. Activations: Relu, LeakyRelu, PRelu, Sigmoid, Tanh, Gelu, x * Sigmoid(x).
    4. A BatchNormalization is a scale and a shift (P18).

    Left alone: products with one column, which chains of other operators take in, what reads a product twice, and
    operands that are ready only after more products than it takes to get here: the product would wait for them.
    """

    name = "fuse_gemm"

    def run(self, bench: Workbench) -> PassReport:
        report = PassReport(self.name)
        if bench.provider != "cuda":
            # on a CPU, ONNX Runtime's own products with activations are as fast
            return report
        outputs = bench.output_ids()
        for graph in bench.graphs():
            depth = product_depths(graph)
            for node in list(graph.nodes):
                try:
                    product = match_product(node)
                    if product is not None:
                        _replace(graph, bench, product, _chain(product, outputs, depth), report)
                except (NotSupportedError, PoolExhaustedError) as refusal:
                    report.refuse(node_label(node), str(refusal))
            tidy(graph)
        return report


def product_depths(graph: gs.Graph) -> dict[int, int]:
    """By id(tensor): how many products lie one after the other on the way to it, at most."""
    depth: dict[int, int] = {}
    for node in graph.nodes:
        before = max((depth.get(id(tensor), 0) for tensor in reads(node)), default=0)
        for tensor in node.outputs:
            depth[id(tensor)] = before + (node.op in ("MatMul", "Gemm"))
    return depth


def _replace(graph: gs.Graph, bench: Workbench, product: Product, chain: Chain, report: PassReport) -> None:
    if bench.opset < MIN_OPSET:
        raise NotSupportedError(f"opset {bench.opset} is older than {MIN_OPSET}: convert the model first")
    operations, nodes, result = chain
    inputs = [product.left, product.weight]
    steps = []
    for operation in operations:
        if operation.operand is None:
            steps.append(Step(operation.op, number=operation.number))
            continue
        steps.append(Step(operation.op, operation.kind, len(inputs)))
        inputs.append(_stored(bench, operation.operand))
    program = GemmProgram(bench.precision, product.layout, product.k, product.n, tuple(steps), product.left_axes)
    body = gemm_body(program, len(product.left.shape))
    name = add_function(bench, OP, body_inputs(program), [OUTPUT], body, ["program"])
    label = bench.new_name(f"{OP}_{result.name}")
    fused = Node(name, name=label, attrs={"program": str(program)}, inputs=inputs, domain=DOMAIN)
    graph.nodes.append(fused)
    set_producer(result, fused, gs.Variable(bench.new_name(result.name), result.dtype, result.shape))
    detach([product.node, *nodes])
    also = f" with {', '.join(node.op for node in nodes)}" if nodes else ""
    report.changes.append(f"{label}: {product.k} x {product.n}{also}")


def _chain(product: Product, outputs: set[int], depth: dict[int, int]) -> Chain:
    """The operations after a product, the nodes that they stand for, and the tensor that they give."""
    value = product.node.outputs[0]
    operations: list[Operation] = []
    nodes: list[gs.Node] = []
    if product.addend is not None:
        operations = addition(value, product.addend)
        if not operations:
            raise NotSupportedError(f"what it adds has shape {product.addend.shape}")
    here = depth[id(value)]
    while (then := following(value, outputs)) is not None and len(operations) + len(then.operations) <= MAX_STEPS:
        if any(depth.get(id(operation.operand), 0) > here for operation in then.operations):
            break
        operations += then.operations
        nodes += then.nodes
        value = then.result
    return operations, nodes, value


def _stored(bench: Workbench, operand: gs.Tensor) -> gs.Tensor:
    """An operand with a name of its own, if the epilogue made it."""
    if isinstance(operand, gs.Constant) and not operand.outputs:
        operand.name = bench.new_name(operand.name)
    return operand
