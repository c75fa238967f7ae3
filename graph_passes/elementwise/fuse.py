"""The pass `fuse_elementwise`: connected nodes that are not matrix products become FusedElementwise nodes."""

from __future__ import annotations

from collections import deque

import onnx_graphsurgeon as gs

from dpiframe.custom_ops.elementwise_operators import FLOATS, OPERATORS
from dpiframe.graph_passes.conditions import LEGIBLE, SOUND
from dpiframe.graph_passes.elementwise.body import elementwise_body
from dpiframe.graph_passes.elementwise.first_input import with_first_input
from dpiframe.graph_passes.elementwise.gains import PRODUCTS, WAITING, absorbed, copies_better, why_not, work
from dpiframe.graph_passes.elementwise.groups import find_groups
from dpiframe.graph_passes.elementwise.lines import RefusedError
from dpiframe.graph_passes.elementwise.lower import Lowered, Lowering
from dpiframe.graph_passes.elementwise.program import ElementwiseProgram, Line
from dpiframe.graph_passes.elementwise.rows import Axes, fixed_batch
from dpiframe.graph_passes.elementwise.trim import given, halves, pieces, trimmed
from dpiframe.graph_passes.functions import DOMAIN, ELEMENTWISE, PoolExhaustedError, add_function
from dpiframe.graph_passes.graphs import Node, node_label, set_producer, tidy
from dpiframe.graph_passes.lookups.body import MIN_OPSET
from dpiframe.graph_passes.pass_base import Pass
from dpiframe.graph_passes.report import PassReport
from dpiframe.graph_passes.workbench import Workbench

INEXACT = {operator.name for operator in OPERATORS if not operator.exact}


class FuseElementwise(Pass):
    """Connected nodes that are not matrix products as one node (the paper's Section IV-D).

    1. Arithmetic, comparisons, Where, casts, activations with their broadcasting, of floats, integers and bools.
    2. Views and moves within a row: reshapes, transposes, slices, splits, joins, picks of constant indices.
    3. Reductions within a row, softmax, normalizations (BatchNormalization in inference form).
    4. Products that read each element of a row once: Gemm and MatMul with N = 1 or K = 1, a weighted sum of a row's
       vectors; and small products within a row.
    5. A row is what lies behind the batch axis, or behind a batch axis and one of dynamic length.

    Left alone: what mixes rows, matrix products, activations that ONNX Runtime fuses into a Gemm itself, values that
    would make a matrix product wait for what it doesn't need, and groups that save no kernel.
    """

    name = "fuse_elementwise"
    requires = LEGIBLE
    ensures = SOUND

    def run(self, bench: Workbench) -> PassReport:
        report = PassReport(self.name)
        if bench.opset < MIN_OPSET:
            return report
        # earlier passes' nodes have shapes now that their bodies tell
        bench.infer_shapes()
        batch = fixed_batch(bench)
        outputs = bench.output_ids()
        lowering = Lowering(bench.opset, batch, PRODUCTS[bench.provider], outputs)
        # nodes beside a group that is one now follow something else than before, and may go together
        while True:
            found = PassReport(self.name)
            for graph in bench.graphs():
                _fuse_graph(graph, bench, lowering, outputs, found)
            report.changes += found.changes
            if not found.changes:
                break
        report.refusals += found.refusals
        return report


def _fuse_graph(graph: gs.Graph, bench: Workbench, lowering: Lowering, outputs: set[int], report: PassReport) -> None:
    accepted = _accepted(graph, bench, lowering, report)
    groups = find_groups(graph, accepted, lambda nodes: work(nodes) <= WAITING[bench.provider])
    for group in groups:
        waiting = deque(pieces(trimmed(group.nodes, outputs)))
        while waiting:
            nodes = waiting.popleft()
            try:
                reason = _fuse(graph, bench, lowering, group.axes, nodes, outputs, report)
            except PoolExhaustedError as error:
                reason = str(error)
            except RefusedError as error:
                # each node is fine, so it is their number, or how they go together
                reason = None
                waiting.extendleft(halves(nodes)[::-1])
                if len(nodes) <= 2:
                    reason = str(error)
            if reason is not None and len(nodes) > 1:
                report.refuse(node_label(nodes[-1]), reason)
    tidy(graph)


def _accepted(graph: gs.Graph, bench: Workbench, lowering: Lowering, report: PassReport) -> dict[int, Axes]:
    accepted: dict[int, Axes] = {}
    for node in graph.nodes:
        if not lowering.knows(node):
            continue
        try:
            axes, program = lowering.alone(node)
        except RefusedError as error:
            if error.telling:
                report.refuse(node_label(node), str(error))
            continue
        if absorbed(node, accepted, bench.provider):
            report.refuse(node_label(node), "ONNX Runtime fuses it into the matrix product before it")
        elif bench.provider == "cpu" and copies_better(node, program):
            report.refuse(node_label(node), "ONNX Runtime moves its elements faster on a CPU")
        elif bench.exact and _rounds_otherwise(program):
            report.refuse(node_label(node), "its last bit can differ, and the answers then differ by more")
        elif bench.lose_nan and node.op in ("ReduceMax", "ReduceMin") and program.values[-1].type in FLOATS:
            report.refuse(node_label(node), "ONNX Runtime's own loses NaN, and the answers then differ")
        else:
            accepted[id(node)] = axes
    return accepted


def _rounds_otherwise(program: ElementwiseProgram) -> bool:
    """Its floats need not be ONNX Runtime's to the last bit: functions that aren't rounded correctly, and sums and
    products of many, whose order isn't settled."""
    lines = (value for value in program.values if isinstance(value, Line) and value.type in FLOATS)
    return any(line.name in ("sum", "prod") or line.name in INEXACT for line in lines)


def _fuse(
    graph: gs.Graph,
    bench: Workbench,
    lowering: Lowering,
    axes: Axes,
    nodes: list[Node],
    outputs: set[int],
    report: PassReport,
) -> str | None:
    """Put one node in the place of these; returns why not where that is no gain."""
    results = given(nodes, outputs)
    lowered = lowering.lower(axes, nodes, results)
    reason = why_not(nodes, lowered.program, results, bench.provider)
    if reason is not None:
        return reason
    if lowered.program.values[0].type == "f16":
        lowered = with_first_input(lowered, bench.new_name("not_float16"))
    name = _function(bench, lowered, nodes, results)
    label = bench.new_name(f"{ELEMENTWISE}_{results[0].name}")
    node = Node(name, name=label, attrs={"program": str(lowered.program)}, inputs=lowered.inputs, domain=DOMAIN)
    graph.nodes.append(node)
    for tensor in results:
        set_producer(tensor, node, gs.Variable(bench.new_name(tensor.name), tensor.dtype, tensor.shape))
    report.changes.append(f"{label}: {len(nodes)} nodes from {len(lowered.inputs)} inputs into {len(results)} outputs")
    return None


def _function(bench: Workbench, lowered: Lowered, nodes: list[Node], results: list[gs.Tensor]) -> str:
    body = elementwise_body(nodes, lowered.inputs, results)
    return add_function(bench, ELEMENTWISE, body.inputs, body.outputs, body.nodes, ["program"])
