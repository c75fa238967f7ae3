"""The function body of a FusedElementwise: the standard nodes that it replaced, with names that say nothing of the
model, so that equal structures share a body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx
import onnx_graphsurgeon as gs
from onnx import helper, numpy_helper

from dpiframe.graph_passes.graph_writer import write_node
from dpiframe.graph_passes.graphs import Node, values_of


@dataclass
class Body:
    """A function's parts. Constants that are no inputs are nodes in it."""

    inputs: list[str]
    outputs: list[str]
    nodes: list[onnx.NodeProto] = field(default_factory=list)


def elementwise_body(nodes: Sequence[Node], inputs: Sequence[gs.Tensor], outputs: Sequence[gs.Tensor]) -> Body:
    names = {id(tensor): f"input_{index}" for index, tensor in enumerate(inputs)}
    names |= {id(tensor): f"output_{index}" for index, tensor in enumerate(outputs)}
    body = Body([names[id(t)] for t in inputs], [names[id(t)] for t in outputs])
    constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
    for node in nodes:
        for tensor in node.inputs:
            if isinstance(tensor, gs.Constant) and id(tensor) not in names:
                names[id(tensor)] = _constant(body, constants, tensor)
        for tensor in node.outputs:
            if not tensor.is_empty():
                names.setdefault(id(tensor), f"value_{len(names)}")
        proto = write_node(node)
        del proto.input[:], proto.output[:], proto.metadata_props[:]
        proto.ClearField("name")
        proto.ClearField("doc_string")
        proto.ClearField("domain")
        proto.input.extend(names.get(id(tensor), "") for tensor in node.inputs)
        proto.output.extend(names.get(id(tensor), "") for tensor in node.outputs)
        body.nodes.append(proto)
    return body


def _constant(body: Body, constants: dict[tuple[str, tuple[int, ...], bytes], str], tensor: gs.Constant) -> str:
    values = values_of(tensor)
    key = (str(values.dtype), values.shape, values.tobytes())
    if key not in constants:
        constants[key] = f"constant_{len(constants)}"
        value = numpy_helper.from_array(values)
        body.nodes.append(helper.make_node("Constant", [], [constants[key]], value=value))
    return constants[key]
