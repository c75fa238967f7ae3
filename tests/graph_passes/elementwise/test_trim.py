"""Hazard: a group writes a copy of what is there already, or loses a node that it needs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from dpiframe.graph_passes.elementwise import trim
from dpiframe.graph_passes.elementwise.trim import given, halves, is_given, pieces, trimmed
from dpiframe.graph_passes.graphs import Node
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import parse

SHAPE = np.array([0, 2, 2])
OUTSIDE = ("MatMul", "Shape")


def group_of(model: onnx.ModelProto) -> tuple[list[Node], set[int]]:
    bench = Workbench(model)
    return [node for node in bench.graph.nodes if node.op not in OUTSIDE], bench.output_ids()


def left(text: str) -> list[str]:
    nodes, outputs = group_of(parse(text, c=SHAPE, flat=np.array([0, 4]), w=np.ones((4, 4), np.float32)))
    return [node.outputs[0].name for node in trimmed(nodes, outputs)]


def test_views_inside_stay() -> None:
    assert left("(float[b,4] x) => (float[b,2,2] y) { a = Relu(x) r = Reshape(a, c) y = Neg(r) }") == ["a", "r", "y"]


def test_a_view_of_an_input_that_only_the_group_reads_stays() -> None:
    assert left("(float[b,4] x) => (float[b,2,2] y) { r = Reshape(x, c) y = Neg(r) }") == ["r", "y"]


def test_a_view_of_an_input_that_others_read_goes() -> None:
    text = "(float[b,4] x) => (float[b,2,2] y, float[b,2,2] z) { r = Reshape(x, flat) y = Neg(r) z = MatMul(r, w) }"
    assert left(text) == ["y"]


def test_a_view_of_an_input_that_is_a_graphs_output_goes() -> None:
    assert left("(float[b,4] x) => (float[b,2,2] y, float[b,2,2] r) { r = Reshape(x, c) y = Neg(r) }") == ["y"]


def test_views_of_views_of_an_input_go_together() -> None:
    text = """(float[b,4] x) => (float[b,4] y, float[b,4] z) {
        r = Reshape(x, c) s = Reshape(r, flat) t = Identity(s) y = Neg(t) z = MatMul(t, w)
    }"""
    assert left(text) == ["y"]


def test_a_view_as_the_last_node_stays() -> None:
    """It gives the value in the shape that is wanted."""
    text = "(float[b,2,2] x) => (float[b,4] z) { a = Relu(x) r = Reshape(a, flat) z = MatMul(r, w) }"
    assert left(text) == ["a", "r"]


def test_a_view_beside_its_value_goes() -> None:
    text = """(float[b,2,2] x) => (float[b,4] z, float[b,2,2] y) {
        a = Relu(x) r = Reshape(a, flat) z = MatMul(r, w) y = MatMul(a, w)
    }"""
    assert left(text) == ["a"]


def test_a_view_beside_its_value_that_the_group_reads_stays() -> None:
    """Without it a path would leave the group and come back."""
    text = """(float[b,2,2] x) => (float[b,4] z, float[b,2,2] y) {
        a = Relu(x) r = Reshape(a, flat) z = Neg(r) y = MatMul(a, w)
    }"""
    assert left(text) == ["a", "r", "z"]


def test_moves_that_cost_a_kernel_stay() -> None:
    text = "(float[b,2,2] x) => (float[b,2,2] y, float[b,2,2] z) { t = Transpose<perm=[0,2,1]>(x) y = Neg(t) z = MatMul(t, w) }"
    assert left(text) == ["t", "y"]


def test_what_a_group_gives() -> None:
    nodes, outputs = group_of(
        parse(
            """(float[b,4] x) => (float[b,4] y, float[b,4] z) {
                a = Relu(x) c = Neg(a) d = Neg(c) y = Neg(d) z = MatMul(c, w)
            }""",
            w=np.ones((4, 4), np.float32),
        )
    )
    assert [tensor.name for tensor in given(nodes, outputs)] == ["c", "y"]
    assert [tensor.name for tensor in given(nodes[:2], outputs)] == ["c"]


def test_outputs_that_nothing_reads_are_not_given() -> None:
    nodes, outputs = group_of(
        parse(
            "(float[b,4] x) => (float[b,2] y) { p, q = Split<axis=1,num_outputs=2>(x) y = Neg(q) }",
        )
    )
    assert given(nodes, outputs) == [nodes[1].outputs[0]]
    assert not is_given(nodes[0].outputs[0], {id(node) for node in nodes}, outputs)


@pytest.mark.parametrize(("limit", "want"), [(3, [3, 3, 1]), (7, [7]), (100, [7])])
def test_pieces_of_a_large_group(limit: int, want: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trim, "MAX_NODES", limit)
    nodes = [Node("Relu", name=str(index)) for index in range(7)]
    parts = list(pieces(nodes))
    assert [len(part) for part in parts] == want
    assert [node.name for part in parts for node in part] == list("0123456")


@pytest.mark.parametrize(("count", "want"), [(1, []), (2, []), (3, [1, 2]), (7, [3, 4]), (8, [4, 4])])
def test_halves(count: int, want: list[int]) -> None:
    nodes = [Node("Relu", name=str(index)) for index in range(count)]
    parts = halves(nodes)
    assert [len(part) for part in parts] == want
    assert [node for part in parts for node in part] == (nodes if want else [])
