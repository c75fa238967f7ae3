"""Hazard: the steps undo each other, stop half way, or go on for ever."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from dpiframe.graph_passes.canonicalize import Canonicalize
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.everything import everything
from tests.graph_passes.harness import agree, op_types, optimize, parse, table

TORCHSCRIPT = """(float[b,3] X) => (float[b,8] y) {
    c0 = Constant<value = int64[1] {0}>() c1 = Constant<value = int64[1] {1}>() c2 = Constant<value = int64[1] {2}>()
    s0 = Constant<value = int64 {0}>() n8 = Constant<value = int64[1] {8}>()
    A2 = Identity(A)
    p = Slice(X, c0, c1, c1) q = Slice(X, c0, c1, c1)
    a = Cast<to=7>(p) a2 = Cast<to=7>(a) c = Cast<to=7>(q)
    e = Gather(A, a2) f = Gather(A2, c)
    j = Concat<axis=-1>(e, f)
    s = Shape(j) g = Gather(s, s0) u = Unsqueeze(g, c0) t = Concat<axis=0>(u, n8)
    r = Reshape(j, t)
    d = Dropout(r)
    z = Mul(d, one)
    y = Relu(z)
}"""

DYNAMO = """(float[b,3] X) => (float[b,8] y) {
    p = Slice(X, c0, c1, c1) a = Cast<to=7>(p)
    e = Gather<axis=0>(A, a)
    j = Concat<axis=-1>(e, e)
    r = Reshape<allowzero=1>(j, shape)
    y = Relu(r)
}"""


def canonical(model: onnx.ModelProto) -> tuple[Workbench, list[str]]:
    bench = Workbench(model)
    report = Canonicalize()(bench)
    return bench, report.changes


def test_what_two_exporters_write_comes_to_the_same() -> None:
    one = parse(TORCHSCRIPT, A=table(10, 4), one=np.array(1, np.float32))
    other = parse(DYNAMO, A=table(10, 4), c0=np.array([0]), c1=np.array([1]), shape=np.array([-1, 8]))
    wanted = ["Slice", "Cast", "Gather", "Concat", "Reshape", "Relu"]
    for model in (one, other):
        bench, _ = canonical(model)
        assert op_types(bench.to_model()) == wanted
    programs = {optimize(model).model.graph.node[0].attribute[0].s for model in (one, other)}
    assert len(programs) == 1
    x = np.random.default_rng(0).random((3, 3)).astype(np.float32) * 9.99
    agree(one, optimize(one), {"X": x}, {"X": x[:0]})
    agree(other, optimize(other), {"X": x}, {"X": x[:0]})


@pytest.mark.parametrize("text", [TORCHSCRIPT, DYNAMO])
def test_a_second_run_changes_nothing(text: str) -> None:
    model = parse(
        text, A=table(10, 4), one=np.array(1, np.float32), c0=np.array([0]), c1=np.array([1]), shape=np.array([-1, 8])
    ) if text is DYNAMO else parse(text, A=table(10, 4), one=np.array(1, np.float32))  # fmt: skip
    bench, changes = canonical(model)
    assert changes or text is DYNAMO
    once = bench.to_model()
    again, changes = canonical(once)
    assert changes == []
    assert again.to_model() == once
    assert Canonicalize()(bench).changes == []


def test_a_model_in_canonical_form_is_left_as_it_is() -> None:
    model = parse("(float[b,4] x) => (float[b,4] y) { r = Relu(x) y = Neg(r) }")
    bench, changes = canonical(model)
    assert changes == []
    assert bench.to_model() == model


def test_everything_else_in_the_file_stays() -> None:
    model = everything()
    bench, _ = canonical(model)
    after = bench.to_model()
    assert after == model


def test_each_step_opens_the_way_for_the_next() -> None:
    # the branch is known once a shape is, the shape once a constant is folded, the view once the branch is gone
    model = parse(
        """(float[b,4] x) => (float[b,2,2] y) {
            two = Add(one, one)
            s = Concat<axis=0>(minus, two, two)
            r = Reshape(x, s)
            t = Shape(r) m = Gather(t, at) q = Equal(m, two)
            z = If (q) <then_branch = a () => (v) { i = Identity(r) v = Reshape(i, s) }, else_branch = b () => (v) { v = Neg(r) }>
            y = Relu(z)
        }""",
        one=np.array([1]), minus=np.array([-1]), at=np.array([1]),
    )  # fmt: skip
    bench, _ = canonical(model)
    assert op_types(bench.to_model()) == ["Reshape", "Relu"]
    agree(model, optimize(model), {"x": table(3, 4)})


def test_many_rounds_come_to_an_end() -> None:
    steps = []
    for k in range(40):
        steps.append(
            f"t{k} = Shape(x{k}) m{k} = Gather(t{k}, one) q{k} = Equal(m{k}, four) "
            f"x{k + 1} = If (q{k}) <then_branch = a{k} () => (v) {{ v = Relu(x{k}) }}, else_branch = b{k} () => (v) {{ v = Neg(x{k}) }}>"
        )
    model = parse(
        f"(float[b,4] x0) => (float[b,4] y) {{ {' '.join(steps)} y = Neg(x40) }}", one=np.array(1), four=np.array(4)
    )
    bench, _ = canonical(model)
    assert op_types(bench.to_model()) == ["Relu"] * 40 + ["Neg"]


def test_the_pass_says_what_it_did() -> None:
    _, changes = canonical(parse(TORCHSCRIPT, A=table(10, 4), one=np.array(1, np.float32)))
    text = "\n".join(changes)
    for part in (
        "Constant nodes are initializers now",
        "Identity nodes without effect are gone",
        "Cast nodes without effect are gone",
        "computed shapes are constants now",
        "repeated nodes are computed once",
        "Dropout nodes without effect are gone",
        "Mul nodes without effect are gone",
    ):
        assert part in text
