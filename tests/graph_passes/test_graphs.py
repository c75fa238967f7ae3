"""Hazard: an edit of the graph hits another node than meant, is slow on large graphs, or fails on deep ones."""

from __future__ import annotations

import time

import numpy as np
import onnx_graphsurgeon as gs
import pytest
from onnx import TensorProto, numpy_helper

from dpiframe.graph_passes.graphs import (
    Node,
    StoredValues,
    byte_size,
    detach,
    is_standard,
    node_label,
    numpy_type,
    reads,
    replace_uses,
    set_input,
    set_inputs,
    set_producer,
    tidy,
    type_name,
    values_of,
)
from dpiframe.graph_passes.model_io import ModelError
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import op_types, parse


def wired(graph: gs.Graph) -> None:
    """Every node stands with each tensor that it reads and writes, as often as it does, and nobody else does."""
    readers: dict[int, list[int]] = {}
    producers: dict[int, list[int]] = {}
    tensors: dict[int, gs.Tensor] = {}

    def walk(nodes: list[Node]) -> None:
        for node in nodes:
            for entries, table in ((node.inputs, readers), (node.outputs, producers)):
                for tensor in entries:
                    tensors[id(tensor)] = tensor
                    table.setdefault(id(tensor), []).append(id(node))
            for inner in node.inner:
                walk(inner.nodes)

    walk(graph.nodes)
    for key, tensor in tensors.items():
        assert sorted(map(id, tensor.outputs)) == sorted(readers.get(key, [])), tensor.name
        assert sorted(map(id, tensor.inputs)) == sorted(producers.get(key, [])), tensor.name


BRANCHES = """(float[2] x, bool f) => (float[2] y) {
    i = Identity(x)
    dead = Neg(i)
    y = If (f) <
        then_branch = t () => (z) { m = Relu(i) n = Abs(i) z = Add(m, m) },
        else_branch = e () => (z) { m = Relu(i) z = Sub(m, x) }
    >
}"""


def test_nodes_equal_only_themselves() -> None:
    x = gs.Variable("x")
    a, b = (Node("Relu", name="twin", inputs=[x], outputs=[gs.Variable("y")]) for _ in range(2))
    assert a != b
    assert a == a
    assert len({a, b}) == 2


def test_replace_uses_reaches_every_reader_and_every_operand() -> None:
    graph = Workbench(parse(BRANCHES)).graph
    identity = graph.nodes[0]
    replace_uses(identity.outputs[0], identity.inputs[0])
    wired(graph)
    assert not identity.outputs[0].outputs
    assert len(identity.inputs[0].outputs) == 6


def test_replace_uses_of_an_operand_that_stands_twice() -> None:
    graph = Workbench(parse("(float[2] x) => (float[2] y) { r = Relu(x) y = Add(r, r) }")).graph
    relu, add = graph.nodes
    replace_uses(relu.outputs[0], relu.inputs[0])
    assert [t.name for t in add.inputs] == ["x", "x"]
    wired(graph)


def test_set_input_changes_one_operand() -> None:
    graph = Workbench(parse("(float[2] x) => (float[2] y) { r = Relu(x) y = Add(r, r) }")).graph
    relu, add = graph.nodes
    set_input(add, 1, relu.inputs[0])
    assert [t.name for t in add.inputs] == ["r", "x"]
    wired(graph)


def test_set_inputs_changes_all_operands() -> None:
    graph = Workbench(parse("(float[2] x) => (float[2] y) { r = Relu(x) y = Concat<axis=0>(r, x, r) }")).graph
    relu, concat = graph.nodes
    new = gs.Variable("new")
    set_inputs(concat, [new, relu.outputs[0]])
    assert [t.name for t in concat.inputs] == ["new", "r"]
    wired(graph)


def test_set_producer_leaves_the_old_one_a_placeholder() -> None:
    graph = Workbench(parse("(float[4] x) => (float[2] y, float[2] z) { y, z = Split<num_outputs=2>(x) }")).graph
    split = graph.nodes[0]
    y, _z = split.outputs
    new = Node("New", name="new")
    graph.nodes.append(new)
    set_producer(y, new, gs.Variable("placeholder"))
    assert [t.name for t in split.outputs] == ["placeholder", "z"]
    assert [t.name for t in new.outputs] == ["y"]
    wired(graph)


def test_detach_takes_subgraphs_along() -> None:
    graph = Workbench(parse(BRANCHES)).graph
    branch = graph.nodes[2]
    i, x = graph.nodes[0].outputs[0], graph.inputs[0]
    detach([branch])
    graph.nodes.remove(branch)
    assert [n.op for n in i.outputs] == ["Neg"]
    assert [n.op for n in x.outputs] == ["Identity"]
    wired(graph)


def test_tidy_drops_what_no_output_needs_inner_graphs_first() -> None:
    bench = Workbench(parse(BRANCHES))
    assert tidy(bench.graph) == 2
    written = bench.to_model()
    assert op_types(written) == ["Identity", "If"]
    assert [op_types(a.g) for a in written.graph.node[1].attribute] == [["Relu", "Add"], ["Relu", "Sub"]]
    wired(bench.graph)


def test_tidy_keeps_what_only_a_branch_reads() -> None:
    bench = Workbench(parse(BRANCHES))
    tidy(bench.graph)
    assert bench.graph.nodes[0].op == "Identity"


def test_tidy_sorts_and_else_keeps_the_order() -> None:
    bench = Workbench(parse("(float[2] x) => (float[2] y) { c = Abs(x) d = Neg(c) e = Relu(x) y = Add(d, e) }"))
    nodes = bench.graph.nodes
    bench.graph.nodes = [nodes[3], nodes[1], nodes[2], nodes[0]]
    tidy(bench.graph)
    assert [n.op for n in bench.graph.nodes] == ["Relu", "Abs", "Neg", "Add"]
    tidy(bench.graph)
    assert [n.op for n in bench.graph.nodes] == ["Relu", "Abs", "Neg", "Add"]


def test_tidy_sorts_by_what_branches_read() -> None:
    bench = Workbench(parse(BRANCHES))
    bench.graph.nodes.reverse()
    tidy(bench.graph)
    assert [n.op for n in bench.graph.nodes] == ["Identity", "If"]


def test_a_cycle_is_named() -> None:
    bench = Workbench(parse("(float[2] x) => (float[2] y) { a = Add(x, x) b = Relu(a) y = Neg(b) }"))
    add, relu, _ = bench.graph.nodes
    set_input(add, 1, relu.outputs[0])
    with pytest.raises(ModelError, match="node 'a' depends on its own output"):
        tidy(bench.graph)


def test_a_graph_deeper_than_the_stack() -> None:
    steps = "\n".join(f"x{k + 1} = Relu(x{k})" for k in range(3000))
    bench = Workbench(parse(f"(float[2] x0) => (float[2] x3000) {{ {steps} }}"))
    bench.graph.nodes.reverse()
    assert tidy(bench.graph) == 0
    assert [n.outputs[0].name for n in bench.graph.nodes] == [f"x{k + 1}" for k in range(3000)]


def test_a_constant_with_ten_thousand_readers() -> None:
    one = gs.Constant("one", np.ones(1, np.float32))
    x = gs.Variable("x")
    nodes = [Node("Add", inputs=[x, one], outputs=[gs.Variable(f"y{k}")]) for k in range(10_000)]
    graph = Workbench(parse("(float[2] x) => (float[2] y) { y = Relu(x) }")).graph
    graph.nodes, graph.outputs = nodes, [nodes[0].outputs[0]]
    started = time.process_time()
    replace_uses(one, gs.Constant("other", np.ones(1, np.float32)))
    assert tidy(graph) == 9_999
    assert time.process_time() - started < 1
    assert len(x.outputs) == 1


def test_reads_counts_what_subgraphs_read() -> None:
    graph = Workbench(parse(BRANCHES)).graph
    assert {t.name for t in reads(graph.nodes[2])} >= {"f", "i", "x"}
    assert [t.name for t in reads(graph.nodes[0])] == ["x"]


def test_values_are_read_once_and_the_stored_tensor_stays() -> None:
    stored = numpy_helper.from_array(np.arange(6).reshape(2, 3), "w")
    constant = gs.Constant("w", StoredValues(stored))
    assert constant.shape == [2, 3]
    assert constant.dtype == np.dtype(np.int64)
    np.testing.assert_array_equal(values_of(constant), [[0, 1, 2], [3, 4, 5]])
    assert values_of(constant) is values_of(constant) or np.shares_memory(values_of(constant), values_of(constant))
    assert constant._values.tensor is stored


@pytest.mark.parametrize(
    ("values", "size"),
    [
        (np.zeros((3, 4), np.float32), 48),
        (np.zeros((), np.int64), 8),
        (np.zeros((0, 4), np.float32), 0),
        (np.zeros(5, bool), 5),
    ],
)
def test_byte_size(values: np.ndarray, size: int) -> None:
    assert byte_size(gs.Constant("c", values)) == size
    assert byte_size(gs.Constant("c", StoredValues(numpy_helper.from_array(values)))) == size


def test_byte_size_of_a_huge_tensor_without_data() -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1 << 40, 64])
    assert byte_size(gs.Constant("w", StoredValues(tensor))) == (1 << 40) * 64 * 4


def test_types_that_numpy_has_and_types_that_it_lacks() -> None:
    assert numpy_type(TensorProto.FLOAT) == np.dtype(np.float32)
    assert numpy_type(TensorProto.BOOL) == np.dtype(bool)
    assert numpy_type(TensorProto.BFLOAT16) == TensorProto.BFLOAT16
    assert numpy_type(TensorProto.UNDEFINED) is None
    kinds = [np.dtype(np.float16), TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN, 9999, None]
    names = [type_name(gs.Variable("t", kind)) for kind in kinds]
    assert names == ["float16", "bfloat16", "float8e4m3fn", "9999", "None"]


@pytest.mark.parametrize(("domain", "standard"), [(None, True), ("", True), ("ai.onnx", True), ("ai.onnx.ml", False)])
def test_the_standard_domain(domain: str | None, standard: bool) -> None:
    assert is_standard(Node("Relu", domain=domain)) == standard


def test_labels() -> None:
    x, y = gs.Variable("x"), gs.Variable("y")
    assert node_label(Node("Relu", name="named", outputs=[y])) == "named"
    assert node_label(Node("Relu", outputs=[gs.Variable.empty(), y])) == "y"
    assert node_label(Node("Relu", inputs=[x])) == "Relu"
