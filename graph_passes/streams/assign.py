"""The pass `assign_streams`: fused nodes as one node, which runs independent branches on several streams."""

from __future__ import annotations

import onnx
import onnx_graphsurgeon as gs
from onnx import helper

from dpiframe.graph_passes.conditions import SOUND, nodes_are_in_order
from dpiframe.graph_passes.functions import DOMAIN, REGION, PoolExhaustedError, add_function, op_of
from dpiframe.graph_passes.graphs import Node, detach, node_label, set_producer, tidy
from dpiframe.graph_passes.pass_base import Pass
from dpiframe.graph_passes.report import PassReport
from dpiframe.graph_passes.streams.costs import cost_of
from dpiframe.graph_passes.streams.program import RegionNode, RegionProgram
from dpiframe.graph_passes.streams.regions import find_regions
from dpiframe.graph_passes.streams.schedule import Schedule, Task, schedule
from dpiframe.graph_passes.workbench import Workbench

DEFAULT_STREAMS = 4
"""At most, where nobody asks for another number."""
LEAST_GAIN = 0.08
"""Of the time on one stream: forks and joins cost about as much as this in small regions."""


class AssignStreams(Pass):
    """Fused nodes in one launch, independent branches alternately on several streams (the paper's Section IV-E,
    Algorithm 2; CUDA only).

    1. A region is every fused node between the same other nodes. It is one ParallelRegion node; its body calls the
       fused ops with `dpiframe.stream` and `dpiframe.order` in their metadata.
    2. Branches that don't need each other (explicit and implicit modules, towers, experts; nested and more than two as
       well) have a stream of their own, 4 at most; the costly ones choose first, a branch stays on its predecessor's.
    3. Branches are launched alternately, an operator of each a round, the branch with more operators first.
    4. A region in which too little can run at the same time has one stream.

    Left alone: nodes that are not fused, and a fused node that has no other beside it.
    """

    name = "assign_streams"
    requires = (nodes_are_in_order,)
    ensures = SOUND

    def run(self, bench: Workbench) -> PassReport:
        report = PassReport(self.name)
        if bench.provider != "cuda":
            return report
        for graph in bench.graphs():
            for nodes in find_regions(graph):
                if len(nodes) > 1:
                    _consider(graph, bench, nodes, report)
            tidy(graph)
        return report


def _consider(graph: gs.Graph, bench: Workbench, nodes: list[gs.Node], report: PassReport) -> None:
    place = {id(node): index for index, node in enumerate(nodes)}
    tasks = [
        Task(
            cost_of(node),
            tuple(sorted({place[id(p)] for tensor in node.inputs for p in tensor.inputs if id(p) in place})),
        )
        for node in nodes
    ]
    plan = schedule(tasks, bench.streams or DEFAULT_STREAMS, bench.launch_order)
    if bench.streams == 0 and plan.makespan > (1 - LEAST_GAIN) * plan.serial:
        plan = schedule(tasks, 1, bench.launch_order)
    try:
        _replace(graph, bench, nodes, plan, report)
    except PoolExhaustedError as error:
        report.refuse(node_label(nodes[0]), str(error))


def _replace(graph: gs.Graph, bench: Workbench, nodes: list[gs.Node], plan: Schedule, report: PassReport) -> None:
    inside = {id(node) for node in nodes}
    outputs = bench.output_ids()
    made = {id(tensor) for node in nodes for tensor in node.outputs}
    given = list({id(t): t for node in nodes for t in node.inputs if id(t) not in made}.values())
    taken = [
        tensor
        for node in nodes
        for tensor in node.outputs
        if id(tensor) in outputs or any(id(reader) not in inside for reader in tensor.outputs)
    ]
    values = {id(tensor): index for index, tensor in enumerate(given)}
    program = RegionProgram(len(given), plan.streams)
    calls = []
    for order, launch in enumerate(plan.launches):
        node = nodes[launch.task]
        results = tuple(values.setdefault(id(tensor), len(values)) for tensor in node.outputs)
        operands = tuple(values[id(tensor)] for tensor in node.inputs)
        label = node_label(node)
        op = op_of(node)
        assert op is not None
        program.nodes.append(RegionNode(op, launch.stream, operands, results, label, node.attrs["program"]))
        calls.append(_call(node, label, operands, results, launch.stream, order))
    program.outputs = [values[id(tensor)] for tensor in taken]
    name = add_function(
        bench,
        REGION,
        [_value(index) for index in range(len(given))],
        [_value(index) for index in program.outputs],
        calls,
        ["program"],
    )
    label = bench.new_name(f"{REGION}_{taken[0].name}")
    region = Node(name, name=label, attrs={"program": str(program)}, inputs=given, domain=DOMAIN)
    graph.nodes.append(region)
    for tensor in taken:
        set_producer(tensor, region, gs.Variable(bench.new_name(tensor.name), tensor.dtype, tensor.shape))
    detach(nodes)
    report.changes.append(f"{label}: {len(nodes)} nodes on {plan.streams} stream{'s' * (plan.streams > 1)}")


def _value(index: int) -> str:
    return f"value_{index}"


def _call(
    node: gs.Node, label: str, operands: tuple[int, ...], results: tuple[int, ...], stream: int, order: int
) -> onnx.NodeProto:
    call = helper.make_node(
        node.op,
        [_value(index) for index in operands],
        [_value(index) for index in results],
        name=label,
        domain=DOMAIN,
        program=node.attrs["program"],
    )
    for key, number in (("stream", stream), ("order", order)):
        call.metadata_props.add(key=f"{DOMAIN}.{key}", value=str(number))
    return call
