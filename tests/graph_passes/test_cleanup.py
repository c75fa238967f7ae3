"""Hazard: something that is needed is thrown away, or something that isn't stays in the file."""

from __future__ import annotations

import numpy as np
import onnx

from dpiframe.graph_passes.cleanup import Cleanup
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import op_types, parse


def clean(model: object) -> tuple[Workbench, list[str]]:
    bench = Workbench(model)  # type: ignore[arg-type]
    report = Cleanup()(bench)
    assert report.name == "cleanup"
    assert not Cleanup()(bench).changes
    return bench, report.changes


def test_unused_nodes_and_initializers_go_and_inputs_stay() -> None:
    model = parse(
        "(float[2] x, float[3] unused) => (float[2] y) { a = Neg(x) b = Abs(a) y = Relu(x) }", w=np.ones(3, np.float32)
    )
    bench, changes = clean(model)
    written = bench.to_model()
    assert changes == ["2 unused nodes are gone"]
    assert op_types(written) == ["Relu"]
    assert [v.name for v in written.graph.input] == ["x", "unused"]
    assert not written.graph.initializer


def test_initializers_that_are_outputs_stay() -> None:
    model = parse("(float[2] x) => (float[2] y, float[3] w) { y = Relu(x) }", w=np.ones(3, np.float32))
    bench, changes = clean(model)
    assert bench.to_model() == model
    assert not changes


def test_inputs_that_are_outputs_stay() -> None:
    model = parse("(float[2] x) => (float[2] y, float[2] x) { y = Relu(x) }")
    bench, _ = clean(model)
    assert bench.to_model() == model


def test_initializers_that_only_an_inner_branch_reads_stay() -> None:
    model = parse(
        """(bool f, float[3] x) => (float[3] y) {
            y = If (f) <
                then_branch = t () => (z) {
                    z = If (f) <then_branch = a () => (v) { v = Add(x, w) }, else_branch = b () => (v) { v = Neg(x) }>
                },
                else_branch = e () => (z) { z = Relu(x) }
            >
        }""",
        w=np.ones(3, np.float32),
    )
    bench, _ = clean(model)
    assert bench.to_model() == model


def with_functions(graph: str, *functions: tuple[str, str, str]) -> onnx.ModelProto:
    """functions: domain, name and body of each, from a to b."""
    return parse(
        graph,
        imports=', "dpiframe": 1, "local": 1',
        functions="\n".join(
            f'<domain: "{domain}", opset_import: ["": 20, "dpiframe": 1]> {name} (a) => (b) {{ {body} }}'
            for domain, name, body in functions
        ),
    )


def test_functions_of_ours_that_nothing_calls_go() -> None:
    model = with_functions(
        "(float[2] x) => (float[2] y) { y = dpiframe.Used(x) }",
        ("dpiframe", "Used", "b = Relu(a)"),
        ("dpiframe", "Unused", "b = Relu(a)"),
        ("local", "Theirs", "b = dpiframe.ByTheirs(a)"),
        ("dpiframe", "ByTheirs", "b = Relu(a)"),
    )
    bench, changes = clean(model)
    assert changes == ["unused function Unused is gone"]
    assert [f.name for f in bench.to_model().functions] == ["Used", "Theirs", "ByTheirs"]


def test_functions_that_only_unused_ones_call_go_with_them() -> None:
    model = with_functions(
        "(float[2] x) => (float[2] y) { y = Relu(x) }",
        ("dpiframe", "Inner", "b = Relu(a)"),
        ("dpiframe", "Outer", "b = dpiframe.Inner(a)"),
    )
    bench, _ = clean(model)
    assert not bench.to_model().functions


def test_functions_that_only_a_branch_calls_stay() -> None:
    call = """b = If (a) <
        then_branch = t () => (z) { z = dpiframe.InBranch(a) },
        else_branch = e () => (z) { z = Identity(a) }
    >"""
    model = with_functions(
        """(bool x) => (bool y) {
            y = If (x) <then_branch = t () => (z) { z = dpiframe.Used(x) }, else_branch = e () => (z) { z = local.F(x) }>
        }""",
        ("dpiframe", "Used", "b = Not(a)"),
        ("local", "F", call),
        ("dpiframe", "InBranch", "b = Not(a)"),
    )
    bench, changes = clean(model)
    assert not changes
    assert [f.name for f in bench.to_model().functions] == ["Used", "F", "InBranch"]


def test_nodes_are_put_in_order() -> None:
    model = parse("(float[2] x) => (float[2] y) { a = Neg(x) y = Relu(a) }")
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))
    bench, changes = clean(model)
    assert op_types(bench.to_model()) == ["Neg", "Relu"]
    assert not changes
