"""Hazard: a front end as a real exporter writes it is fused into something else, or not at all. P numbers are
pattern numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph_passes.harness import (
    FP32_TOLERANCE,
    OP,
    agree,
    batches,
    blocks,
    fuse_all,
    ids,
    op_types,
    optimize,
    parse,
    programs,
    table,
)
from tests.graph_passes.lookups.models import two_fields

# plain lookups, one id stream a table


def test_two_lookups_and_their_join_are_one_node() -> None:
    model = two_fields()
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert programs(result) == [
        "lookup 1\nrows 1\nbad error\n"
        "source 1 row\nsource 1 row\n"
        "table 10 4\ntable 20 8\n"
        "output 12\n"
        "row 0 0 4 0 0:0 0\n"
        "row 0 4 8 1 1:0 0\n"
    ]
    node = result.model.graph.node[0]
    assert (node.domain, list(node.input), list(node.output)) == ("dpiframe", ["a", "c", "W", "V"], ["y"])
    assert (result.fused, result.lookups_before, result.lookups_fused) == (True, 2, 2)
    assert (result.nodes_before, result.nodes_after) == (3, 1)
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 20)}))


@pytest.mark.parametrize("shape", [("b",), ("b", 1), ("b", 3), ("b", 3, 2)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_ids_of_any_rank_and_width(shape: tuple[int | str, ...], dtype: type) -> None:
    kind = {np.int32: "int32", np.int64: "int64"}[dtype]
    dims = ",".join(map(str, shape))
    model = parse(f"({kind}[{dims}] a) => (float[{dims},4] y) {{ y = Gather(W, a) }}", W=table(10, 4))
    result = fuse_all(model)
    assert op_types(result.model) == [OP]
    for case in batches({"a": (shape, 10)}):
        agree(model, result, {"a": case["a"].astype(dtype)})


@pytest.mark.parametrize("axis", ["", "<axis=0>", "<axis=-2>"])
def test_the_axis_may_be_left_out(axis: str) -> None:
    model = parse(f"(int64[b] a) => (float[b,4] y) {{ y = Gather{axis}(W, a) }}", W=table(10, 4))
    result = fuse_all(model)
    assert op_types(result.model) == [OP]
    agree(model, result, {"a": ids(5, high=10)})


@pytest.mark.parametrize(("rows", "dim"), [(1, 1), (1, 7), (3, 1), (1000, 3), (7, 129)])
def test_tables_of_odd_sizes(rows: int, dim: int) -> None:
    model = parse(f"(int64[b] a) => (float[b,{dim}] y) {{ y = Gather(W, a) }}", W=table(rows, dim))
    result = fuse_all(model)
    assert op_types(result.model) == [OP]
    agree(model, result, *batches({"a": (("b",), rows)}))


# constants behind Constant and Identity nodes


def test_a_table_behind_identity_and_constant_nodes() -> None:
    model = parse(
        """(int64[b] a, int64[b] c, int64[b] d) => (float[b,6] y) {
            one = Constant<value = int64[1] {1}>()
            W2 = Identity(W)
            V = Constant<value = float[2,2] {1, 2, 3, 4}>()
            V2 = Identity(V)
            V3 = Identity(V2)
            e = Gather(W, a)  f = Gather(W2, c)  g = Gather(V3, d)
            eu = Unsqueeze(e, one)  fu = Unsqueeze(f, one)  gu = Unsqueeze(g, one)
            j = Concat<axis=1>(eu, fu, gu)
            shape = Constant<value = int64[2] {-1, 6}>()
            y = Reshape(j, shape)
        }""",
        W=table(10, 2),
    )
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert blocks(result) == ["row 0 0 2 0 0:0 0", "row 0 2 2 0 1:0 0", "row 0 4 2 1 2:0 0"]
    assert (result.lookups_before, result.lookups_fused) == (3, 3)
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 10), "d": (("b",), 2)}))


# nodes without effect


def test_casts_and_views_without_effect_do_not_matter() -> None:
    model = parse(
        """(int64[b] a, float[b] x) => (float[b,5] y) {
            zero = Constant<value_ints=[0]>()  one = Constant<value_ints=[1]>()
            a1 = Cast<to=7>(a)  a2 = Cast<to=7>(a1)  a3 = Identity(a2)
            a4 = Unsqueeze(a3, one)  a5 = Squeeze(a4, one)
            e = Gather(W, a5)
            x1 = Cast<to=1>(x)  x2 = Cast<to=1>(x1)  x3 = Unsqueeze(x2, one)
            y = Concat<axis=1>(e, x3)
        }""",
        W=table(10, 4),
    )
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert blocks(result) == ["row 0 0 4 0 0:0 0", "copy 0 4 1 1 0"]
    agree(model, result, {"a": ids(5, high=10), "x": np.arange(5, dtype=np.float32)})


# shapes computed at run time, zeros added, branches decided


def test_computed_shapes_zeros_and_decided_branches() -> None:
    model = parse(
        """(float[b,4] X) => (float[b,1] lr, float[b,8] y) {
            i0 = Constant<value_ints=[0]>()  i1 = Constant<value_ints=[1]>()  i2 = Constant<value_ints=[2]>()
            s0 = Constant<value_int=0>()  s1 = Constant<value_int=1>()  n8 = Constant<value_ints=[8]>()
            shape = Shape(X)
            rows = Gather(shape, s0)
            r = Unsqueeze(rows, i0)
            zshape = Concat<axis=0>(r, i1)
            zeros = ConstantOfShape(zshape)
            x0 = Slice(X, i0, i1, i1)  x1 = Slice(X, i1, i2, i1)
            c0 = Cast<to=7>(x0)  c1 = Cast<to=7>(x1)
            a1 = Gather(A1, c0)  b1 = Gather(B1, c1)
            j1 = Concat<axis=-1>(a1, b1)
            s = ReduceSum<keepdims=0>(j1, i2)
            z = Add(zeros, s)
            lr = Neg(z)
            e = Gather(A, c0)  f = Gather(B, c1)
            j = Concat<axis=-1>(e, f)
            js = Shape(j)
            middle = Gather(js, s1)
            is_one = Equal(middle, s1)
            squeezed = If (is_one) <
                then_branch = t () => (z) { z = Squeeze(j, i1) },
                else_branch = f () => (z) { z = Identity(j) }
            >
            first = Gather(js, s0)
            fu = Unsqueeze(first, i0)
            yshape = Concat<axis=0>(fu, n8)
            y = Reshape(squeezed, yshape)
        }""",
        A1=table(10, 1), B1=table(20, 1), A=table(10, 4), B=table(20, 4),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP, "Neg"]
    x = np.random.default_rng(1).random((7, 4)).astype(np.float32) * 9.99
    agree(model, result, {"X": x}, {"X": x[:1]}, {"X": x[:0]}, tolerance=FP32_TOLERANCE)


# one table, several id streams


def test_a_shared_table_is_one_input() -> None:
    model = parse(
        """(int64[b] item, int64[b,3] history) => (float[b,16] y) {
            e = Gather(W, item)
            h = Gather(W, history)
            flat = Flatten(h)
            y = Concat<axis=1>(e, flat)
        }""",
        W=table(10, 4),
    )
    result = optimize(model)
    assert list(result.model.graph.node[0].input) == ["item", "history", "W"]
    assert blocks(result) == ["row 0 0 4 0 0:0 0", *(f"row 0 {4 + 4 * k} 4 0 1:{k} 0" for k in range(3))]
    agree(model, result, *batches({"item": (("b",), 10), "history": (("b", 3), 10)}))


# tables of several dims, repeated lookups


def test_mixed_dims() -> None:
    model = parse(
        """(int64[b] a, int64[b] c, int64[b] d) => (float[b,29] y) {
            e = Gather(A, a)  f = Gather(C, c)  g = Gather(D, d)
            y = Concat<axis=-1>(e, f, g)
        }""",
        A=table(10, 4), C=table(20, 8), D=table(5, 17),
    )  # fmt: skip
    result = optimize(model)
    assert blocks(result) == ["row 0 0 4 0 0:0 0", "row 0 4 8 1 1:0 0", "row 0 12 17 2 2:0 0"]
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 20), "d": (("b",), 5)}))


def test_repeated_lookups_are_one() -> None:
    model = parse(
        """(int64[b] a) => (float[b,4] y, float[b,4] z) {
            a1 = Cast<to=7>(a)  a2 = Cast<to=7>(a)
            e = Gather(W, a1)  f = Gather(W, a2)
            y = Relu(e)  z = Neg(f)
        }""",
        W=table(10, 4),
    )
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "Relu", "Neg"]
    assert blocks(result) == ["row 0 0 4 0 0:0 0"]
    assert (result.lookups_before, result.lookups_fused) == (2, 2)
    agree(model, result, {"a": ids(5, high=10)})


# levels


def test_lookups_whose_ids_come_from_rows_are_a_level_later() -> None:
    model = parse(
        """(int64[b] a, int64[b] c) => (float[b,10] y) {
            i1 = Constant<value_ints=[1]>()
            n = Gather(NEXT, a)
            q = Squeeze(n, i1)
            i = Cast<to=7>(q)
            e = Gather(W, i)
            f = Gather(V, c)
            g = Gather(V, i)
            y = Concat<axis=1>(e, f, g)
        }""",
        NEXT=np.arange(9, -1, -1, dtype=np.float32)[:, None], W=table(10, 4), V=table(10, 3),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP, "Cast", f"{OP}_1"]
    assert list(result.model.graph.node[2].input) == ["i", "c", "W", "V"]
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 10)}))


def test_ids_from_a_constant_integer_table() -> None:
    # features of an item; the integer table stays a Gather
    model = parse(
        """(int64[b] item) => (float[b,4] y) {
            category = Gather(CATEGORY, item)
            y = Gather(W, category)
        }""",
        CATEGORY=np.array([0, 2, 4, 1]), W=table(5, 4),
    )  # fmt: skip
    result = fuse_all(model)
    assert op_types(result.model) == ["Gather", OP]
    agree(model, result, {"item": np.array([0, 3, -1])})
