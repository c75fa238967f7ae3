"""Other streams and another launch order for the regions of a model that is optimized already."""

from __future__ import annotations

import onnx
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.cleanup import Cleanup
from dpiframe.graph_passes.functions import DOMAIN, REGION, op_of
from dpiframe.graph_passes.graphs import Node, drop, set_producer, tidy
from dpiframe.graph_passes.metadata import properties, set_properties
from dpiframe.graph_passes.streams.assign import AssignStreams
from dpiframe.graph_passes.streams.schedule import Order
from dpiframe.graph_passes.workbench import Workbench


def replan(model: onnx.ModelProto, streams: int, order: Order) -> onnx.ModelProto:
    """The model with its fused nodes in regions of at most `streams` streams, launched by `order`; its own protobuf is
    not changed."""
    bench = Workbench(model, provider="cuda", streams=streams, launch_order=order)
    for graph in bench.graphs():
        for node in [node for node in graph.nodes if op_of(node) == REGION]:
            _take_apart(graph, bench, node)
        tidy(graph)
    for kind in (Cleanup, AssignStreams, Cleanup):
        if kind is AssignStreams:
            bench.infer_shapes()
        kind()(bench)
    result = bench.to_model()
    set_properties(result, properties(model))
    return result


def _take_apart(graph: gs.Graph, bench: Workbench, region: gs.Node) -> None:
    """The calls of a region's body in its place."""
    function = bench.functions[(DOMAIN, region.op, "")]
    values: dict[str, gs.Tensor] = dict(zip(function.input, region.inputs, strict=True))
    taken = dict(zip(function.output, region.outputs, strict=True))
    drop(graph, [region])
    for call in function.node:
        for name in call.output:
            values[name] = taken[name] if name in taken else gs.Variable(bench.new_name(f"{call.name}_output"))
        program = next(onnx.helper.get_attribute_value(a).decode() for a in call.attribute if a.name == "program")
        node = Node(
            call.op_type,
            name=call.name,
            attrs={"program": program},
            inputs=[values[name] for name in call.input],
            domain=DOMAIN,
        )
        graph.nodes.append(node)
        for name in call.output:
            set_producer(values[name], node, gs.Variable(bench.new_name(values[name].name)))
