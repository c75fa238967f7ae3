"""Models with one FusedMultiGather node, and sessions that run them with the library."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from dpiframe.custom_ops import library_path

Shape = Sequence["int | str | None"]
ONNX_TYPES = {
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "float16": TensorProto.FLOAT16,
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
}


def value(name: str, dtype: str, shape: Shape | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, ONNX_TYPES[dtype], shape)


def lookup_node(
    program: str, inputs: list[str], outputs: list[str], op: str = "FusedMultiGather", name: str = "lookup"
) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, name=name, domain="dpiframe", program=program)


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    tables: dict[str, np.ndarray],
) -> onnx.ModelProto:
    initializers = [numpy_helper.from_array(table, name) for name, table in tables.items()]
    graph = helper.make_graph(nodes, "lookups", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("dpiframe", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def lookup_model(
    program: str, sources: dict[str, tuple[str, Shape]], tables: dict[str, np.ndarray], outputs: int = 1
) -> onnx.ModelProto:
    """The node alone: sources are graph inputs, tables constant, outputs "y0", "y1", ... without declared shapes."""
    names = [f"y{i}" for i in range(outputs)]
    dtype = str(next(iter(tables.values())).dtype)
    return model_of(
        [lookup_node(program, [*sources, *tables], names)],
        [value(name, *spec) for name, spec in sources.items()],
        [value(name, dtype, None) for name in names],
        tables,
    )


def options(threads: int = 1) -> ort.SessionOptions:
    result = ort.SessionOptions()
    result.intra_op_num_threads = threads
    result.log_severity_level = 3
    result.register_custom_ops_library(str(library_path()))
    return result


def session(model: onnx.ModelProto, threads: int = 1) -> ort.InferenceSession:
    return ort.InferenceSession(model.SerializeToString(), options(threads), providers=["CPUExecutionProvider"])


def tag(made: ort.InferenceSession) -> str:
    return made.get_session_options().get_session_config_entry("dpiframe.session")
