"""Hazard: the wrong branch is taken, or names of branches meet when they move into one graph."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from dpiframe.graph_passes.canonicalize import Canonicalize
from dpiframe.graph_passes.canonicalize.branches import decide_branches
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import agree, changes, fuse_all, op_types, optimize, parse, table


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_constant_condition(condition: bool, shape: tuple[int, ...]) -> None:
    model = parse(
        """(float[2] x) => (float[2] y) {
            r = If (c) <then_branch = t () => (z) { z = Relu(x) }, else_branch = e () => (z) { z = Neg(x) }>
            y = Abs(r)
        }""",
        c=np.full(shape, condition),
    )
    result = optimize(model)
    assert op_types(result.model) == ["Relu" if condition else "Neg", "Abs"]
    assert "1 If nodes with a known condition are replaced by their branch" in changes(result)
    agree(model, result, {"x": floats(2)})


def test_a_condition_on_a_static_size() -> None:
    # how the TorchScript exporter writes squeeze(dim) of an unknown size
    model = parse(
        """(float[b,1,4] x) => (float[b,4] y) {
            s = Shape(x) g = Gather(s, one) is_one = Equal(g, one)
            r = If (is_one) <then_branch = t () => (z) { z = Squeeze(x, axis) }, else_branch = e () => (z) { z = Identity(x) }>
            y = Neg(r)
        }""",
        one=np.array(1), axis=np.array([1]),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == ["Squeeze", "Neg"]
    agree(model, result, {"x": floats(3, 1, 4)})


def test_a_condition_on_the_batch_is_decided_at_run_time() -> None:
    model = parse(
        """(float[b,4] x) => (float[b,4] y) {
            s = Shape(x) g = Gather(s, zero) is_one = Equal(g, one)
            r = If (is_one) <then_branch = t () => (z) { z = Relu(x) }, else_branch = e () => (z) { z = Identity(x) }>
            y = Neg(r)
        }""",
        one=np.array(1), zero=np.array(0),
    )  # fmt: skip
    result = optimize(model)
    assert "If" in op_types(result.model)
    agree(model, result, {"x": floats(3, 4)}, {"x": floats(1, 4)})


def test_an_overridable_condition_is_decided_at_run_time() -> None:
    model = parse(
        """(float[2] x, bool c) => (float[2] y) {
            y = If (c) <then_branch = t () => (z) { z = Relu(x) }, else_branch = e () => (z) { z = Neg(x) }>
        }""",
        c=np.array(True),
    )
    result = optimize(model)
    assert op_types(result.model) == ["If"]
    agree(model, result, {"x": floats(2)}, {"x": floats(2), "c": np.array(False)})


def test_sibling_branches_with_the_same_names() -> None:
    # allowed while they are branches; in one graph all of these names would meet
    branch = """then_branch = t () => (z) {{ k = Constant<value_floats=[{0}.0, 1.0]>() inner = Add(x, k) z = Mul(inner, own{0}) }},
        else_branch = e () => (z) {{ inner = Neg(x) z = Abs(inner) }}"""
    model = parse(
        f"""(float[2] x) => (float[2] y) {{
            p = If (c) <{branch.format(1)}>
            q = If (c) <{branch.format(2)}>
            inner = Mul(p, q)
            y = Neg(inner)
        }}""",
        c=np.array(True),
    )
    for node, values in zip([n for n in model.graph.node if n.op_type == "If"], ([1, 2], [3, 4]), strict=True):
        taken = next(a.g for a in node.attribute if a.name == "then_branch")
        name = taken.node[-1].input[1]
        taken.node[-1].input[1] = "own"
        taken.node[-1].name = "twin"
        assert name.startswith("own")
        taken.initializer.append(numpy_helper.from_array(np.array(values, np.float32), "own"))
    result = optimize(model)
    assert op_types(result.model) == ["Add", "Mul", "Add", "Mul", "Mul", "Neg"]
    names = [o for n in result.model.graph.node for o in n.output] + [t.name for t in result.model.graph.initializer]
    assert len(names) == len(set(names))
    nodes = [n.name for n in result.model.graph.node if n.name]
    assert len(nodes) == len(set(nodes)) == 2
    agree(model, result, {"x": floats(2)})


def test_prefixed_names_that_are_taken() -> None:
    model = parse(
        """(float[2] x) => (float[2] y, float[2] w) {
            r_inner = Abs(x)
            r = If (c) <then_branch = t () => (z) { inner = Relu(x) z = Neg(inner) }, else_branch = e () => (z) { z = Neg(x) }>
            y = Add(r, r_inner)
            r_z = Neg(r_inner)
            w = Add(r_z, x)
        }""",
        c=np.array(True),
    )
    result = optimize(model)
    assert "If" not in op_types(result.model)
    agree(model, result, {"x": floats(2)})


def test_nested_branches() -> None:
    inner = "then_branch = a () => (v) { v = Relu(x) }, else_branch = b () => (v) { v = Abs(x) }"
    model = parse(
        f"""(float[2] x, bool f) => (float[2] y, float[2] u) {{
            r = If (c) <
                then_branch = t () => (z) {{ m = If (d) <{inner}> n = If (f) <{inner}> z = Sub(m, n) }},
                else_branch = e () => (z) {{ z = Neg(x) }}
            >
            y = Neg(r)
            q = If (f) <then_branch = t2 () => (z) {{ z = If (c) <{inner}> }}, else_branch = e2 () => (z) {{ z = Neg(x) }}>
            u = Neg(q)
        }}""",
        c=np.array(True), d=np.array(False),
    )  # fmt: skip
    result = optimize(model)
    assert sorted(op_types(result.model)) == sorted(["Abs", "If", "Sub", "Neg", "If", "Neg"])
    for flag in (True, False):
        agree(model, result, {"x": floats(2), "f": np.array(flag)})


def test_a_branch_that_gives_a_stored_tensor() -> None:
    model = parse(
        """(float[2] x) => (float[2] y, float[2] u) {
            r = If (c) <then_branch = t () => (own) { }, else_branch = e () => (z) { z = Neg(x) }>
            y = Add(x, r)
            own = Neg(x)
            u = Abs(own)
        }""",
        c=np.array(True),
    )
    taken = next(a.g for a in model.graph.node[0].attribute if a.name == "then_branch")
    taken.initializer.append(numpy_helper.from_array(np.array([5, 6], np.float32), "kept"))
    taken.output[0].name = "kept"
    result = optimize(model)
    assert "If" not in op_types(result.model)
    agree(model, result, {"x": floats(2)}, reference=False)


def test_the_other_branch_no_longer_reads_anything() -> None:
    # rows that only the branch not taken reads must not be looked up
    model = parse(
        """(int64[b] a, int64[b] d) => (float[b,4] y) {
            e = Gather(A, a)
            f = Gather(D, d)
            y0 = If (c) <
                then_branch = t () => (z) { z = Relu(e) },
                else_branch = s () => (z) { q = If (k) <
                        then_branch = u () => (v) { v = Neg(f) }, else_branch = w () => (v) { v = Abs(f) }
                    > z = Neg(q) }
            >
            y = Neg(y0)
        }""",
        A=table(10, 4), D=table(20, 4), c=np.array(True), k=np.array(True),
    )  # fmt: skip
    result = fuse_all(model)
    assert op_types(result.model) == ["FusedMultiGather", "Relu", "Neg"]
    assert [t.name for t in result.model.graph.initializer] == ["A"]
    agree(model, result, {"a": np.array([1, 2]), "d": np.array([3, 4])})


def test_several_outputs_and_outputs_of_the_graph() -> None:
    model = parse(
        """(float[2] x) => (float[2] y, float[2] z) {
            y, z = If (c) <
                then_branch = t () => (p, q) { p = Relu(x) q = Neg(x) },
                else_branch = e () => (p, q) { p = Neg(x) q = Relu(x) }
            >
        }""",
        c=np.array(False),
    )
    result = optimize(model)
    assert op_types(result.model) == ["Neg", "Relu", "Identity", "Identity"]
    agree(model, result, {"x": floats(2)})


def test_a_loop_in_the_branch_keeps_its_inner_names() -> None:
    loop = """i = Loop (three, c, x) <body = l (int64 k, bool on, float[2] v) => (bool go, float[2] w) {
        go = Identity(on) n = Neg(v) w = Add(n, one)
    }>"""
    model = parse(
        f"""(float[2] x) => (float[2] y) {{
            p = If (c) <then_branch = t () => (i) {{ {loop} }}, else_branch = e () => (z) {{ z = Neg(x) }}>
            q = If (c) <then_branch = t2 () => (i) {{ {loop} }}, else_branch = e2 () => (z) {{ z = Neg(x) }}>
            y = Add(p, q)
        }}""",
        c=np.array(True), three=np.array(3), one=np.ones(2, np.float32),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == ["Loop", "Loop", "Add"]
    agree(model, result, {"x": floats(2)})


def test_a_branch_with_a_sparse_tensor_stays() -> None:
    model = parse(
        """(float[4] x) => (float[4] y) {
            y = If (c) <then_branch = t () => (z) { z = Add(x, x) }, else_branch = e () => (z) { z = Neg(x) }>
        }""",
        c=np.array(True),
    )
    taken = next(a.g for a in model.graph.node[0].attribute if a.name == "then_branch")
    taken.sparse_initializer.append(
        onnx.helper.make_sparse_tensor(
            numpy_helper.from_array(np.array([5], np.float32), "s"), numpy_helper.from_array(np.array([2])), [4]
        )
    )
    taken.node[0].input[1] = "s"
    bench = Workbench(model)
    assert not decide_branches(bench, [])
    assert bench.to_model() == model


def test_metadata_of_moved_nodes_stays() -> None:
    model = parse(
        """(float[2] x) => (float[2] y) {
            r = If (c) <then_branch = t () => (z) { z = Relu(x) }, else_branch = e () => (z) { z = Neg(x) }>
            y = Abs(r)
        }""",
        c=np.array(True),
    )
    relu = next(a.g for a in model.graph.node[0].attribute if a.name == "then_branch").node[0]
    relu.doc_string = "kept"
    entry = relu.metadata_props.add()
    entry.key, entry.value = "stream", "1"
    bench = Workbench(model)
    Canonicalize()(bench)
    after = bench.to_model().graph.node[0]
    assert (after.op_type, after.doc_string, list(after.metadata_props)) == ("Relu", "kept", list(relu.metadata_props))
