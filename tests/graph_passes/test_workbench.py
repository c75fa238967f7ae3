"""Hazard: what graph-surgeon has no place for is lost on the way through, or the model that came in is changed."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from onnx import TensorProto, helper, numpy_helper

from dpiframe.graph_passes.graphs import Node, replace_uses
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.everything import everything
from tests.graph_passes.harness import (
    agree,
    fuse_all,
    ids,
    op_types,
    optimize,
    parse,
    same_interface,
    table,
    without_elementwise,
)


def test_everything_comes_back_as_it_went_in() -> None:
    model = everything()
    before = model.SerializeToString(deterministic=True)
    bench = Workbench(model)
    assert bench.to_model().SerializeToString(deterministic=True) == before
    assert model.SerializeToString(deterministic=True) == before


def test_everything_comes_back_after_shape_inference_and_tidying() -> None:
    model = everything()
    before = model.SerializeToString(deterministic=True)
    bench = Workbench(model)
    bench.infer_shapes()
    assert bench.tidy() == 0
    assert bench.to_model().SerializeToString(deterministic=True) == before
    assert model.SerializeToString(deterministic=True) == before


def test_everything_that_is_left_comes_back_after_all_passes() -> None:
    model = everything()
    before = model.SerializeToString(deterministic=True)
    from dpiframe.graph_passes.pipeline import optimize_model

    with without_elementwise():
        result = optimize_model(model)
    assert model.SerializeToString(deterministic=True) == before
    after = result.model
    assert result.fused
    same_interface(model, after)
    for name in ("producer_name", "producer_version", "domain", "model_version", "doc_string"):
        assert getattr(after, name) == getattr(model, name)
    assert list(after.training_info) == list(model.training_info)
    assert {p.key: p.value for p in after.metadata_props}["kept"] == "model"
    assert [f for f in after.functions if f.domain == "local"] == list(model.functions)
    assert [(o.domain, o.version) for o in after.opset_import] == [
        ("", 20), ("local", 3), ("vendor", 7), ("unused", 1), ("dpiframe", 1)
    ]  # fmt: skip
    graph, original = after.graph, model.graph
    for name in ("doc_string", "name", "metadata_props", "quantization_annotation", "sparse_initializer"):
        assert getattr(graph, name) == getattr(original, name)
    assert {v.name: v for v in graph.value_info} == {v.name: v for v in original.value_info}
    assert {t.name: t for t in graph.initializer} == {t.name: t for t in original.initializer}
    kept = {n.output[0]: n for n in graph.node}
    for node in original.node[3:]:
        assert kept[node.output[0]] == node
    onnx.checker.check_model(after)


@pytest.mark.parametrize("number", sorted(n for n in TensorProto.DataType.values() if n))
def test_tensors_of_every_type_pass_through_unread(number: int) -> None:
    tensor = TensorProto(name="x", data_type=number, dims=[3])
    if number == TensorProto.STRING:
        tensor.string_data.extend([b"a", b"\xff", b""])
    else:
        tensor.raw_data = bytes(48)
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [],
        [helper.make_tensor_value_info("y", number, [3])],
        [tensor],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])
    before = model.SerializeToString()
    bench = Workbench(model)
    bench.infer_shapes()
    assert bench.to_model().SerializeToString() == before


def test_initializers_that_are_inputs_stay_both() -> None:
    model = parse("(float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }", w=np.ones(2, np.float32))
    bench = Workbench(model)
    assert bench.overridable == {"w"}
    assert [t.name for t in bench.graph.inputs] == ["x", "w"]
    assert not isinstance(bench.graph.inputs[1], gs.Constant)
    assert bench.to_model() == model


def test_an_overridable_initializer_that_only_a_branch_reads() -> None:
    model = parse(
        """(bool flag, float[2] w) => (float[2] y) {
            y = If (flag) <then_branch = t () => (z) { z = Relu(w) }, else_branch = f () => (z) { z = Neg(w) }>
        }""",
        w=np.array([-1, 1], np.float32),
    )
    result = optimize(model)
    for flag in (True, False):
        agree(model, result, {"flag": np.array(flag)}, {"flag": np.array(flag), "w": np.array([3, -3], np.float32)})


def test_before_ir_version_4_initializers_among_the_inputs_are_constants() -> None:
    model = parse(
        "(int64[b] a, float[10,4] A, int64[b] c, float[20,4] C, float[1] unused) => (float[b,8] y) "
        "{ e = Gather(A, a) f = Gather(C, c) y = Concat<axis=1>(e, f) }",
        opset=11, ir=3, A=table(10, 4), C=table(20, 4), unused=np.zeros(1, np.float32),
    )  # fmt: skip
    result = optimize(model)
    # at IR version 8 they would be inputs whose values may change, and the unused one an input without a value
    assert [v.name for v in result.model.graph.input] == ["a", "c"]
    assert {t.name for t in result.model.graph.initializer} == {"A", "C"}
    assert op_types(result.model) == ["FusedMultiGather"]
    agree(model, result, {"a": ids(3, high=10), "c": ids(3, high=20)})


def test_an_ir_3_model_in_which_nothing_is_fused_stays_valid() -> None:
    model = parse("(float[2] x, float[1] w) => (float[2] y) { y = Add(x, w) }", opset=8, ir=3, w=np.ones(1, np.float32))
    result = optimize(model)
    assert not result.fused
    agree(model, result, {"x": np.ones(2, np.float32)})


def test_a_tensor_that_an_outer_graph_stores_is_written_there_once() -> None:
    model = parse(
        """(int64[b] a, bool flag) => (float[b,4] y) {
            y = If (flag) <
                then_branch = t () => (z) { z = Gather(A, a) },
                else_branch = f () => (z) { e = Gather(A, a) z = Neg(e) }
            >
        }""",
        A=table(10, 4),
    )
    after = Workbench(model).to_model()
    assert after == model
    result = optimize(model)
    assert [t.name for t in result.model.graph.initializer] == ["A"]
    assert all(not a.g.initializer for a in result.model.graph.node[0].attribute)


def test_twins_in_two_branches_are_told_apart() -> None:
    # graph-surgeon takes equal nodes for one: replacing one's input would have cut off the other
    model = parse(
        """(float[2] x, bool flag) => (float[2] y) {
            i = Identity(x)
            k = Neg(x)
            y = If (flag) <
                then_branch = t () => (z) { m = Relu(i) z = Add(m, k) },
                else_branch = f () => (z) { m = Relu(i) z = Sub(m, k) }
            >
        }"""
    )
    bench = Workbench(model)
    identity = bench.graph.nodes[0]
    replace_uses(identity.outputs[0], identity.inputs[0])
    bench.tidy()
    written = bench.to_model()
    assert op_types(written) == ["Neg", "If"]
    for attribute in written.graph.node[1].attribute:
        assert list(attribute.g.node[0].input) == ["x"]
    onnx.checker.check_model(written, full_check=True)


def test_new_names_are_new_everywhere() -> None:
    model = everything()
    bench = Workbench(model)
    taken = ["a", "C", "j", "sum", "own", "out", "twin", "lookup", "then_node", "flag", "spare", "loose"]
    for name in taken:
        assert bench.new_name(name) == f"{name}_1"
        assert bench.new_name(name) == f"{name}_2"
    assert bench.new_name("fresh") == "fresh"
    assert bench.new_name("fresh") == "fresh_1"


def test_shape_inference_finds_types_in_branches_and_functions() -> None:
    bench = Workbench(everything())
    bench.infer_shapes()
    shapes = {t.name: (t.shape, t.dtype) for g in bench.graphs() for n in g.nodes for t in n.outputs if t.name}
    assert shapes["e"] == (["batch", 4], np.dtype(np.float32))
    assert shapes["j"] == (["batch", 12], np.dtype(np.float32))
    assert shapes["sum"] == (["batch", 12], np.dtype(np.float32))
    assert shapes["first"][1] == np.dtype(np.float32)
    assert shapes["both"] == (None, None)


def test_shapes_that_a_file_states_are_not_believed_where_they_can_be_found() -> None:
    # an export at batch 1 left its own sizes behind; believing them would remove the Slice
    model = parse(
        """(float[b,4] x) => (float[1,4] r, float[c,4] y) {
            i0 = Constant<value_ints=[0]>()  i1 = Constant<value_ints=[1]>()
            r = Relu(x)
            s = Slice(r, i0, i1, i0)
            y = Neg(s)
        }"""
    )
    model.graph.value_info.append(helper.make_tensor_value_info("s", TensorProto.FLOAT, [1, 4]))
    bench = Workbench(model)
    bench.infer_shapes()
    relu = next(n for n in bench.graph.nodes if n.op == "Relu")
    assert relu.outputs[0].shape == ["b", 4]
    result_of = optimize_unchecked(model)
    assert "Slice" in op_types(result_of)


def optimize_unchecked(model: onnx.ModelProto) -> onnx.ModelProto:
    from dpiframe.graph_passes.pipeline import optimize_model

    return optimize_model(model).model


def test_what_unknown_operators_give_is_as_the_file_states() -> None:
    model = parse("(float[b,4] x) => (float[b,4] y) { r = vendor.Op(x) y = Relu(r) }", imports=', "vendor": 1')
    model.graph.value_info.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, ["b", 4]))
    bench = Workbench(model)
    bench.infer_shapes()
    assert [n.outputs[0].shape for n in bench.graph.nodes] == [["b", 4], ["b", 4]]


def test_inference_never_sees_large_values() -> None:
    model = parse("(int64[b] a) => (float[b,4] y) { y = Gather(A, a) }", A=table(1 << 16, 4))
    from dpiframe.graph_passes.graph_writer import GraphWriter

    bench = Workbench(model)
    assert GraphWriter(set(), {}).write(bench.graph).ByteSize() < 1000
    bench.infer_shapes()
    assert bench.graph.nodes[0].outputs[0].shape == ["b", 4]


def test_inference_that_fails_leaves_what_is_known() -> None:
    model = parse("(float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    model.graph.node[0].op_type = "NoSuchOperator"
    bench = Workbench(model)
    bench.infer_shapes()
    assert bench.to_model() == model


def test_new_nodes_say_their_types_in_the_models_own_symbols() -> None:
    model = parse("(float[b,4] x, float[n,4] z) => (float[b,4] y) { r = Relu(x) y = Neg(r) }")
    del model.graph.input[1].type.tensor_type.shape.dim[:]
    bench = Workbench(model)
    new = gs.Variable("new", np.dtype(np.float32), ["b", "unk__3", "z#0", 4])
    bench.graph.nodes.append(Node("Identity", name="made", inputs=[bench.graph.inputs[0]], outputs=[new]))
    written = bench.to_model()
    info = {v.name: v for v in written.graph.value_info}["new"]
    dims = info.type.tensor_type.shape.dim
    assert [(d.dim_param, d.dim_value) for d in dims] == [("b", 0), ("", 0), ("", 0), ("", 4)]


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_both_names_of_the_standard_domain(domain: str) -> None:
    model = parse("(int64[b] a) => (float[b,4] y) { y = Gather(A, a) }", A=table(10, 4))
    model.opset_import[0].domain = domain
    model.graph.node[0].domain = domain
    bench = Workbench(model)
    assert bench.opset == 20
    result = fuse_all(model)
    assert op_types(result.model) == ["FusedMultiGather"]
    agree(model, result, {"a": ids(3, high=10)})


def test_a_model_without_the_standard_operator_set() -> None:
    model = parse("(float[2] x) => (float[2] y) { y = vendor.Op(x) }", imports=', "vendor": 1')
    del model.opset_import[0]
    assert Workbench(model).opset == 0
    assert optimize_unchecked(model) is not model


def test_dimensions_of_minus_one_are_unknown() -> None:
    model = parse("(float[b,4] x) => (float[b,4] y) { y = Relu(x) }")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    assert Workbench(model).graph.inputs[0].shape == [None, 4]


def test_constants_in_attributes_are_not_renamed_in_the_model() -> None:
    model = parse("(float[2] x) => (float[2] y) { k = Constant<value = float[2] {1, 2}>() y = Add(x, k) }")
    model.graph.node[0].attribute[0].t.name = "other"
    optimize(model)
    assert model.graph.node[0].attribute[0].t.name == "other"


def test_graphs_come_outer_before_inner() -> None:
    model = parse(
        """(bool f, float[2] x) => (float[2] y) {
            y = If (f) <
                then_branch = a () => (z) {
                    z = If (f) <then_branch = b () => (w) { w = Relu(x) }, else_branch = c () => (w) { w = Neg(x) }>
                },
                else_branch = d () => (z) { z = Abs(x) }
            >
        }"""
    )
    assert [g.name for g in Workbench(model).graphs()] == ["g", "a", "b", "c", "d"]


def test_stored_tensors_stay_large() -> None:
    values = np.zeros((1 << 12, 16), np.float32)
    model = parse("(int64[b] a) => (float[b,16] y) { y = Gather(A, a) }")
    model.graph.initializer.append(numpy_helper.from_array(values, "A"))
    constant = Workbench(model).graph.nodes[0].inputs[0]
    assert constant._values._array is None
    assert (constant.shape, constant.dtype) == ([1 << 12, 16], np.dtype(np.float32))
