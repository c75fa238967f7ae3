"""Hazard: the pass takes time or text that grows faster than the graph."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dpiframe.graph_passes.pipeline import PipelineResult, optimize_model
from tests.graph_passes.elementwise.programs import program_texts

NODES = 10_000
Nodes = list[onnx.NodeProto]


def chain() -> Nodes:
    return [helper.make_node(("Sin", "Cos", "Exp")[i % 3], [f"n{i}"], [f"n{i + 1}"]) for i in range(NODES)]


def ladder() -> Nodes:
    """Two ways through each rung, a product in every twentieth."""
    nodes = []
    for i in range(NODES // 3):
        nodes.append(helper.make_node("Abs", [f"n{i}"], [f"a{i}"]))
        nodes.append(
            helper.make_node("MatMul", [f"n{i}", "w"], [f"c{i}"])
            if i % 20 == 0
            else helper.make_node("Neg", [f"n{i}"], [f"c{i}"])
        )
        nodes.append(helper.make_node("Add", [f"a{i}", f"c{i}"], [f"n{i + 1}"]))
    return nodes


def alternating() -> Nodes:
    """A group of two nodes, a product, a group, and so on: what comes before a node is a long list."""
    nodes = []
    for i in range(NODES // 3):
        nodes.append(helper.make_node("Exp", [f"n{i}"], [f"a{i}"]))
        nodes.append(helper.make_node("Mul", [f"a{i}", f"n{i}"], [f"c{i}"]))
        nodes.append(helper.make_node("MatMul", [f"c{i}", "w"], [f"n{i + 1}"]))
    return nodes


def fan() -> Nodes:
    """One value with thousands of readers, and a join of them all."""
    nodes = [helper.make_node(("Sin", "Neg")[i % 2], ["n0"], [f"f{i}"]) for i in range(2)]
    names = ["f0", "f1"]
    for i in range(NODES // 2):
        nodes.append(helper.make_node("Add", ["n0", f"k{i}"], [f"g{i}"]))
        nodes.append(helper.make_node("Mul", [f"g{i}", names[i % 2]], [f"h{i}"]))
    last = "n0"
    for i in range(NODES // 2):
        nodes.append(helper.make_node("Add", [last, f"h{i}"], [f"s{i}"]))
        last = f"s{i}"
    nodes.append(helper.make_node("Neg", [last], ["n1"]))
    return nodes


def model_of(nodes: Nodes) -> onnx.ModelProto:
    last = nodes[-1].output[0]
    read = {name for node in nodes for name in node.input}
    numbers = [numpy_helper.from_array(np.float32(name[1:]), name) for name in read if name.startswith("k")]
    weight = [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")] if "w" in read else []
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("n0", TensorProto.FLOAT, ["b", 4])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, ["b", 4])],
        [*numbers, *weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def timed(model: onnx.ModelProto) -> tuple[PipelineResult, float]:
    # of this process alone: the machine may be busy with other tests
    start = time.process_time()
    result = optimize_model(model, provider="cuda")
    return result, time.process_time() - start


@pytest.mark.parametrize("shape", [chain, ladder, alternating, fan])
def test_ten_thousand_nodes_in_seconds(shape: Callable[[], Nodes]) -> None:
    result, seconds = timed(model_of(shape()))
    assert seconds < 20
    assert result.fused
    assert result.nodes_after < NODES


def test_time_grows_with_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "NODES", 2_500)
    _, small = timed(model_of(alternating()))
    monkeypatch.setitem(globals(), "NODES", 10_000)
    _, large = timed(model_of(alternating()))
    assert large < 8 * small + 1


def test_text_grows_with_the_graph() -> None:
    result, _ = timed(model_of(chain()))
    texts = program_texts(result.model)
    assert sum(map(len, texts)) < 40 * NODES
    assert max(map(len, texts)) < 1 << 15
