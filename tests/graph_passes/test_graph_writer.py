"""Hazard: a tensor is written into the wrong graph, twice or under another's name, or a field is forgotten."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx import TensorProto, helper, numpy_helper

from dpiframe.graph_passes.graph_writer import GraphWriter, copy_fields, write_node
from dpiframe.graph_passes.graphs import Node, StoredValues, replace_uses, set_input
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.everything import everything
from tests.graph_passes.harness import op_types, parse

BRANCHES = """(float[2] x, bool f) => (float[2] y) {
    y = If (f) <
        then_branch = t () => (z) { k = Constant<value_floats=[1.0, 2.0]>() z = Add(x, k) },
        else_branch = e () => (z) { k = Constant<value_floats=[3.0, 4.0]>() z = Add(x, k) }
    >
}"""


def names(graph: onnx.GraphProto) -> list[str]:
    return [t.name for t in graph.initializer]


def branches(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    return [a.g for n in model.graph.node for a in n.attribute if a.HasField("g")]


def test_new_constants_are_written_where_they_are_read() -> None:
    bench = Workbench(parse(BRANCHES))
    for graph in bench.graphs()[1:]:
        constant = graph.nodes[0]
        replace_uses(constant.outputs[0], gs.Constant("k", np.array([len(graph.name), 0], np.float32)))
    bench.tidy()
    written = bench.to_model()
    assert names(written.graph) == []
    assert [names(g) for g in branches(written)] == [["k"], ["k"]]
    onnx.checker.check_model(written, full_check=True)


def test_a_new_constant_that_outer_and_inner_nodes_read_is_written_outside() -> None:
    model = parse(BRANCHES.replace("y = If", "o = Neg(x) y = If").replace("(float[2] y)", "(float[2] y, float[2] o)"))
    bench = Workbench(model)
    shared = gs.Constant("shared", np.ones(2, np.float32))
    for graph in bench.graphs():
        node = graph.nodes[-1] if graph is not bench.graph else graph.nodes[0]
        set_input(node, len(node.inputs) - 1, shared)
    written = bench.to_model()
    assert names(written.graph) == ["shared"]
    assert [names(g) for g in branches(written)] == [[], []]


def test_a_renamed_constant_leaves_the_stored_tensor_alone() -> None:
    model = parse("(float[2] x) => (float[2] y) { y = Add(x, w) }", w=np.ones(2, np.float32))
    bench = Workbench(model)
    bench.graph.constants[0].name = "other"
    written = bench.to_model()
    assert names(written.graph) == ["other"]
    assert list(written.graph.node[0].input) == ["x", "other"]
    assert names(model.graph) == ["w"]


def test_initializers_that_nobody_reads_are_not_written() -> None:
    model = parse("(float[2] x) => (float[2] y) { y = Relu(x) }", w=np.ones(2, np.float32))
    assert names(Workbench(model).to_model().graph) == []


def test_external_tensors_are_written_as_references() -> None:
    tensor = TensorProto(name="w", data_type=1, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="nowhere")
    model = parse("(float[2] x) => (float[2] y) { y = Add(x, w) }")
    model.graph.initializer.append(tensor)
    assert list(Workbench(model).to_model().graph.initializer) == [tensor]


def test_a_skeleton_withholds_large_values_and_output_shapes() -> None:
    model = parse(
        "(float[b,4096] x) => (float[7,7] y) { a = Add(x, large) y = Reshape(a, small) }",
        large=np.ones((2, 4096), np.float32), small=np.array([-1, 7]),
    )  # fmt: skip
    bench = Workbench(model)
    skeleton = GraphWriter({id(t) for t in bench.graph.constants}, {}).write(bench.graph)
    tensors = {t.name: t for t in skeleton.initializer}
    assert list(tensors["large"].dims) == [2, 4096]
    assert not tensors["large"].raw_data
    assert numpy_helper.to_array(tensors["small"]).tolist() == [-1, 7]
    assert not skeleton.output[0].type.tensor_type.HasField("shape")
    assert skeleton.output[0].type.tensor_type.elem_type == TensorProto.FLOAT


def test_a_skeleton_has_the_shapes_that_passes_found() -> None:
    bench = Workbench(parse("(float[b,4] x) => (float[b,4] y) { a = Relu(x) y = Neg(a) }"))
    found = gs.Variable("a", np.dtype(np.float32), ["x#0", 4])
    output = bench.graph.nodes[0].outputs[0]
    output.dtype = np.dtype(np.float32)
    bench.graph.inputs[0].shape = ["x#0", 4]
    skeleton = GraphWriter(set(), {id(output): found}).write(bench.graph)
    assert [d.dim_param or d.dim_value for d in skeleton.value_info[0].type.tensor_type.shape.dim] == ["x#0", 4]
    assert [d.dim_param or d.dim_value for d in skeleton.input[0].type.tensor_type.shape.dim] == ["x#0", 4]


def test_a_node_is_written_with_what_it_reads_now() -> None:
    model = parse("(float[2] x) => (float[2] y) { a = Relu(x) y = Clip(a, , k) }", k=np.array(1, np.float32))
    model.graph.node[1].doc_string = "kept"
    bench = Workbench(model)
    clip = bench.graph.nodes[1]
    set_input(clip, 0, bench.graph.inputs[0])
    written = write_node(clip)
    assert (list(written.input), list(written.output), written.doc_string) == (["x", "", "k"], ["y"], "kept")
    assert list(model.graph.node[1].input) == ["a", "", "k"]


def test_a_new_node() -> None:
    x, y = gs.Variable("x"), gs.Variable("y")
    node = Node("Op", name="n", domain="d", attrs={"text": "t", "axis": 1, "axes": [1, 2]}, inputs=[x], outputs=[y])
    assert write_node(node) == helper.make_node("Op", ["x"], ["y"], name="n", domain="d", text="t", axis=1, axes=[1, 2])


def test_all_fields_but_some_are_copied() -> None:
    model = everything()
    target = onnx.ModelProto()
    copy_fields(model, target, leaving=("graph", "functions"))
    assert {f.name for f, _ in model.ListFields()} - {f.name for f, _ in target.ListFields()} == {"graph", "functions"}
    target.graph.CopyFrom(model.graph)
    target.functions.extend(model.functions)
    assert target == model


def test_fields_that_are_not_set_stay_so() -> None:
    target = onnx.NodeProto()
    copy_fields(helper.make_node("Relu", ["x"], ["y"]), target, leaving=("input",))
    assert not target.HasField("doc_string")
    assert list(target.input) == []


def test_writing_twice_gives_the_same() -> None:
    bench = Workbench(everything())
    assert bench.to_model().SerializeToString(deterministic=True) == bench.to_model().SerializeToString(
        deterministic=True
    )


def test_stored_values_that_were_looked_at_are_written_as_they_were() -> None:
    tensor = helper.make_tensor("w", TensorProto.FLOAT, [2], [1, 2])
    tensor.doc_string = "kept"
    model = parse("(float[2] x) => (float[2] y) { y = Add(x, w) }")
    model.graph.initializer.append(tensor)
    bench = Workbench(model)
    stored = bench.graph.constants[0]._values
    assert isinstance(stored, StoredValues)
    stored.load()
    assert list(bench.to_model().graph.initializer) == [tensor]
    assert op_types(bench.to_model()) == ["Add"]
