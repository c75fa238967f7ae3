"""Hazard: a pass breaks a model, and the next one makes something of it; or a sound file fails a condition."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_graphsurgeon as gs
import pytest
from onnx import helper

from dpiframe.graph_passes.conditions import (
    constants_are_initializers,
    fused_nodes_have_bodies,
    interface_is_kept,
    names_are_apart,
    nodes_are_in_order,
)
from dpiframe.graph_passes.functions import DOMAIN, GEMM, REGION, add_function
from dpiframe.graph_passes.graphs import Node, set_input, set_producer
from dpiframe.graph_passes.pass_base import ConditionError, Pass
from dpiframe.graph_passes.pipeline import PASSES, optimize_model
from dpiframe.graph_passes.report import PassReport
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.everything import everything
from tests.graph_passes.harness import parse

CHAIN = "(float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }"
BRANCHES = """(float[2] x, bool c) => (float[2] y) {
    y = If(c) <then_branch = t () => (p) { q = Relu(x) p = Neg(q) }, else_branch = e () => (p) { q = Abs(x) p = Exp(q) }>
}"""


def bench(text: str = CHAIN) -> Workbench:
    return Workbench(parse(text))


def inner(on: Workbench) -> gs.Graph:
    return on.graphs()[1]


def variable(name: str) -> gs.Variable:
    return gs.Variable(name, np.dtype(np.float32), [2])


def body(op: str, domain: str = "") -> list:
    return [helper.make_node(op, ["a"], ["b"], domain=domain)]


def with_fused(op: str, *, inputs: int = 1, functions: tuple[str, ...] = ()) -> Workbench:
    """A model in which a pass put a node of this op in the place of the last, and functions for these of its names."""
    on = bench()
    for name in functions:
        add_function(on, name, ["a"], ["b"], body("Neg"), ["program"])
    last = on.graph.nodes[-1]
    fused = Node(op, name="fused", domain=DOMAIN, inputs=[on.graph.nodes[0].outputs[0]] * inputs)
    on.graph.nodes.append(fused)
    set_producer(last.outputs[0], fused, variable("gone"))
    on.tidy()
    return on


def test_order() -> None:
    on = bench()
    assert nodes_are_in_order(on) is None
    on.graph.nodes.reverse()
    assert nodes_are_in_order(on) == "node 'y' stands before one whose output it reads: call bench.tidy()"
    on.tidy()
    assert nodes_are_in_order(on) is None


def test_order_in_a_branch() -> None:
    on = bench(BRANCHES)
    assert nodes_are_in_order(on) is None
    inner(on).nodes.reverse()
    assert str(nodes_are_in_order(on)).startswith("node 'p' stands before one")


def test_order_of_what_a_branch_reads() -> None:
    on = bench("""(float[2] x, bool c) => (float[2] y) {
        z = Exp(x)
        y = If(c) <then_branch = t () => (p) { p = Relu(z) }, else_branch = e () => (q) { q = Neg(z) }>
    }""")
    on.graph.nodes.reverse()
    assert str(nodes_are_in_order(on)).startswith("node 'y' stands before one")


def test_constants() -> None:
    on = bench("(float[2] x) => (float[2] y) { k = Constant<value = float[2] {1, 2}>() y = Add(x, k) }")
    wrong = "node 'k' is a Constant, which passes don't look into: run canonicalize"
    assert constants_are_initializers(on) == wrong
    PASSES[0]()(on)
    assert constants_are_initializers(on) is None


@pytest.mark.parametrize(
    "text",
    [
        "(float[2] x) => (float[2] y, float[2] k) { k = Constant<value = float[2] {1, 2}>() y = Add(x, k) }",
        "(float[2] x) => (float[2] y) { k = Constant() y = Add(x, k) }",
    ],
)
def test_constants_that_canonicalize_leaves_are_no_problem(text: str) -> None:
    on = bench(text)
    PASSES[0]()(on)
    assert constants_are_initializers(on) is None


def test_the_interface() -> None:
    on = bench()
    assert interface_is_kept(on) is None
    on.graph.outputs[0].name = "z"
    problem = "the outputs ['y'] have become ['z']: keep these tensors, and call set_producer for them"
    assert interface_is_kept(on) == problem


def test_an_input_that_is_gone() -> None:
    on = bench()
    on.graph.inputs = []
    assert interface_is_kept(on) == "the inputs ['x'] have become []: leave graph.inputs as it is"


def test_an_output_that_is_no_longer_given() -> None:
    on = bench()
    on.graph.nodes[-1].outputs.clear()
    assert interface_is_kept(on) == "no node gives output 'y' any more: call set_producer for it"


@pytest.mark.parametrize("ir", [3, 10])
def test_initializers_that_are_inputs_stay_what_they_are(ir: int) -> None:
    text = "(float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }"
    assert interface_is_kept(Workbench(parse(text, ir=ir, w=np.ones(2, np.float32)))) is None


@pytest.mark.parametrize("text", ["(float[2] x) => (float[2] x) { }", "(float[2] x) => (float[2] nope) { y = Neg(x) }"])
def test_outputs_that_no_node_gave(text: str) -> None:
    assert interface_is_kept(bench(text)) is None


def test_names() -> None:
    on = bench(BRANCHES)
    assert names_are_apart(on) is None  # branches may use one name each
    made = Node("Neg", name="made", inputs=[inner(on).nodes[0].outputs[0]], outputs=[variable("q")])
    inner(on).nodes.append(made)
    assert names_are_apart(on) == "node 'made' has a second tensor named 'q': name it by bench.new_name"


def test_names_of_constants() -> None:
    on = bench("(float[2] x) => (float[2] y) { a = Add(x, w) y = Mul(a, w) }")
    assert names_are_apart(on) is None
    for node, value in zip(on.graph.nodes, (1, 2), strict=True):
        set_input(node, 1, gs.Constant("w", np.full(2, value, np.float32)))
    assert names_are_apart(on) == "node 'y' has a second tensor named 'w': name it by bench.new_name"


def test_a_constant_with_the_name_of_what_a_node_gives() -> None:
    on = bench("(float[2] x) => (float[2] y) { a = Relu(x) y = Mul(a, w) }")
    set_input(on.graph.nodes[1], 1, gs.Constant("a", np.ones(2, np.float32)))
    assert names_are_apart(on) == "node 'y' has a second tensor named 'a': name it by bench.new_name"


def test_bodies() -> None:
    assert fused_nodes_have_bodies(with_fused(GEMM, functions=(GEMM,))) is None


def test_a_body_that_is_missing() -> None:
    problem = str(fused_nodes_have_bodies(with_fused(f"{GEMM}_1", functions=(GEMM,))))
    assert problem.startswith("node 'fused' calls FusedGemm_1, which no function defines: make it one by add_function")


def test_a_body_that_takes_something_else() -> None:
    problem = str(fused_nodes_have_bodies(with_fused(GEMM, inputs=2, functions=(GEMM,))))
    assert problem.startswith("node 'fused' has other inputs and outputs than the body of FusedGemm")


def test_a_domain_that_is_not_imported() -> None:
    on = with_fused(GEMM, functions=(GEMM,))
    del on.opset_import[DOMAIN]
    assert "node 'fused' is of domain dpiframe, which the model doesn't import" in str(fused_nodes_have_bodies(on))


def test_a_body_that_calls_what_is_gone() -> None:
    on = with_fused(REGION, functions=(GEMM,))
    add_function(on, REGION, ["a"], ["b"], body(GEMM, DOMAIN), ["program"])
    assert fused_nodes_have_bodies(on) is None
    del on.functions[(DOMAIN, GEMM, "")]
    assert str(fused_nodes_have_bodies(on)).startswith("node 'fused' calls FusedGemm in its body, which no function")


def test_what_a_file_lacks_is_the_files() -> None:
    """A node whose function another tool has dropped, and one that gives what another one gives."""
    model = parse("(float[2] x) => (float[2] y) { a = dpiframe.FusedGemm(x) y = Neg(a) a = Exp(x) }")
    optimize_model(model)


@pytest.mark.parametrize("provider", ["cpu", "cuda"])
def test_every_pass_keeps_its_promises_on_everything(provider: str) -> None:
    result = optimize_model(everything(), provider=provider)
    assert result.fused
    assert [kind for kind in PASSES if not kind.ensures] == []


@pytest.mark.parametrize("broken", PASSES)
def test_a_pass_that_leaves_a_graph_out_of_order_is_named(broken: type[Pass]) -> None:
    class Broken(broken):  # type: ignore[misc,valid-type]
        def run(self, bench: Workbench) -> PassReport:
            report: PassReport = super().run(bench)
            bench.graph.nodes.reverse()
            return report

    passes: list[Callable] = [Broken if kind is broken else kind for kind in PASSES]
    model = parse("(float[b,4] x) => (float[b,4] y) { a = CumSum(x, one) y = Erf(a) }", one=np.array(1))
    with pytest.raises(ConditionError, match=f"^after pass {broken.name}: node '.*' stands before"):
        optimize_model(model, passes=passes)  # type: ignore[arg-type]
