"""onnx-graphsurgeon graphs as protobufs again. What passes didn't touch is written as it was read, tables by
reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx
import onnx_graphsurgeon as gs
from google.protobuf.message import Message
from onnx import helper, numpy_helper

from dpiframe.graph_passes.graphs import Node, byte_size, is_standard, values_of
from dpiframe.graph_passes.model_io import is_external

Dim = int | str | None

# Shape inference needs small constants (axes, shapes); anything larger is withheld from it.
_SMALL_TENSOR_BYTES = 1 << 14


class GraphWriter:
    """Writes a model's main graph with its subgraphs.

    owned: id() of every constant that some graph of the model holds as an initializer; such a constant is written
    there, any other one in the outermost graph whose nodes read it. known: given, the graph is written as a skeleton
    for shape inference: large values are withheld, and no tensor says its shape but those whose id() is here, so that
    inference finds shapes rather than believing them.
    """

    def __init__(self, owned: set[int], known: Mapping[int, gs.Variable] | None = None) -> None:
        self._owned = owned
        self._known = known or {}
        self._skeleton = known is not None

    def write(self, graph: gs.Graph, written: frozenset[int] = frozenset()) -> onnx.GraphProto:
        """One graph. written: id() of the constants that outer graphs hold."""
        original = graph.proto
        proto = onnx.GraphProto()
        copy_fields(original, proto, leaving=("node", "input", "output", "initializer", "value_info"))
        inputs = {tensor.name: tensor for tensor in graph.inputs}
        proto.input.extend(value for value in original.input if value.name in inputs)
        if self._skeleton:
            for value in proto.input:
                _write_shape(inputs[value.name], value)
        constants = self._constants(graph, written)
        for tensor in constants:
            self._write_constant(tensor, proto.initializer.add())
        # an overridable initializer is an input to the passes
        proto.initializer.extend(tensor for tensor in original.initializer if tensor.name in inputs)
        written |= {id(tensor) for tensor in constants}
        for node in graph.nodes:
            self._write_node(node, proto.node.add(), written)
        if self._skeleton:
            self._write_known_types(graph, proto)
        else:
            proto.output.extend(original.output)
            self._write_types(graph, proto)
        return proto

    def _constants(self, graph: gs.Graph, written: frozenset[int]) -> list[gs.Constant]:
        outputs = {id(tensor) for tensor in graph.outputs}
        found = {id(tensor): tensor for tensor in graph.constants if tensor.outputs or id(tensor) in outputs}
        for tensor in [*(t for node in graph.nodes for t in node.inputs), *graph.outputs]:
            if isinstance(tensor, gs.Constant) and id(tensor) not in self._owned and id(tensor) not in written:
                found[id(tensor)] = tensor
        return list(found.values())

    def _write_constant(self, tensor: gs.Constant, target: onnx.TensorProto) -> None:
        stored = getattr(tensor._values, "tensor", None)
        if stored is None:
            target.CopyFrom(numpy_helper.from_array(values_of(tensor)))
        elif self._skeleton and not is_external(stored) and byte_size(tensor) > _SMALL_TENSOR_BYTES:
            target.data_type = stored.data_type
            target.dims.extend(stored.dims)
            target.data_location = onnx.TensorProto.EXTERNAL
            target.external_data.add(key="location", value="withheld")
        else:
            target.CopyFrom(stored)
        target.name = tensor.name

    def _write_node(self, node: Node, target: onnx.NodeProto, written: frozenset[int]) -> None:
        if not node.inner:
            write_node(node, target)
            return
        assert node.proto is not None, "only nodes that were read hold graphs"
        copy_fields(node.proto, target, leaving=("input", "output", "attribute"))
        for attribute in node.proto.attribute:
            entry = target.attribute.add()
            inner = node.attrs[attribute.name]
            if isinstance(inner, gs.Graph):
                copy_fields(attribute, entry, leaving=("g",))
                entry.g.CopyFrom(self.write(inner, written))
            else:
                entry.CopyFrom(attribute)
        _write_names(node, target)

    def _write_types(self, graph: gs.Graph, proto: onnx.GraphProto) -> None:
        """Types that the file stated for tensors that are still there, and those of new nodes' outputs."""
        alive = {tensor.name for node in graph.nodes for tensor in node.outputs}
        alive |= {tensor.name for tensor in proto.initializer}
        stated = {value.name for value in graph.proto.value_info} | {value.name for value in graph.proto.output}
        proto.value_info.extend(value for value in graph.proto.value_info if value.name in alive)
        for node in graph.nodes:
            if node.proto is None:
                new = [t for t in node.outputs if t.name not in stated and t.dtype is not None]
                proto.value_info.extend(type_of(t, _in_own_symbols(t.shape)) for t in new)

    def _write_known_types(self, graph: gs.Graph, proto: onnx.GraphProto) -> None:
        for output, tensor in zip(graph.proto.output, graph.outputs, strict=True):
            value = proto.output.add()
            value.CopyFrom(output)
            if id(tensor) in self._known:
                value.CopyFrom(type_of(tensor, self._known[id(tensor)].shape))
            elif tensor.inputs and value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
        # inference knows nothing of other domains' operators
        foreign = {t.name for node in graph.nodes if not is_standard(node) for t in node.outputs}
        proto.value_info.extend(value for value in graph.proto.value_info if value.name in foreign)
        outputs = {value.name for value in proto.output}
        for node in graph.nodes:
            for tensor in node.outputs:
                if id(tensor) in self._known and tensor.name not in outputs:
                    proto.value_info.append(type_of(tensor, self._known[id(tensor)].shape))


def write_node(node: Node, target: onnx.NodeProto | None = None) -> onnx.NodeProto:
    """A node without subgraphs."""
    target = onnx.NodeProto() if target is None else target
    if node.proto is None:
        target.CopyFrom(helper.make_node(node.op, [], [], domain=node.domain, **node.attrs))
    else:
        target.CopyFrom(node.proto)
        del target.input[:]
        del target.output[:]
    _write_names(node, target)
    return target


def _write_names(node: Node, target: onnx.NodeProto) -> None:
    if node.name != target.name:
        target.name = node.name
    target.input.extend([tensor.name for tensor in node.inputs])
    target.output.extend([tensor.name for tensor in node.outputs])


def _write_shape(tensor: gs.Variable, value: onnx.ValueInfoProto) -> None:
    """Make a graph input's shape the one that the passes know."""
    if tensor.shape is not None and value.type.HasField("tensor_type"):
        typed = helper.make_tensor_type_proto(value.type.tensor_type.elem_type, tensor.shape)
        value.type.tensor_type.shape.CopyFrom(typed.tensor_type.shape)


def type_of(tensor: gs.Variable, shape: Sequence[Dim] | None) -> onnx.ValueInfoProto:
    """The tensor's type, with this shape."""
    number = tensor.dtype if isinstance(tensor.dtype, int) else helper.np_dtype_to_tensor_dtype(tensor.dtype)
    return helper.make_tensor_value_info(tensor.name, number, shape)


def _in_own_symbols(shape: Sequence[Dim] | None) -> list[Dim] | None:
    """A shape without the symbols that only the passes use."""
    if shape is None:
        return None
    return [None if isinstance(d, str) and (d.startswith("unk__") or "#" in d) else d for d in shape]


def copy_fields(source: Message, target: Message, leaving: Iterable[str]) -> None:
    """Copy all fields but some, whatever fields this version of ONNX has."""
    left = set(leaving)
    for field, value in source.ListFields():
        if field.name in left:
            continue
        if isinstance(value, Message):
            getattr(target, field.name).CopyFrom(value)
        elif hasattr(value, "extend"):
            getattr(target, field.name).extend(value)
        else:
            setattr(target, field.name, value)
