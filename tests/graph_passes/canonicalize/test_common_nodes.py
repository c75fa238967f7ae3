"""Hazard: two nodes that look alike and are not the same are computed once."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from dpiframe.graph_passes.canonicalize.common_nodes import share_common_nodes
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import agree, op_types, optimize, parse


def shared(model: onnx.ModelProto) -> list[str]:
    bench = Workbench(model)
    bench.infer_shapes()
    while share_common_nodes(bench, []):
        bench.tidy()
    return op_types(bench.to_model())


X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


@pytest.mark.parametrize(
    "nodes",
    [
        "a = Relu(x) c = Relu(x)",
        "a = Add(x, k) c = Add(x, k2)",
        "a = Softmax<axis=1>(x) c = Softmax<axis=1>(x)",
        "a = Transpose<perm=[1,0]>(x) c = Transpose<perm=[1,0]>(x)",
        "a = Clip(x, , k1) c = Clip(x, , k1)",
        "a, p = TopK(x, one) c, q = TopK(x, one)",
    ],
)
def test_repeated_nodes_are_computed_once(nodes: str) -> None:
    text = f"(float[3,4] x) => (float[n,m] y) {{ {nodes} y = Sub(a, c) }}"
    constants = {
        "k": np.ones(4, np.float32),
        "k2": np.ones(4, np.float32),
        "k1": np.array(1, np.float32),
        "one": np.array([1]),
    }
    words = text.replace("(", " ").replace(")", " ").replace(",", " ").split()
    model = parse(text, **{n: v for n, v in constants.items() if n in words})
    assert len(shared(model)) == 2
    agree(model, optimize(model), {"x": X})


@pytest.mark.parametrize(
    "nodes",
    [
        "a = Relu(x) c = Abs(x)",
        "a = Add(x, k) c = Add(x, k3)",
        "a = Sub(x, k) c = Sub(k, x)",
        "a = Softmax<axis=0>(x) c = Softmax<axis=1>(x)",
        "a = Softmax(x) c = Softmax<axis=0>(x)",
        "a = LeakyRelu<alpha=0.5>(x) c = LeakyRelu<alpha=0.25>(x)",
        "a = Clip(x, , k1) c = Clip(x, k1)",
        "a = Add(x, k) c = Add(x, kh)",
        "a = RandomUniformLike(x) c = RandomUniformLike(x)",
        "a = RandomNormalLike<seed=1.0>(x) c = RandomNormalLike<seed=1.0>(x)",
        "a = Bernoulli(p) c = Bernoulli(p)",
        "a = Dropout(x, half, true) c = Dropout(x, half, true)",
    ],
)
def test_nodes_that_differ_stay(nodes: str) -> None:
    text = f"(float[3,4] x, float[3,4] p) => (float[n,m] y) {{ {nodes} y = Sub(a, c) }}"
    constants = {
        "k": np.ones(4, np.float32), "k3": np.full(4, 3, np.float32), "k1": np.array(1, np.float32), "half": np.array(0.5, np.float32),
        "true": np.array(True), "kh": np.ones((1, 4), np.float32),
    }  # fmt: skip
    words = text.replace("(", " ").replace(")", " ").replace(",", " ").split()
    model = parse(text, **{n: v for n, v in constants.items() if n in words})
    assert len(shared(model)) == 3


def test_an_output_that_one_of_them_leaves_out_stays_there() -> None:
    # sharing the first's missing output would cut the second's readers off
    model = parse(
        """(float[3,4] x) => (float[3,4] y, float[3,1] z) {
            a = LayerNormalization(x, k)
            c, m = LayerNormalization(x, k)
            y = Sub(a, c) z = Neg(m)
        }""",
        k=np.ones(4, np.float32),
    )
    model.graph.node[0].output.append("")
    assert shared(model) == ["LayerNormalization", "LayerNormalization", "Sub", "Neg"]
    agree(model, optimize(model), {"x": X}, reference=False)


def test_attributes_that_only_the_protobuf_holds_count() -> None:
    nodes = []
    for number, kind in enumerate((TensorProto.FLOAT, TensorProto.INT64)):
        node = helper.make_node("Optional", [], [f"o{number}"])
        node.attribute.append(helper.make_attribute("type", helper.make_tensor_type_proto(kind, [1])))
        nodes += [node, helper.make_node("OptionalHasElement", [f"o{number}"], [f"h{number}"])]
    nodes.append(helper.make_node("And", ["h0", "h1"], ["y"]))
    graph = helper.make_graph(nodes, "g", [], [helper.make_tensor_value_info("y", TensorProto.BOOL, [])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    assert shared(model).count("Optional") == 2


def test_chains_are_shared_from_the_top() -> None:
    # an id's casts are repeated for each table that it is looked up in
    model = parse(
        """(float[b,2] X) => (int64[b,1] y) {
            p = Slice(X, z, o, o) q = Slice(X, z, o, o)
            a = Cast<to=7>(p) c = Cast<to=7>(q)
            s = Abs(a) t = Abs(c)
            y = Add(s, t)
        }""",
        z=np.array([0]), o=np.array([1]),
    )  # fmt: skip
    assert shared(model) == ["Slice", "Cast", "Abs", "Add"]
    agree(model, optimize(model), {"X": X[:, :2]})


def test_nodes_that_give_graph_outputs_stay() -> None:
    model = parse("(float[3,4] x) => (float[3,4] y, float[3,4] z) { y = Relu(x) z = Relu(x) }")
    result = optimize(model)
    assert op_types(result.model) == ["Relu", "Relu"]
    agree(model, result, {"x": X})


def test_branches_share_within_themselves_only() -> None:
    model = parse(
        """(float[3,4] x, bool f) => (float[3,4] y) {
            y = If (f) <
                then_branch = t () => (z) { a = Relu(x) c = Relu(x) z = Add(a, c) },
                else_branch = e () => (z) { a = Relu(x) z = Neg(a) }
            >
        }"""
    )
    result = optimize(model)
    assert [op_types(a.g) for a in result.model.graph.node[0].attribute] == [["Relu", "Add"], ["Relu", "Neg"]]
    for flag in (True, False):
        agree(model, result, {"x": X, "f": np.array(flag)})


def test_nodes_with_branches_are_not_compared() -> None:
    branch = "then_branch = t () => (z) { z = Relu(x) }, else_branch = e () => (z) { z = Neg(x) }"
    model = parse(
        f"(float[3,4] x, bool f) => (float[3,4] y) {{ a = If (f) <{branch}> c = If (f) <{branch}> y = Sub(a, c) }}"
    )
    assert shared(model) == ["If", "If", "Sub"]


def test_operators_of_other_domains_may_have_state() -> None:
    model = parse(
        "(float[3,4] x) => (float[3,4] y) { a = vendor.Op(x) c = vendor.Op(x) y = Sub(a, c) }", imports=', "vendor": 1'
    )
    assert shared(model) == ["Op", "Op", "Sub"]


def test_large_constants_are_compared_by_identity() -> None:
    values = np.zeros(1 << 12, np.float32)
    model = parse(
        "(float[4096] x) => (float[4096] y) { a = Add(x, v) c = Add(x, w) d = Add(x, v) e = Sub(a, c) y = Sub(e, d) }",
        v=values, w=values,
    )  # fmt: skip
    assert shared(model) == ["Add", "Add", "Sub", "Sub"]


def test_the_report() -> None:
    bench = Workbench(
        parse("(float[3,4] x) => (float[3,4] y) { a = Relu(x) c = Relu(x) d = Relu(x) e = Add(a, c) y = Add(e, d) }")
    )
    changes: list[str] = []
    assert share_common_nodes(bench, changes)
    assert changes == ["2 repeated nodes are computed once"]
    bench.tidy()
    assert not share_common_nodes(bench, changes)
