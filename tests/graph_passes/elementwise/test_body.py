"""Hazard: the body is not what the nodes were, or says so much of the model that equal layers have different bodies."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from dpiframe.graph_passes.elementwise.body import Body, elementwise_body
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.elementwise.programs import floats
from tests.graph_passes.harness import parse


def body_of(model: onnx.ModelProto, inputs: str, outputs: str) -> Body:
    graph = Workbench(model).graph
    tensors = graph.tensors()
    return elementwise_body(graph.nodes, [tensors[n] for n in inputs.split()], [tensors[n] for n in outputs.split()])


def text(body: Body) -> list[str]:
    return [f"{' '.join(node.output)} = {node.op_type}({', '.join(node.input)})" for node in body.nodes]


def test_names_say_nothing_of_the_model() -> None:
    model = parse(
        "(float[b,4] x, float[b,1] gate) => (float[b,4] y) { hidden = Mul(x, gate) shifted = Add(hidden, w) y = Relu(shifted) }",
        w=floats(4),
    )
    body = body_of(model, "x gate w", "y")
    assert body.inputs == ["input_0", "input_1", "input_2"]
    assert body.outputs == ["output_0"]
    assert text(body) == [
        "value_4 = Mul(input_0, input_1)",
        "value_5 = Add(value_4, input_2)",
        "output_0 = Relu(value_5)",
    ]


def test_layers_of_one_structure_have_one_body() -> None:
    layers = [
        "(float[b,4] x) => (float[b,4] y) { m = Mul(x, w) y = Relu(m) }",
        "(float[b,4] x) => (float[b,4] y) { [second] product = Mul(x, w) [third] y = Relu(product) }",
    ]
    first, second = (body_of(parse(layer, w=floats(4, seed=i)), "x w", "y") for i, layer in enumerate(layers))
    assert first == second


def test_a_bodys_constants() -> None:
    """Axes and numbers are in the body, once each; weights are inputs."""
    model = parse(
        """(float[b,3,4] x) => (float[b,4] y) {
            a = Mul(x, half) c = ReduceSum<keepdims=0>(a, axis) d = Mul(c, half2) e = Unsqueeze(d, axis) f = Squeeze(e, axis) y = Mul(f, w)
        }""",
        half=np.float32(0.5),
        half2=np.float32(0.5),
        axis=np.array([1]),
        w=floats(4),
    )
    body = body_of(model, "x w", "y")
    assert text(body) == [
        "constant_0 = Constant()",
        "value_4 = Mul(input_0, constant_0)",
        "constant_1 = Constant()",
        "value_6 = ReduceSum(value_4, constant_1)",
        "value_8 = Mul(value_6, constant_0)",
        "value_9 = Unsqueeze(value_8, constant_1)",
        "value_10 = Squeeze(value_9, constant_1)",
        "output_0 = Mul(value_10, input_1)",
    ]
    values = [numpy_helper.to_array(node.attribute[0].t) for node in body.nodes if node.op_type == "Constant"]
    assert [value.tolist() for value in values] == [0.5, [1]]


def test_constants_of_other_types_and_shapes_are_others() -> None:
    model = parse(
        "(float[b,1] x) => (float[b,1] y) { a = Mul(x, s) c = Mul(a, v) d = Add(c, zero) y = Add(d, negative) }",
        s=np.float32(1),
        v=np.array([1], np.float32),
        zero=np.float32(0.0),
        negative=np.float32(-0.0),
    )
    assert sum(node.op_type == "Constant" for node in body_of(model, "x", "y").nodes) == 4


def test_attributes_stay_and_notes_go() -> None:
    model = parse("(float[b,4] x) => (float[b,4] y) { y = LeakyRelu<alpha=0.25>(x) }")
    node = model.graph.node[0]
    node.name, node.doc_string, node.domain = "model/layer/act", "from line 7 of model.py", "ai.onnx"
    node.metadata_props.add(key="namespace", value="layer: act")
    (only,) = body_of(model, "x", "y").nodes
    assert only == onnx.helper.make_node("LeakyRelu", ["input_0"], ["output_0"], alpha=0.25)
    # the model's own node is not touched
    assert node.name == "model/layer/act"


def test_operands_and_outputs_that_are_left_out() -> None:
    model = parse('(float[b,4] x) => (float[b,4] y) { y, "" = LayerNormalization(x, w) }', w=floats(4))
    assert text(body_of(model, "x w", "y")) == ["output_0  = LayerNormalization(input_0, input_1)"]
    model = parse("(float[b,4] x) => (float[b,4] y) { y = Clip(x) }", high=np.float32(1))
    model.graph.node[0].input.extend(["", "high"])
    assert text(body_of(model, "x", "y"))[-1] == "output_0 = Clip(input_0, , constant_0)"


def test_several_outputs_one_of_them_read_inside() -> None:
    model = parse("(float[b,4] x) => (float[b,4] y, float[b,4] z) { y = Relu(x) z = Neg(y) }")
    body = body_of(model, "x", "z y")
    assert text(body) == ["output_1 = Relu(input_0)", "output_0 = Neg(output_1)"]
