"""Hazard: a name is taken for another tensor than the one that the file means."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from dpiframe.graph_passes.graph_reader import read_graph, set_type, variable
from tests.graph_passes.everything import everything
from tests.graph_passes.harness import parse


def read(model: onnx.ModelProto, overridable: bool = True) -> gs.Graph:
    return read_graph(model.graph, 20, overridable)


def test_one_object_for_each_tensor() -> None:
    graph = read(parse("(float[2] x) => (float[2] y) { a = Relu(x) b = Add(a, x) y = Add(b, a) }"))
    relu, first, second = graph.nodes
    assert relu.outputs[0] is first.inputs[0] is second.inputs[1]
    assert first.inputs[1] is graph.inputs[0] is relu.inputs[0]
    assert graph.outputs[0] is second.outputs[0]
    assert [n.op for n in graph.inputs[0].outputs] == ["Relu", "Add"]


def test_tensors_are_known_before_the_nodes_that_give_them() -> None:
    model = parse("(float[2] x) => (float[2] y) { y = Neg(a) a = Relu(x) }")
    graph = read(model)
    assert graph.nodes[0].inputs[0] is graph.nodes[1].outputs[0]


def test_branches_see_what_is_around_them_and_not_each_other() -> None:
    model = parse(
        """(float[2] x, bool f) => (float[2] y) {
            y = If (f) <
                then_branch = t () => (z) { k = Neg(later) z = Add(k, x) },
                else_branch = e () => (z) { k = Abs(x) z = Add(k, later) }
            >
            later = Relu(x)
        }"""
    )
    graph = read(model)
    then, other = graph.nodes[0].inner
    assert then.nodes[0].inputs[0] is graph.nodes[1].outputs[0] is other.nodes[1].inputs[1]
    assert then.nodes[1].inputs[1] is graph.inputs[0]
    assert then.nodes[0].outputs[0] is not other.nodes[0].outputs[0]
    assert then.outputs[0] is then.nodes[1].outputs[0]


def test_inner_names_win() -> None:
    model = parse(
        """(float[2] x, bool f) => (float[2] y) {
            k = Relu(x)
            y = If (f) <then_branch = t () => (z) { k = Neg(x) z = Abs(k) }, else_branch = e () => (z) { z = Abs(k) }>
        }"""
    )
    graph = read(model)
    then, other = graph.nodes[1].inner
    assert then.nodes[1].inputs[0] is then.nodes[0].outputs[0]
    assert other.nodes[0].inputs[0] is graph.nodes[0].outputs[0]


def test_initializers_are_constants_and_overridable_ones_are_inputs() -> None:
    model = parse(
        "(float[2] x, float[2] w) => (float[2] y) { a = Add(x, w) y = Add(a, v) }", w=np.ones(2), v=np.zeros(2)
    )
    graph = read(model)
    assert [t.name for t in graph.inputs] == ["x", "w"]
    assert [t.name for t in graph.constants] == ["v"]
    graph = read(model, overridable=False)
    assert [t.name for t in graph.inputs] == ["x"]
    assert [t.name for t in graph.constants] == ["w", "v"]


def test_empty_names_are_nobody() -> None:
    model = parse("(float[2] x) => (float[2] y) { y = Clip(x, , k) }", k=np.array(1, np.float32))
    node = read(model).nodes[0]
    assert [t.name for t in node.inputs] == ["x", "", "k"]
    assert node.inputs[1].is_empty()


def test_names_that_nobody_gives_are_one_tensor_all_the_same() -> None:
    graph = read(parse("(float[2] x) => (float[2] y) { a = Add(x, ghost) y = Add(a, ghost) }"))
    assert graph.nodes[0].inputs[1] is graph.nodes[1].inputs[1]
    assert not graph.nodes[0].inputs[1].inputs


def test_attributes_are_python_values_where_there_are_such() -> None:
    graph = read(everything())
    attributes = next(n for n in graph.nodes if n.op == "Loose").attrs
    assert attributes["bytes"] == b"\xff\xfe\x00"
    assert attributes["many_bytes"] == ["plain", b"\xff"]
    assert attributes["text"] == "plain ü"
    assert [attributes[name] for name in ("no_ints", "no_floats", "no_strings")] == [[], [], []]
    assert attributes["integral"] == 2.0
    assert isinstance(attributes["tensor"], gs.Constant)
    for name in ("tensors", "graphs", "type", "types", "sparse"):
        assert isinstance(attributes[name], AttributeProto)


def test_sparse_initializers_are_not_constants() -> None:
    graph = read(everything())
    sparse = next(n for n in graph.nodes if n.op == "Identity").inputs[0]
    assert not isinstance(sparse, gs.Constant)
    assert (sparse.shape, sparse.dtype, sparse.type) == ([4], np.dtype(np.float32), "sparse_tensor_type")


@pytest.mark.parametrize(
    ("proto", "kind", "dtype", "shape"),
    [
        (helper.make_tensor_type_proto(TensorProto.FLOAT, ["b", 3, None]), "tensor_type", np.dtype(np.float32), ["b", 3, None]),
        (helper.make_tensor_type_proto(TensorProto.INT64, []), "tensor_type", np.dtype(np.int64), []),
        (helper.make_tensor_type_proto(TensorProto.STRING, None), "tensor_type", np.dtype(object), None),
        (helper.make_tensor_type_proto(TensorProto.BFLOAT16, [2]), "tensor_type", TensorProto.BFLOAT16, [2]),
        (helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [2])), "sequence_type", None, None),
        (helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [2])), "optional_type", None, None),
        (helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, [2])), "map_type", None, None),
        (helper.make_sparse_tensor_type_proto(1, [2]), "sparse_tensor_type", None, None),
        (onnx.TypeProto(), "tensor_type", None, None),
    ],
)  # fmt: skip
def test_types(proto: onnx.TypeProto, kind: str, dtype: object, shape: object) -> None:
    tensor = gs.Variable("t")
    set_type(tensor, proto)
    assert (tensor.type, tensor.dtype, tensor.shape) == (kind, dtype, shape)


def test_a_type_that_nobody_states() -> None:
    tensor = variable("t", {})
    assert (tensor.dtype, tensor.shape) == (None, None)


@pytest.mark.parametrize(
    ("call", "well_formed"),
    [
        ("y = Add(x, x)", True),
        ("y = Add(x)", False),
        ("y = Concat<axis=0>(x, x, x)", True),
        ("y = Concat(x, x)", False),
        ("y = Clip(x, , x)", True),
        ("y, z = Relu(x)", False),
        ("y = NoSuchOperator()", True),
    ],
)
def test_nodes_that_lack_something(call: str, well_formed: bool) -> None:
    assert read(parse(f"(float[2] x) => (float[2] y) {{ {call} }}")).nodes[0].well_formed == well_formed


def test_nothing_is_read_and_nothing_changed() -> None:
    model = everything()
    before = model.SerializeToString(deterministic=True)
    graph = read(model)
    assert all(t._values._array is None for t in graph.constants)
    assert graph.proto is model.graph
    assert model.SerializeToString(deterministic=True) == before


def test_large_attributes_are_not_copied() -> None:
    model = parse("(float[2] x) => (float[2] y) { k = Constant<value = float[2] {1, 2}>() y = Add(x, k) }")
    model.graph.node[0].attribute[0].t.CopyFrom(numpy_helper.from_array(np.ones(2, np.float32), "big"))
    constant = read(model).nodes[0].attrs["value"]
    assert (
        constant._values.tensor is model.graph.node[0].attribute[0].t
        or constant._values.tensor == model.graph.node[0].attribute[0].t
    )
