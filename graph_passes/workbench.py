"""A model on the bench: an onnx-graphsurgeon graph to rewrite, and everything of the file that graph-surgeon has
no place for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

import onnx
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.graph_reader import read_graph, set_type
from dpiframe.graph_passes.graph_writer import GraphWriter, copy_fields
from dpiframe.graph_passes.graphs import STANDARD_DOMAINS, is_standard, tidy
from dpiframe.graph_passes.metadata import properties
from dpiframe.graph_passes.streams.schedule import Order

_MIN_IR_VERSION = 4
"""Before IR version 4 every initializer had to be a graph input, and was a constant all the same."""

EXACT = "dpiframe.exact"
"""The metadata entry of a model in which only nodes that give the same bits are fused."""

LOSE_NAN = "dpiframe.lose_nan"
"""The metadata entry of a model in which no ReduceMax and ReduceMin of floats is fused."""


class Target(TypedDict, total=False):
    """What a model is optimized for: what a Workbench is told besides.

    provider: "cpu" or "cuda". bad_ids: "error", "zero" or "clamp". precision: "fp32", "tf32" or "fp16", of products on
    CUDA. streams: how many at most branches may run on, 1 for none beside ONNX Runtime's own, 0 for what a region is
    worth. launch_order: "breadth" or "depth", in which a region's branches are launched. exact: of the nodes between
    lookups and products, only those may be fused that then give the same bits. lose_nan: no ReduceMax and ReduceMin of
    floats may be fused, as ONNX Runtime's own lose NaN. A model that was optimized with one of these two says so in its
    metadata.
    """

    provider: str
    bad_ids: str
    precision: str
    streams: int
    launch_order: Order
    exact: bool
    lose_nan: bool


class Workbench:
    """The model under rewriting. The protobuf that it came from is not changed.

    graph: the main graph; passes change it in place. functions: the model-local functions by (domain, name, overload),
    kept as protobufs. opset_import: operator set version by domain. overridable: names of the initializers that are
    graph inputs too. found_shapes: tensors by id() whose shapes passes found where ONNX's inference doesn't. provider,
    bad_ids, precision, streams, launch_order, exact, lose_nan: the Target's.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        *,
        provider: str = "cpu",
        bad_ids: str = "error",
        precision: str = "fp32",
        streams: int = 0,
        launch_order: Order = "breadth",
        exact: bool = False,
        lose_nan: bool = False,
    ) -> None:
        self.provider = provider
        self.bad_ids = bad_ids
        self.precision = precision
        self.streams = streams
        self.launch_order: Order = launch_order
        said = properties(model)
        self.exact = exact or EXACT in said
        self.lose_nan = lose_nan or LOSE_NAN in said
        self.functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        self.opset_import = {entry.domain: entry.version for entry in model.opset_import}
        self._model = model
        overridable = model.ir_version >= _MIN_IR_VERSION
        self.graph = read_graph(model.graph, self.opset, overridable)
        inputs = {value.name for value in model.graph.input}
        self.overridable = {t.name for t in model.graph.initializer if overridable and t.name in inputs}
        self.found_shapes: dict[int, gs.Variable] = {}
        self._names = {name for graph in self.graphs() for name in _names(graph)}

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators; 0 where the model names none."""
        return next((v for domain, v in self.opset_import.items() if domain in STANDARD_DOMAINS), 0)

    def graphs(self) -> list[gs.Graph]:
        """The main graph and every subgraph, outer before inner."""
        return list(_with_inner(self.graph))

    def output_ids(self) -> set[int]:
        """id() of every tensor that is an output of the main graph or of a subgraph."""
        return {id(t) for graph in self.graphs() for t in graph.outputs}

    def new_name(self, wanted: str) -> str:
        """A name that no tensor and no node of the model has: the wanted one, or with a number after it."""
        name, number = wanted, 0
        while name in self._names:
            number += 1
            name = f"{wanted}_{number}"
        self._names.add(name)
        return name

    def tidy(self) -> int:
        """Drop nodes that no output needs and put the rest in topological order; returns how many are gone."""
        return tidy(self.graph)

    def infer_shapes(self) -> None:
        """Write types and shapes, as far as ONNX's inference (with data propagation) finds them, onto the graph's
        tensors."""
        skeleton = self._header()
        skeleton.graph.CopyFrom(GraphWriter(self._owned(), self.found_shapes).write(self.graph))
        try:
            inferred = onnx.shape_inference.infer_shapes(skeleton, data_prop=True)
        except (onnx.shape_inference.InferenceError, ValueError):
            # what the file says of its tensors has to do; a ValueError is a Loop that lacks an input
            return
        _take_types(self.graph, inferred.graph)

    def to_model(self) -> onnx.ModelProto:
        """The model as a protobuf again, with all that graph-surgeon has no place for."""
        model = self._header()
        model.graph.CopyFrom(GraphWriter(self._owned()).write(self.graph))
        return model

    def _owned(self) -> set[int]:
        return {id(tensor) for graph in self.graphs() for tensor in graph.constants}

    def _header(self) -> onnx.ModelProto:
        model = onnx.ModelProto()
        copy_fields(self._model, model, leaving=("graph", "functions", "opset_import"))
        model.ir_version = max(model.ir_version, _MIN_IR_VERSION)
        model.opset_import.extend(onnx.helper.make_opsetid(*entry) for entry in self.opset_import.items())
        model.functions.extend(self.functions.values())
        return model


def _with_inner(graph: gs.Graph) -> Iterator[gs.Graph]:
    yield graph
    for node in graph.nodes:
        for inner in node.inner:
            yield from _with_inner(inner)


def _names(graph: gs.Graph) -> Iterator[str]:
    yield from (tensor.name for tensor in (*graph.inputs, *graph.outputs, *graph.constants))
    for node in graph.nodes:
        yield node.name
        yield from (tensor.name for tensor in (*node.inputs, *node.outputs))


def _take_types(graph: gs.Graph, proto: onnx.GraphProto) -> None:
    inferred = {value.name: value.type for group in (proto.value_info, proto.output) for value in group}
    for node, written in zip(graph.nodes, proto.node, strict=True):
        for tensor in node.outputs:
            if not tensor.name:
                continue
            known = inferred.get(tensor.name)
            if known is not None and known.WhichOneof("value"):
                set_type(tensor, known)
            elif is_standard(node):
                # what an exporter wrote may be true of its example batch only
                tensor.shape = None
        if node.inner:
            for attribute in written.attribute:
                inner = node.attrs.get(attribute.name)
                if isinstance(inner, gs.Graph):
                    _take_types(inner, attribute.g)
