"""Hazard: what a graph gives and takes, its branches, functions and names are others after lookups were fused."""

from __future__ import annotations

import numpy as np

from tests.graph_passes.harness import (
    FP32_TOLERANCE,
    OP,
    agree,
    batches,
    changes,
    fuse_all,
    ids,
    op_types,
    optimize,
    parse,
    refusals,
    table,
)
from tests.graph_passes.lookups.models import two_fields

# what the graph gives and takes


def test_lookups_views_and_joins_as_graph_outputs() -> None:
    model = parse(
        """(int64[b] a, int64[b] c) => (float[b,4] e, float[b,1,4] u, float[b,8] j, float[b,4] f, float[b,4] again) {
            i1 = Constant<value_ints=[1]>()
            e = Gather(A, a)
            u = Unsqueeze(e, i1)
            f = Gather(C, c)
            j = Concat<axis=1>(e, f)
            again = Gather(A, a)
        }""",
        A=table(10, 4), C=table(20, 4),
    )  # fmt: skip
    result = optimize(model)
    assert sorted(set(op_types(result.model))) == [OP, "Reshape"]
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 20)}))


def test_rows_read_inside_a_branch() -> None:
    model = parse(
        """(int64[b] a, bool flag) => (float[b,4] y) {
            e = Gather(A, a)
            y = If (flag) <
                then_branch = t () => (z) { z = Relu(e) },
                else_branch = f () => (z) { z = Neg(e) }
            >
        }""",
        A=table(10, 4),
    )
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "If"]
    for flag in (True, False):
        agree(model, result, {"a": ids(4, high=10), "flag": np.array(flag)})


def test_lookups_inside_branches_and_loops() -> None:
    model = parse(
        """(int64[b] a, int64[b] c, bool flag) => (float[b,8] y, float[b,8] total) {
            three = Constant<value_int=3>()
            y = If (flag) <
                then_branch = t () => (z) { e = Gather(A, a) f = Gather(C, c) z = Concat<axis=1>(e, f) },
                else_branch = f () => (z) { e = Gather(C, c) f = Gather(C, a) z = Concat<axis=1>(e, f) }
            >
            start = Mul(y, zero)
            total = Loop (three, flag, start) <
                body = l (int64 i, bool going, float[b,8] before) => (bool on, float[b,8] after) {
                    on = Identity(going)
                    e = Gather(A, a)  f = Gather(A, c)
                    j = Concat<axis=1>(e, f)
                    after = Add(before, j)
                }
            >
        }""",
        A=table(10, 4), C=table(10, 4), zero=np.zeros(1, np.float32),
    )  # fmt: skip
    result = optimize(model)
    inner = [attribute.g for node in result.model.graph.node for attribute in node.attribute if attribute.HasField("g")]
    assert [op_types(graph) for graph in inner] == [[OP], [f"{OP}_1"], ["Identity", f"{OP}_1", "Add"]]
    assert [t.name for t in result.model.graph.initializer if t.name in ("A", "C")] == ["A", "C"]
    assert not any(graph.initializer for graph in inner)
    for flag in (True, False):
        case = {"a": ids(4, high=10), "c": ids(4, high=10, seed=9), "flag": np.array(flag)}
        agree(model, result, case, tolerance=FP32_TOLERANCE, reference=False)


def test_lookups_inside_model_local_functions() -> None:
    model = parse(
        """(int64[b] a, int64[b] c) => (float[b,8] y) {
            e = local.embed(A, a)
            f = local.twice(C, c)
            y = Concat<axis=1>(e, f)
        }""",
        imports=', "local": 1',
        functions="""
        <domain: "local", opset_import: ["": 20]> embed (t, i) => (o) { o = Gather(t, i) }
        <domain: "local", opset_import: ["": 20, "local": 1]> twice (t, i) => (o) { o = local.embed(t, i) }
        """,
        A=table(10, 4), C=table(20, 4),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert [f.domain for f in result.model.functions] == ["dpiframe"]
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 20)}))


def test_a_table_that_is_also_an_input_can_still_be_overridden() -> None:
    model = parse(
        "(int64[b] a, float[10,4] W, int64[b] c) => (float[b,8] y) { e = Gather(W, a) f = Gather(V, c) y = Concat<axis=1>(e, f) }",
        W=table(10, 4), V=table(10, 4, seed=1),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert [v.name for v in result.model.graph.input] == ["a", "W", "c"]
    assert {t.name for t in result.model.graph.initializer} == {"W", "V"}
    case = {"a": ids(4, high=10), "c": ids(4, high=10)}
    agree(model, result, case, {**case, "W": table(10, 4, seed=5)})


def test_a_table_that_an_outer_graph_computes_is_left_alone() -> None:
    model = parse(
        "(int64[b] a, float[10,4] T) => (float[b,4] y) { W = Relu(T) y = Gather(W, a) }",
    )
    result = optimize(model)
    assert not result.fused
    agree(model, result, {"a": ids(4, high=10), "T": table(10, 4)})


# unnamed and unequal batches


def test_inputs_whose_batch_axes_have_no_names_are_joined() -> None:
    model = parse(
        "(int64[a_axis] a, int64[c_axis] c) => (float[n,8] y) { e = Gather(A, a) f = Gather(C, c) y = Concat<axis=1>(e, f) }",
        A=table(10, 4), C=table(20, 4),
    )  # fmt: skip
    for named in (True, False):
        if not named:
            for value in model.graph.input:
                value.type.tensor_type.shape.dim[0].ClearField("dim_param")
        result = optimize(model)
        assert op_types(result.model) == [OP]
        agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 20)}))


def test_batches_that_may_differ_are_kept_apart() -> None:
    # one user, many items: nothing says that they are as many
    model = parse(
        "(int64[users] a, int64[items] c) => (float[n,4] y) { e = Gather(A, a) f = Gather(C, c) y = Mul(e, f) }",
        A=table(10, 4), C=table(20, 4),
    )  # fmt: skip
    result = fuse_all(model)
    assert op_types(result.model) == [OP, f"{OP}_1", "Mul"]
    agree(model, result, {"a": ids(1, high=10), "c": ids(7, high=20)}, {"a": ids(7, high=10), "c": ids(7, high=20)})


# names and pools


def test_names_that_are_taken_are_not_taken_again() -> None:
    model = parse(
        """(int64[b] a, int64[b] c) => (float[b,2,4] y, float[b,8] z) {
            one = Constant<value_ints=[1]>()  y_shape = Constant<value_ints=[-1, 8]>()
            e = Gather(A, a)  f = Gather(C, c)
            eu = Unsqueeze(e, one)  fu = Unsqueeze(f, one)
            z0 = Concat<axis=1>(e, f)
            y0 = Concat<axis=1>(eu, fu)
            y = Relu(y0)
            z_shape = Shape(y)
            z_view = Cast<to=1>(z_shape)
            z1 = Reshape(z0, y_shape)
            s = ReduceSum<keepdims=0>(z_view)
            k = Mul(s, zero)
            z = Add(z1, k)
        }""",
        A=table(10, 4), C=table(20, 4), zero=np.array(0, np.float32), z0_shape=np.array([1]), y0_shape=np.array([1]),
    )  # fmt: skip
    model.graph.node[-1].name = f"{OP}_z0"
    model.graph.node[-2].name = f"{OP}_y0"
    result = optimize(model)
    assert OP in op_types(result.model)
    names = [t.name for t in result.model.graph.initializer] + [o for n in result.model.graph.node for o in n.output]
    assert len(names) == len(set(names))
    nodes = [n.name for n in result.model.graph.node if n.name]
    assert len(nodes) == len(set(nodes))
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 20)}))


def test_equal_bodies_share_a_name_and_others_get_their_own() -> None:
    model = parse(
        """(int64[m,2] a, int64[n,2] c, int64[o,2] d) => (float[m,8] x, float[n,8] y, float[o,16] z) {
            e = Gather(A, a)  f = Gather(C, c)  g = Gather(D, d)
            x = Flatten(e)  y = Flatten(f)  z = Flatten(g)
        }""",
        A=table(10, 4), C=table(20, 4), D=table(10, 8),
    )  # fmt: skip
    case = {"a": ids(2, 2, high=10), "c": ids(3, 2, high=20), "d": ids(4, 2, high=10)}
    result = optimize(model)
    assert op_types(result.model) == [OP, OP, f"{OP}_1"]
    assert [f.name for f in result.model.functions] == [OP, f"{OP}_1"]
    agree(model, result, case)
    clamped = optimize(model, bad_ids="clamp")
    # the number of rows stands in the body that clamps
    assert op_types(clamped.model) == [OP, f"{OP}_1", f"{OP}_2"]
    agree(model, clamped, case)


def test_more_bodies_than_names() -> None:
    count = 66
    inputs = ", ".join(f"int64[n{k}] i{k}" for k in range(count))
    outputs = ", ".join(f"float[n{k},2] y{k}" for k in range(count))
    nodes = "\n".join(f"c{k} = Add(i{k}, k{k}) y{k} = Gather(W, c{k})" for k in range(count))
    offsets = {f"k{k}": np.array([k]) for k in range(1, count + 1)}
    text = f"({inputs}) => ({outputs}) {{ {nodes} }}".replace("k0)", f"k{count})")
    model = parse(text, W=table(200, 2), **offsets)
    result = optimize(model)
    assert [t for t in op_types(result.model) if t.startswith(OP)] == [OP, *(f"{OP}_{k}" for k in range(1, 64))]
    assert op_types(result.model).count("Gather") == 2
    assert (result.lookups_before, result.lookups_fused) == (66, 64)
    assert refusals(result) == {f"y{k}": f"all 64 names of {OP} are taken" for k in (64, 65)}
    agree(model, result, {f"i{k}": ids(2, high=100) for k in range(count)})


def test_the_report_says_what_was_fused() -> None:
    result = optimize(two_fields())
    assert f"{OP}_y: 2 row blocks from 2 tables and 2 sources into 1 outputs" in changes(result)
    assert refusals(result) == {}
