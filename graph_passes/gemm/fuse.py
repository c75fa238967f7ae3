"""The pass `fuse_gemm`: products with constant weights, with all that is done to each element after them."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.conditions import LEGIBLE, SOUND
from dpiframe.graph_passes.functions import DOMAIN, GEMM, PoolExhaustedError, add_function
from dpiframe.graph_passes.gemm.body import MIN_OPSET, OUTPUT, body_inputs, gemm_body
from dpiframe.graph_passes.gemm.bundle import Bundle, bundle_constants, bundle_program, find_bundles, unread_members
from dpiframe.graph_passes.gemm.chains import products_behind
from dpiframe.graph_passes.gemm.epilogue import Operation, addition, following
from dpiframe.graph_passes.gemm.pointwise import multiply_channels
from dpiframe.graph_passes.gemm.product import NotSupportedError, Product, match_product
from dpiframe.graph_passes.gemm.program import MAX_STEPS, GemmProgram, Step
from dpiframe.graph_passes.graphs import Node, detach, node_label, reads, set_producer, tidy
from dpiframe.graph_passes.pass_base import Pass
from dpiframe.graph_passes.report import PassReport
from dpiframe.graph_passes.workbench import Workbench

Chain = tuple[list[Operation], list[gs.Node], gs.Tensor]


class FuseGemm(Pass):
    """A product, its bias, its activation and what else is done to its elements, as one node (CUDA only).

    1. The product is a Gemm or MatMul with a constant float32 weight, in either layout, of any leading axes; its left
       operand may be flattened for it, or be a part of rows.
    2. Vectors, columns and matrices of the product's shape are added, subtracted and multiplied: biases, residual adds,
       gates, a cross layer's x0 * (x W + b) + x with the bias in either place.
    3. Activations: Relu, LeakyRelu, PRelu, Sigmoid, Tanh, Gelu, x * Sigmoid(x).
    4. A BatchNormalization is a scale and a shift.
    5. Products that share their left operand, or take parts of the same rows, and are followed by the same operations
       with constants, are one product: experts, tasks' heads, projections, pairs of fields.
    6. What mixes channels place by place, between chains that can move these, is a product: a convolution of kernel
       size 1, a weight on the left of a matrix.

    Left alone: products with one column, which chains of other operators take in, what reads a product twice, and
    operands that are ready only after more products than it takes to get here: the product would wait for them.
    """

    name = "fuse_gemm"
    requires = LEGIBLE
    ensures = SOUND

    def run(self, bench: Workbench) -> PassReport:
        report = PassReport(self.name)
        if bench.provider != "cuda":
            # on a CPU, ONNX Runtime's own products with activations are as fast
            return report
        outputs = bench.output_ids() | _captured(bench)
        for graph in bench.graphs():
            if bench.opset >= MIN_OPSET:
                found = multiply_channels(bench, graph, outputs)
                if found:
                    report.changes.append(f"{found} mixtures of channels are products of rows")
                _bundle(graph, bench, outputs, report)
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


def _captured(bench: Workbench) -> set[int]:
    """id() of every tensor that a subgraph reads from around it: what is done to it there stays there."""
    captured: set[int] = set()
    for graph in bench.graphs():
        own = {id(node) for node in graph.nodes}
        captured |= {
            id(tensor)
            for node in graph.nodes
            for tensor in node.inputs
            if any(id(producer) not in own for producer in tensor.inputs)
        }
    return captured


def product_depths(graph: gs.Graph) -> dict[int, int]:
    """By id(tensor): how many products lie one after the other on the way to it, at most."""
    depth: dict[int, int] = {}
    for node in graph.nodes:
        before = max((depth.get(id(tensor), 0) for tensor in reads(node)), default=0)
        for tensor in node.outputs:
            depth[id(tensor)] = before + (node.op in ("MatMul", "Gemm"))
    return depth


def _bundle(graph: gs.Graph, bench: Workbench, outputs: set[int], report: PassReport) -> None:
    """Bundles, and bundles of products that read parts of what these give."""
    nodes, own = graph.nodes, {id(node) for node in graph.nodes}
    while bundles := list(find_bundles(nodes, outputs)):
        for bundle in bundles:
            try:
                _replace_bundle(graph, bench, bundle, report)
            except PoolExhaustedError as refusal:
                report.refuse(node_label(bundle.members[0].product.node), str(refusal))
                return
        behind = products_behind(member.result for bundle in bundles for member in bundle.members)
        nodes = [node for node in behind if id(node) in own]
    tidy(graph)
    for node in unread_members(graph):
        report.refuse(node_label(node), "its weight is in another file or large, and can't be put beside others'")


def _replace_bundle(graph: gs.Graph, bench: Workbench, bundle: Bundle, report: PassReport) -> None:
    program, first = bundle_program(bundle, bench.precision), bundle.members[0]
    result, source, leading = first.result, first.part.source, first.part.leading
    constants = [
        gs.Constant(bench.new_name(f"{result.name}_{name}"), values)
        for name, values in zip(body_inputs(program)[1:], bundle_constants(bundle), strict=True)
    ]
    whole = gs.Variable(
        bench.new_name(f"{result.name}_side_by_side"), result.dtype, [*source.shape[:leading], program.n]
    )
    label = _append(graph, bench, program, [source, *constants], whole)
    ones = list(range(leading, len(result.shape) - 1))
    if ones:
        name = bench.new_name(f"{whole.name}_view")
        view = gs.Variable(name, whole.dtype, [*result.shape[:-1], program.n])
        graph.nodes.append(Node("Unsqueeze", name=name, inputs=[whole, _integers(bench, name, ones)], outputs=[view]))
        whole = view
    _divide(graph, bench, whole, bundle)
    detach(node for member in bundle.members for node in member.nodes)
    also = f" with {', '.join(node.op for node in first.nodes[1:])}" if first.nodes[1:] else ""
    report.changes.append(f"{label}: {len(bundle.members)} products of the same rows{also}")


def _divide(graph: gs.Graph, bench: Workbench, whole: gs.Tensor, bundle: Bundle) -> None:
    """The members' results as parts of a whole.

    Each as a slice of its own where chains take these in, so that none of them waits for what another one takes in;
    by one node where a kernel has to do it, or one chain follows all members.
    """
    axis = len(whole.shape) - 1
    results = [member.result for member in bundle.members]
    if bundle.cut or not bundle.absorbed:
        name = bench.new_name(f"{whole.name}_split")
        split = Node("Split", name=name, attrs={"axis": axis}, inputs=[whole, _integers(bench, name, bundle.columns)])
        nodes = [split] * len(results)
    else:
        nodes = []
        for result, n, end in zip(results, bundle.columns, accumulate(bundle.columns), strict=True):
            name = bench.new_name(f"{result.name}_slice")
            bounds = [_integers(bench, name, [value]) for value in (end - n, end, axis)]
            nodes.append(Node("Slice", name=name, inputs=[whole, *bounds]))
    graph.nodes.extend(dict.fromkeys(nodes))
    for result, node in zip(results, nodes, strict=True):
        set_producer(result, node, gs.Variable(bench.new_name(result.name), result.dtype, result.shape))


def _integers(bench: Workbench, name: str, values: list[int]) -> gs.Constant:
    return gs.Constant(bench.new_name(f"{name}_integers"), np.array(values, np.int64))


def _append(graph: gs.Graph, bench: Workbench, program: GemmProgram, inputs: list[gs.Tensor], result: gs.Tensor) -> str:
    """A FusedGemm that gives a result, which another node may have given before; returns its name."""
    body = gemm_body(program, len(inputs[0].shape))
    name = add_function(bench, GEMM, body_inputs(program), [OUTPUT], body, ["program"])
    label = bench.new_name(f"{GEMM}_{result.name}")
    fused = Node(name, name=label, attrs={"program": str(program)}, inputs=inputs, domain=DOMAIN)
    graph.nodes.append(fused)
    set_producer(result, fused, gs.Variable(bench.new_name(result.name), result.dtype, result.shape))
    return label


def _replace(graph: gs.Graph, bench: Workbench, product: Product, chain: Chain, report: PassReport) -> None:
    if bench.opset < MIN_OPSET:
        raise NotSupportedError(f"opset {bench.opset} is older than {MIN_OPSET}: convert the model first")
    operations, nodes, result = chain
    left = product.left
    inputs = [left.source, product.weight]
    steps = []
    for operation in operations:
        if operation.operand is None:
            steps.append(Step(operation.op, number=operation.number))
            continue
        steps.append(Step(operation.op, operation.kind, len(inputs)))
        inputs.append(_stored(bench, operation.operand))
    form = (product.layout, product.k, product.n, tuple(steps), left.left_axes, left.row, (left.begin,))
    label = _append(graph, bench, GemmProgram(bench.precision, *form), inputs, result)
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
