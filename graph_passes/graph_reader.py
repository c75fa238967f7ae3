"""Graph protobufs as onnx-graphsurgeon graphs. No tensor's values are read, and nothing of the protobuf is lost or
changed."""

from __future__ import annotations

import functools
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.graphs import STANDARD_DOMAINS, Node, StoredValues, numpy_type

_Attribute = onnx.AttributeProto


def read_graph(
    proto: onnx.GraphProto, opset: int, overridable: bool = False, outer: dict[str, gs.Tensor] | None = None
) -> gs.Graph:
    """A graph whose `proto` is the protobuf and whose `constants` are its initializers.

    overridable: an initializer that is also a graph input is an input, as its value may be another one at run time.
    outer: the tensors that a subgraph sees around it.
    """
    types = {value.name: value for group in (proto.value_info, proto.output, proto.input) for value in group}
    inputs = {value.name for value in proto.input}
    scope: dict[str, gs.Tensor] = dict(outer or {})
    constants = []
    for tensor in proto.initializer:
        if tensor.name in inputs and overridable:
            continue
        scope[tensor.name] = gs.Constant(tensor.name, StoredValues(tensor))
        constants.append(scope[tensor.name])
    stored = {tensor.name for tensor in constants}
    for sparse in proto.sparse_initializer:
        # a value that is known to exist and never read
        dtype = numpy_type(sparse.values.data_type)
        scope[sparse.values.name] = gs.Variable(sparse.values.name, dtype, list(sparse.dims), "sparse_tensor_type")
    for name in inputs - stored:
        scope[name] = variable(name, types)
    for node in proto.node:
        for name in node.output:
            if name:
                scope[name] = variable(name, types)
    for value in proto.output:
        if value.name not in scope:
            scope[value.name] = variable(value.name, types)
    graph = gs.Graph(
        nodes=[_read_node(node, scope, opset) for node in proto.node],
        inputs=[scope[value.name] for value in proto.input if value.name not in stored],
        outputs=[scope[value.name] for value in proto.output],
        name=proto.name,
        opset=opset,
    )
    graph.proto = proto
    graph.constants = constants
    return graph


def variable(name: str, types: dict[str, onnx.ValueInfoProto]) -> gs.Variable:
    """A tensor of the type that its value_info states, if any."""
    result = gs.Variable(name)
    if name in types:
        set_type(result, types[name].type)
    return result


def set_type(tensor: gs.Variable, proto: onnx.TypeProto) -> None:
    """Take over a type: element type, shape (numbers, symbols, None) and kind. Sequences, optionals and maps have
    neither of the first two."""
    tensor.type = proto.WhichOneof("value") or "tensor_type"
    if tensor.type != "tensor_type":
        tensor.dtype = tensor.shape = None
        return
    tensor.dtype = numpy_type(proto.tensor_type.elem_type)
    tensor.shape = None
    if proto.tensor_type.HasField("shape"):
        tensor.shape = [_dimension(dim) for dim in proto.tensor_type.shape.dim]


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.HasField("dim_value"):
        # some exporters write -1 for a dimension that isn't known
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param or None


def _read_node(proto: onnx.NodeProto, scope: dict[str, gs.Tensor], opset: int) -> Node:
    attributes = {a.name: _read_attribute(a, scope, opset) for a in proto.attribute}
    inputs = []
    for name in proto.input:
        if name and name not in scope:
            scope[name] = gs.Variable(name)
        inputs.append(scope[name] if name else gs.Variable.empty())
    outputs = [scope[name] if name else gs.Variable.empty() for name in proto.output]
    return Node(
        proto.op_type,
        proto=proto,
        well_formed=_is_well_formed(proto, attributes, opset),
        name=proto.name,
        attrs=attributes,
        inputs=inputs,
        outputs=outputs,
        domain=proto.domain or None,
    )


def _is_well_formed(proto: onnx.NodeProto, attributes: dict[str, Any], opset: int) -> bool:
    needs = _needs(proto.op_type, opset) if proto.domain in STANDARD_DOMAINS else None
    if needs is None:
        return bool(proto.output)
    (fewest, most), outputs, required = needs
    given = len(proto.input)
    return fewest <= given <= most and 0 < len(proto.output) <= outputs and required <= attributes.keys()


@functools.cache
def _needs(op: str, opset: int) -> tuple[tuple[int, int], int, frozenset[str]] | None:
    """How many inputs and outputs an operator takes, and the attributes that it must have; None for one that ONNX
    doesn't have."""
    try:
        schema = onnx.defs.get_schema(op, max(1, opset))
    except onnx.defs.SchemaError:
        return None
    required = frozenset(name for name, attribute in schema.attributes.items() if attribute.required)
    return (schema.min_input, schema.max_input), schema.max_output, required


def _read_attribute(proto: onnx.AttributeProto, scope: dict[str, gs.Tensor], opset: int) -> Any:
    """A Python value; attributes of rarer types stay the protobuf that they are."""
    match proto.type:
        case _Attribute.FLOAT:
            return proto.f
        case _Attribute.INT:
            return proto.i
        case _Attribute.STRING:
            return _text(proto.s)
        case _Attribute.TENSOR:
            return gs.Constant(proto.t.name, StoredValues(proto.t))
        case _Attribute.GRAPH:
            return read_graph(proto.g, opset, outer=scope)
        case _Attribute.FLOATS:
            return list(proto.floats)
        case _Attribute.INTS:
            return list(proto.ints)
        case _Attribute.STRINGS:
            return [_text(s) for s in proto.strings]
    return proto


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
