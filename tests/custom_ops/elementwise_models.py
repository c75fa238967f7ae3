"""Models with FusedElementwise nodes, and sessions that run them with the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from dpiframe.graph_passes.elementwise.program import parse_program
from tests.custom_ops import models

ONNX_TYPES = {
    "f32": TensorProto.FLOAT,
    "f16": TensorProto.FLOAT16,
    "f64": TensorProto.DOUBLE,
    "i32": TensorProto.INT32,
    "i64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
}


def node(
    program: str, inputs: Sequence[str], outputs: Sequence[str], op: str = "FusedElementwise", name: str = "fused"
) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, name=name, domain="dpiframe", program=program)


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    constants: Mapping[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    initializers = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "elementwise", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("dpiframe", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def program_model(program: str, constants: Mapping[int, np.ndarray] | None = None) -> onnx.ModelProto:
    """The node alone: inputs "x0", "x1", ... of the shapes that the program says, with the row axes "B" and "L", those
    in `constants` as initializers; outputs "y0", "y1", ... without declared shapes."""
    parsed = parse_program(program)
    names = [f"x{i}" for i in range(len(parsed.inputs))]
    inputs = []
    for i, value in enumerate(parsed.inputs):
        if i in (constants or {}):
            continue
        rows = ["BL"[axis] if letter == "x" else 1 for axis, letter in enumerate(value.mask)]
        shape = [*(rows if "x" in value.mask else []), *value.sizes]
        inputs.append(helper.make_tensor_value_info(names[i], ONNX_TYPES[value.type], shape))
    outputs = [
        helper.make_tensor_value_info(f"y{i}", ONNX_TYPES[parsed.values[output].type], None)
        for i, output in enumerate(parsed.outputs)
    ]
    nodes = [node(program, names, [output.name for output in outputs])]
    return model_of(nodes, inputs, outputs, {names[i]: array for i, array in (constants or {}).items()})


def session(program: str, constants: Mapping[int, np.ndarray] | None = None, threads: int = 1) -> ort.InferenceSession:
    return models.session(program_model(program, constants), threads)


def feeds(inputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {f"x{i}": array for i, array in enumerate(inputs)}
