"""A model on the bench: an onnx-graphsurgeon graph to rewrite, and everything of the file that graph-surgeon has no place for.

graph-surgeon drops functions' overloads and metadata, metadata_props, doc strings, some attribute kinds, and graph inputs that
are also initializers. They are kept here by the object they belong to and put back by `to_model`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx_graphsurgeon.exporters.onnx_exporter import OnnxExporter
from onnx_graphsurgeon.importers.onnx_importer import OnnxImporter
from onnx_graphsurgeon.logger import G_LOGGER

from dpiframe.graph_passes.model_io import is_external

# Shape inference needs small constants (axes, shapes); anything larger is withheld from it.
_SMALL_TENSOR_BYTES = 1 << 14
_LOST_ATTRIBUTES = (
    onnx.AttributeProto.TYPE_PROTO,
    onnx.AttributeProto.TYPE_PROTOS,
    onnx.AttributeProto.SPARSE_TENSOR,
    onnx.AttributeProto.SPARSE_TENSORS,
    onnx.AttributeProto.TENSORS,
    onnx.AttributeProto.GRAPHS,
)

G_LOGGER.severity = G_LOGGER.ERROR


class Workbench:
    """The model under rewriting.

    graph: the main graph; passes change it in place. functions: the model-local functions by (domain, name, overload), kept as
    protobufs. provider: "cpu" or "cuda", the target. bad_ids: "error", "zero" or "clamp".
    """

    def __init__(self, model: onnx.ModelProto, provider: str = "cpu", bad_ids: str = "error") -> None:
        self.provider = provider
        self.bad_ids = bad_ids
        self.functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        self._model = model
        self._protos: dict[int, tuple[gs.Node, onnx.NodeProto]] = {}
        self._graph_protos: dict[int, tuple[gs.Graph, onnx.GraphProto]] = {}
        self.graph: gs.Graph = OnnxImporter.import_graph(
            model.graph,
            opset=OnnxImporter.get_opset(model),
            import_domains=list(model.opset_import),
            producer_name=model.producer_name,
            producer_version=model.producer_version,
            ir_version=model.ir_version,
        )
        self._remember(self.graph, model.graph)
        self.overridable: dict[str, onnx.TensorProto] = {}
        if model.ir_version >= 4:
            self._free_overridable(model.graph)

    @property
    def opset(self) -> int:
        return int(self.graph.opset)

    def graphs(self) -> Iterator[gs.Graph]:
        """The main graph and every subgraph, outer before inner."""
        yield self.graph
        yield from self.graph.subgraphs(recursive=True)

    def output_ids(self) -> set[int]:
        """id() of every tensor that is an output of the main graph or of a subgraph."""
        return {id(t) for graph in self.graphs() for t in graph.outputs}

    def infer_shapes(self) -> None:
        """Write types and shapes, as far as ONNX's inference (with data propagation) finds them, onto the graph's tensors."""
        proto = self._export_graph(self.graph)
        del proto.value_info[:]
        _withhold_data(proto)
        skeleton = onnx.ModelProto()
        self._fill_header(skeleton)
        skeleton.graph.CopyFrom(proto)
        inferred = onnx.shape_inference.infer_shapes(skeleton, data_prop=True)
        _take_shapes(self.graph, inferred.graph)

    def to_model(self) -> onnx.ModelProto:
        """The model as a protobuf again, with all that graph-surgeon has no place for."""
        graph = self._export_graph(self.graph)
        model = onnx.ModelProto()
        self._fill_header(model)
        self._restore_values(graph, self._model.graph)
        model.graph.CopyFrom(graph)
        return model

    def _fill_header(self, model: onnx.ModelProto) -> None:
        source = self._model
        model.ir_version = source.ir_version
        for name in ("producer_name", "producer_version", "domain", "model_version", "doc_string"):
            if source.HasField(name):
                setattr(model, name, getattr(source, name))
        model.metadata_props.extend(source.metadata_props)
        model.opset_import.extend(self.graph.import_domains)
        model.functions.extend(self.functions.values())

    def _remember(self, graph: gs.Graph, proto: onnx.GraphProto) -> None:
        self._graph_protos[id(graph)] = (graph, proto)
        for node, node_proto in zip(graph.nodes, proto.node, strict=True):
            self._protos[id(node)] = (node, node_proto)
            for attribute in node_proto.attribute:
                inner = node.attrs.get(attribute.name)
                if isinstance(inner, gs.Graph):
                    self._remember(inner, attribute.g)

    def _free_overridable(self, proto: onnx.GraphProto) -> None:
        """Make an initializer that is also a graph input an ordinary input: its value may be another one at run time."""
        initializers = {t.name: t for t in proto.initializer}
        constants = {t.name: t for t in self.graph.tensors().values() if isinstance(t, gs.Constant)}
        inputs = {t.name: t for t in self.graph.inputs}
        for value in proto.input:
            tensor = initializers.get(value.name)
            if tensor is None:
                continue
            self.overridable[value.name] = tensor
            variable = OnnxImporter.import_tensor(value)
            if value.name in constants:
                replace_uses(constants[value.name], variable)
            inputs[value.name] = variable
        self.graph.inputs = [inputs[value.name] for value in proto.input]

    def _export_graph(self, graph: gs.Graph) -> onnx.GraphProto:
        proto = OnnxExporter.export_graph(graph, do_type_check=False)
        self._restore_nodes(graph, proto)
        if graph is self.graph:
            proto.initializer.extend(self.overridable.values())
        return proto

    def _restore_nodes(self, graph: gs.Graph, proto: onnx.GraphProto) -> None:
        if id(graph) in self._graph_protos:
            original_graph = self._graph_protos[id(graph)][1]
            proto.metadata_props.extend(original_graph.metadata_props)
            proto.quantization_annotation.extend(original_graph.quantization_annotation)
        for node, node_proto in zip(graph.nodes, proto.node, strict=True):
            original = self._protos.get(id(node), (None, None))[1]
            if original is not None:
                node_proto.doc_string = original.doc_string
                node_proto.overload = original.overload
                node_proto.metadata_props.extend(original.metadata_props)
                node_proto.attribute.extend(a for a in original.attribute if a.type in _LOST_ATTRIBUTES)
            for attribute in node_proto.attribute:
                inner = node.attrs.get(attribute.name)
                if isinstance(inner, gs.Graph):
                    self._restore_nodes(inner, attribute.g)

    def _restore_values(self, graph: onnx.GraphProto, original: onnx.GraphProto) -> None:
        """Inputs and outputs exactly as they were; value_info too where the value is still there."""
        del graph.input[:]
        graph.input.extend(original.input)
        del graph.output[:]
        graph.output.extend(original.output)
        if original.HasField("doc_string"):
            graph.doc_string = original.doc_string
        before = {v.name: v for v in original.value_info}
        alive = {name for node in graph.node for name in node.output}
        infos = [before.pop(v.name, v) for v in graph.value_info if v.name in alive]
        infos += [v for name, v in before.items() if name in alive]
        del graph.value_info[:]
        graph.value_info.extend(infos)


def replace_uses(old: gs.Tensor, new: gs.Tensor) -> None:
    """Let every node that reads `old`, in subgraphs too, read `new`."""
    for node in list(old.outputs):
        for index, tensor in enumerate(node.inputs):
            if tensor is old:
                node.inputs[index] = new


def values_of(tensor: gs.Tensor) -> np.ndarray:
    """The values of a constant that has been found small enough to be read."""
    return np.asarray(tensor.values)


def byte_size(tensor: gs.Constant) -> int:
    """Bytes that the constant's values take, without reading them."""
    count = int(np.prod(tensor.shape, dtype=np.int64)) if tensor.shape is not None else 0
    return count * (np.dtype(tensor.dtype).itemsize if not isinstance(tensor.dtype, int) else 2)


def node_label(node: gs.Node) -> str:
    """What to call a node in a report: its name or, where it has none, its first output's."""
    return node.name or (node.outputs[0].name if node.outputs else node.op)


def _withhold_data(graph: onnx.GraphProto) -> None:
    for tensor in graph.initializer:
        if is_external(tensor):
            continue
        if tensor.ByteSize() > _SMALL_TENSOR_BYTES:
            shell = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
            shell.data_location = onnx.TensorProto.EXTERNAL
            entry = shell.external_data.add()
            entry.key, entry.value = "location", "withheld"
            tensor.CopyFrom(shell)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _withhold_data(attribute.g)


def _take_shapes(graph: gs.Graph, proto: onnx.GraphProto) -> None:
    infos = {v.name: v for v in proto.value_info}
    for node, node_proto in zip(graph.nodes, proto.node, strict=True):
        for tensor in node.outputs:
            value = infos.get(tensor.name)
            if value is None or not isinstance(tensor, gs.Variable):
                continue
            inferred = OnnxImporter.import_tensor(value)
            tensor.dtype, tensor.shape, tensor.type = inferred.dtype, inferred.shape, inferred.type
        for attribute in node_proto.attribute:
            inner = node.attrs.get(attribute.name)
            if isinstance(inner, gs.Graph):
                _take_shapes(inner, attribute.g)
