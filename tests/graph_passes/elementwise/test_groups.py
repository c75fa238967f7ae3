"""Hazard: nodes become one node that depends on itself, or that makes a matrix product wait for nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from dpiframe.graph_passes.elementwise.groups import Group, find_groups
from dpiframe.graph_passes.elementwise.rows import Axes
from dpiframe.graph_passes.graphs import Node, reads
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import parse

SUPPORTED = {"Relu", "Neg", "Add", "Mul", "Sigmoid", "Concat", "Unsqueeze", "Exp"}


def groups_of(model: onnx.ModelProto, may_wait: Callable[[list[Node]], bool] = lambda nodes: True) -> list[list[str]]:
    """The outputs of each group's nodes. MatMul, Gemm and what isn't listed above are outside."""
    graph = Workbench(model).graph
    accepted: dict[int, Axes] = {id(node): ("b",) for node in graph.nodes if node.op in SUPPORTED}
    groups = find_groups(graph, accepted, may_wait)
    check(graph.nodes, groups)
    return [[node.outputs[0].name for node in group.nodes] for group in groups]


def check(nodes: list[Node], groups: list[Group]) -> None:
    """The groups as nodes make a graph without cycles: so none is left and entered again."""
    place = {id(node): f"group {index}" for index, group in enumerate(groups) for node in group.nodes}
    after: dict[object, set[object]] = {}
    for node in nodes:
        own = place.get(id(node), id(node))
        before = {place.get(id(p), id(p)) for tensor in reads(node) for p in tensor.inputs}
        after.setdefault(own, set()).update(before - {own})
    while after:
        free = [key for key, before in after.items() if not before & after.keys()]
        assert free, "a cycle of groups"
        for key in free:
            del after[key]


WEIGHT = np.ones((4, 4), np.float32)


def test_a_chain() -> None:
    model = parse("(float[b,4] x) => (float[b,4] y) { a = Relu(x) c = Neg(a) y = Sigmoid(c) }")
    assert groups_of(model) == [["a", "c", "y"]]


def test_a_product_between() -> None:
    model = parse(
        "(float[b,4] x) => (float[b,4] y) { a = Relu(x) c = Neg(a) g = MatMul(c, w) d = Exp(g) y = Neg(d) }", w=WEIGHT
    )
    assert groups_of(model) == [["a", "c"], ["d", "y"]]


def test_a_path_that_leaves_and_comes_back() -> None:
    """A cross layer: x0 * (W x) + x would otherwise contain what W waits for."""
    model = parse(
        "(float[b,4] x) => (float[b,4] y) { a = Relu(x) g = MatMul(a, w) m = Mul(a, g) y = Add(m, a) }", w=WEIGHT
    )
    assert groups_of(model) == [["a"], ["m", "y"]]


def test_cross_layers_in_a_row() -> None:
    model = parse(
        """(float[b,4] x) => (float[b,4] y) {
            a = Neg(x) g = MatMul(a, w) c = Mul(a, g) d = Add(c, a) h = MatMul(d, w) e = Mul(a, h) y = Add(e, d)
        }""",
        w=WEIGHT,
    )
    assert groups_of(model) == [["a"], ["c", "d"], ["e", "y"]]


def test_two_branches_that_meet() -> None:
    """Only the last group needs both, so it takes in what neither product waits for."""
    model = parse(
        """(float[b,4] x) => (float[b,4] y) {
            g = MatMul(x, w) h = MatMul(x, w) a = Relu(g) c = Relu(h) m = Mul(a, c) y = Neg(m)
        }""",
        w=WEIGHT,
    )
    assert groups_of(model) == [["a", "c", "m", "y"]]


def test_a_product_does_not_wait_for_the_other_branch() -> None:
    model = parse(
        """(float[b,4] x) => (float[b,4] y, float[b,4] z) {
            g = MatMul(x, w) h = MatMul(x, w) a = Relu(g) c = Relu(h) y = Mul(a, c) z = MatMul(a, w)
        }""",
        w=WEIGHT,
    )
    assert groups_of(model) == [["a"], ["c", "y"]]


def test_an_early_value_that_a_later_product_needs() -> None:
    """What is ready before the first product doesn't come after it because the second one reads both."""
    model = parse(
        """(float[b,4] x, float[b,4] u) => (float[b,4] y) {
            e = Exp(u) n = Neg(e) f = MatMul(e, w) g = MatMul(x, w) a = Relu(g) s = Add(a, n) t = Add(s, f) y = Relu(t)
        }""",
        w=WEIGHT,
    )
    assert groups_of(model) == [["e", "n"], ["a", "s", "t", "y"]]


def test_work_that_should_not_wait() -> None:
    text = """(float[b,4] x) => (float[b,4] y) {
        a = Relu(x) c = Neg(a) g = MatMul(x, w) d = Relu(g) y = Add(c, d)
    }"""
    assert groups_of(parse(text, w=WEIGHT)) == [["a", "c", "d", "y"]]
    assert groups_of(parse(text, w=WEIGHT), may_wait=lambda nodes: False) == [["a", "c"], ["d", "y"]]


def test_what_has_two_readers_does_not_go_with_one() -> None:
    model = parse(
        """(float[b,4] x) => (float[b,4] y, float[b,4] z) {
            a = Relu(x) g = MatMul(x, w) h = MatMul(x, w) y = Add(a, g) z = Add(a, h)
        }""",
        w=WEIGHT,
    )
    assert groups_of(model) == [["a"], ["y"], ["z"]]


def test_a_chain_of_early_groups() -> None:
    model = parse(
        """(float[b,4] x) => (float[b,4] y) {
            a = Relu(x) g = MatMul(x, w) c = Add(a, g) h = MatMul(g, w) d = Add(c, h) y = Neg(d)
        }""",
        w=WEIGHT,
    )
    assert groups_of(model) == [["a", "c", "d", "y"]]


def test_the_pieces_of_a_join() -> None:
    """Each numeric field's own projection, all read by one node outside."""
    model = parse(
        """(float[b,4] x, float[b,4] u, float[b,4] v) => (float[b,4] y, float[b,4] z) {
            a = Relu(x) c = Relu(u) d = Relu(v) j = other.Join(a, c) z = Neg(d) y = Relu(j)
        }""",
        imports=', "other": 1',
    )
    assert groups_of(model) == [["a", "c"], ["d", "z"], ["y"]]


def test_a_region_is_no_one_reader() -> None:
    """Before streams were assigned its nodes were several: so a second run forms what the first one did."""
    text = """(float[b,4] x, float[b,4] u) => (float[b,4] y) {{
        a = Relu(x) c = Relu(u) j = {reader}(a, c) y = Relu(j)
    }}"""
    for reader, want in (
        ("dpiframe.FusedMultiGather", [["a", "c"], ["y"]]),
        ("dpiframe.ParallelRegion_1", [["a"], ["c"], ["y"]]),
        ("dpiframe.ParallelRegionV2", [["a", "c"], ["y"]]),
    ):
        assert groups_of(parse(text.format(reader=reader), imports=', "dpiframe": 1')) == want


def test_row_spaces_are_apart() -> None:
    graph = Workbench(
        parse(
            "(float[b,4] x, float[b,l,4] s) => (float[b,l,4] y) { a = Relu(x) u = Unsqueeze(a, one) c = Relu(s) y = Add(u, c) }",
            one=np.array([1]),
        )
    ).graph
    accepted = {id(node): ("b",) if node.outputs[0].name in "au" else ("b", "l") for node in graph.nodes}
    groups = find_groups(graph, accepted, lambda nodes: True)
    assert [(group.axes, len(group.nodes)) for group in groups] == [(("b",), 2), (("b", "l"), 2)]


def test_what_a_branch_reads_from_around_it() -> None:
    model = parse(
        """(float[b,4] x, bool t) => (float[b,4] y) {
            a = Relu(x) c = Neg(a)
            i = If(t) <then_branch = g () => (float[b,4] p) { p = Exp(c) }, else_branch = h () => (float[b,4] q) { q = Neg(a) }>
            d = Neg(i) y = Add(d, c)
        }"""
    )
    assert groups_of(model) == [["a", "c"], ["d", "y"]]


def test_graph_outputs_inside_a_group() -> None:
    model = parse("(float[b,4] x) => (float[b,4] a, float[b,4] y) { a = Relu(x) c = Neg(a) y = Neg(c) }")
    assert groups_of(model) == [["a", "c", "y"]]


def random_model(choices: list[tuple[int, int, int]]) -> onnx.ModelProto:
    """Nodes of one or two operands among those before them."""
    names, nodes = ["x"], []
    for index, (kind, first, second) in enumerate(choices):
        a, b = names[first % len(names)], names[second % len(names)]
        op = ("Relu", "Add", "Add", "Mul", "MatMul")[kind % 5]
        operands = [a] if op == "Relu" else [a, "w"] if op == "MatMul" else [a, b]
        nodes.append(helper.make_node(op, operands, [f"n{index}"]))
        names.append(f"n{index}")
    read = {name for node in nodes for name in node.input}
    outputs = [name for name in names if name not in read] or ["x"]
    shape = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 4])
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["b", 4]) for name in outputs]
    weight = onnx.numpy_helper.from_array(WEIGHT, "w")
    graph = helper.make_graph(nodes, "random", [shape], results, [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def waits_for(nodes: list[Node]) -> dict[int, set[int]]:
    """The products before each node."""
    before: dict[int, set[int]] = {}
    for node in nodes:
        before[id(node)] = set()
        for tensor in node.inputs:
            for producer in tensor.inputs:
                before[id(node)] |= before[id(producer)] | ({id(producer)} if producer.op == "MatMul" else set())
    return before


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=40),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_any_graph(choices: list[tuple[int, int, int]], may_wait: bool) -> None:
    """No cycle of groups, and no product waits for a product that it didn't wait for before."""
    graph = Workbench(random_model(choices)).graph
    accepted: dict[int, Axes] = {id(node): ("b",) for node in graph.nodes if node.op in SUPPORTED}
    groups = find_groups(graph, accepted, lambda nodes: may_wait)
    check(graph.nodes, groups)
    assert sorted(id(node) for group in groups for node in group.nodes) == sorted(accepted)
    before = waits_for(graph.nodes)
    for group in groups:
        all_before = set().union(*(before[id(node)] for node in group.nodes))
        for node in group.nodes:
            if any(reader.op == "MatMul" for reader in node.outputs[0].outputs):
                assert before[id(node)] == all_before


@pytest.mark.parametrize("rungs", [1000, 4000])
def test_a_ladder_of_diamonds(rungs: int) -> None:
    """2^n paths, and as many products as rungs: time grows with the graph."""
    nodes = []
    for rung in range(rungs):
        last = f"r{rung - 1}" if rung else "x"
        nodes += [helper.make_node("Relu", [last], [f"a{rung}"]), helper.make_node("MatMul", [last, "w"], [f"c{rung}"])]
        nodes.append(helper.make_node("Add", [f"a{rung}", f"c{rung}"], [f"r{rung}"]))
    shape = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 4])
    result = helper.make_tensor_value_info(f"r{rungs - 1}", TensorProto.FLOAT, ["b", 4])
    graph = helper.make_graph(nodes, "ladder", [shape], [result], [onnx.numpy_helper.from_array(WEIGHT, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    bench = Workbench(model)
    accepted: dict[int, Axes] = {id(node): ("b",) for node in bench.graph.nodes if node.op in SUPPORTED}
    start = time.process_time()
    groups = find_groups(bench.graph, accepted, lambda nodes: True)
    assert time.process_time() - start < 4
    assert len(groups) == rungs
