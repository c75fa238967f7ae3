"""Hazard: a front end as a real exporter writes it is fused into something else, or not at all. P numbers are
pattern numbers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.graph_passes.harness import (
    FP16_TOLERANCE,
    FP32_TOLERANCE,
    OP,
    agree,
    batches,
    blocks,
    changes,
    fails,
    fuse_all,
    gives,
    ids,
    op_types,
    optimize,
    parse,
    programs,
    refusals,
    table,
)

TWO_FIELDS = """(int64[b] a, int64[b] c) => (float[b,12] y) {
    e = Gather(W, a)
    f = Gather(V, c)
    y = Concat<axis=1>(e, f)
}"""


def two_fields(**options: int) -> onnx.ModelProto:
    return parse(TWO_FIELDS, W=table(10, 4), V=table(20, 8), **options)


# P1, P4: plain lookups, one id stream a table


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


# P3: constants behind Constant and Identity nodes


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


# P5, P8: the wide part


def test_the_wide_part_is_one_sum_over_the_same_ids() -> None:
    model = parse(
        """(int64[b] a, int64[b] c) => (float[b,1] wide, float[b,8] deep) {
            axis = Constant<value_ints=[1]>()
            a1 = Gather(A1, a)  c1 = Gather(C1, c)
            j1 = Concat<axis=-1>(a1, c1)
            wide = ReduceSum<keepdims=1>(j1, axis)
            a4 = Gather(A4, a)  c4 = Gather(C4, c)
            deep = Concat<axis=-1>(a4, c4)
        }""",
        A1=table(10, 1), C1=table(20, 1), A4=table(10, 4), C4=table(20, 4),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert blocks(result) == [
        "pool 0 0 1 sum 2 0",
        "term 0 0:0 0 one",
        "term 1 1:0 0 one",
        "row 1 0 4 2 0:0 0",
        "row 1 4 4 3 1:0 0",
    ]
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 20)}), tolerance=FP32_TOLERANCE)


def test_the_wide_part_of_one_big_table() -> None:
    model = parse(
        """(int64[b,3] x) => (float[b,1] y) {
            axis = Constant<value_ints=[1]>()
            i = Add(x, offsets)
            e = Gather(W, i)
            s = ReduceSum<keepdims=0>(e, axis)
            y = Add(s, bias)
        }""",
        W=table(30, 1), offsets=np.array([[0, 10, 20]]), bias=np.array([0.5], np.float32),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP, "Add"]
    assert blocks(result) == ["pool 0 0 1 sum 3 0", "term 0 0:0 0 one", "term 0 0:1+10 0 one", "term 0 0:2+20 0 one"]
    agree(model, result, *batches({"x": (("b", 3), 10)}), tolerance=FP32_TOLERANCE)


def test_a_wide_part_added_up_one_by_one() -> None:
    model = parse(
        """(int64[b] a, int64[b] c, int64[b] d) => (float[b,1] y) {
            e = Gather(A, a)  f = Gather(C, c)  g = Gather(D, d)
            s = Add(e, f)
            y = Add(s, g)
        }""",
        A=table(10, 1), C=table(20, 1), D=table(5, 1),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert blocks(result)[0] == "pool 0 0 1 sum 3 0"
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 20), "d": (("b",), 5)}), tolerance=FP32_TOLERANCE)


# P6: nodes without effect


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


# P7, P14, P16: joins


@pytest.mark.parametrize("flatten", ["y = Flatten<axis=1>(j)", "y = Reshape(j, keep)", "y = Reshape(j, solve)"])
def test_stack_and_flatten(flatten: str) -> None:
    model = parse(
        f"""(int64[b] a, int64[b] c) => (float[b,8] y) {{
            one = Constant<value_ints=[1]>()
            keep = Constant<value_ints=[0, -1]>()  solve = Constant<value_ints=[-1, 8]>()
            e = Gather(A, a)  f = Gather(C, c)
            eu = Unsqueeze(e, one)  fu = Unsqueeze(f, one)
            j = Concat<axis=1>(eu, fu)
            {flatten}
        }}""",
        A=table(10, 4), C=table(20, 4),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert programs(result)[0].splitlines()[7:] == ["output 8", "row 0 0 4 0 0:0 0", "row 0 4 4 1 1:0 0"]
    # the original itself can't solve -1 for an empty batch
    sizes = (1, 5) if "keep" in flatten else (0, 1, 5)
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 20)}, sizes))


def test_two_joins_of_the_same_bytes_are_one_output_and_a_view() -> None:
    model = parse(
        """(int64[b,1] a, int64[b,1] c) => (float[b,2,4] fm, float[b,8] deep, float[b,9] more) {
            shape = Constant<value_ints=[-1, 8]>()
            e = Gather(A, a)  f = Gather(C, c)
            stack = Concat<axis=1>(e, f)
            fm = Relu(stack)
            flat = Concat<axis=-1>(e, f)
            d = Reshape(flat, shape)
            deep = Relu(d)
            one = Cast<to=1>(a)
            more = Concat<axis=1>(d, one)
        }""",
        A=table(10, 4), C=table(20, 4),
    )  # fmt: skip
    result = optimize(model)
    assert sorted(op_types(result.model)) == sorted([OP, "Reshape", "Relu", "Relu", "Cast"])
    assert [line for line in programs(result)[0].splitlines() if line.startswith("output")] == [
        "output 2 4",
        "output 9",
    ]
    agree(model, result, *batches({"a": (("b", 1), 10), "c": (("b", 1), 20)}))


def test_joins_on_the_last_axis_of_mixed_dims_with_dense_columns() -> None:
    # P16, P34: [b,1,d] pieces of several dims, flattened, then dense slices of the same matrix
    model = parse(
        """(float[b,5] X) => (float[b,15] y) {
            i0 = Constant<value_ints=[0]>()  i1 = Constant<value_ints=[1]>()  i2 = Constant<value_ints=[2]>()
            i5 = Constant<value_ints=[5]>()
            x0 = Slice(X, i0, i1, i1)  x1 = Slice(X, i1, i2, i1)  dense = Slice(X, i2, i5, i1)
            c0 = Cast<to=7>(x0)  c1 = Cast<to=7>(x1)
            e = Gather(A, c0)  f = Gather(C, c1)
            j = Concat<axis=-1>(e, f)
            flat = Flatten(j)
            y = Concat<axis=-1>(flat, dense)
        }""",
        A=table(10, 4), C=table(20, 8),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert blocks(result) == ["row 0 0 4 0 0:0 0", "row 0 4 8 1 0:1 0", "copy 0 12 3 0 2"]
    x = np.random.default_rng(0).random((6, 5)).astype(np.float32) * 9.99
    agree(model, result, {"X": x}, {"X": x[:1]}, {"X": x[:0]})


# P9, P27: ids in one matrix


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("how", ["slice", "gather", "split"])
def test_ids_from_the_columns_of_a_matrix(dtype: type, how: str) -> None:
    kind = {np.float32: "float", np.float64: "double", np.int32: "int32", np.int64: "int64"}[dtype]
    picks = {
        "slice": "p0 = Slice(X, i0, i1, i1)  p2 = Slice(X, i2, i3, i1)  q0 = Squeeze(p0, i1)  q2 = Squeeze(p2, i1)",
        "gather": "q0 = Gather<axis=1>(X, s0)  q2 = Gather<axis=1>(X, s2)",
        "split": "p0, p1, p2 = Split<axis=1, num_outputs=3>(X)  q0 = Squeeze(p0, i1)  q2 = Squeeze(p2, i1)",
    }[how]
    model = parse(
        f"""({kind}[b,3] X) => (float[b,12] y) {{
            i0 = Constant<value_ints=[0]>()  i1 = Constant<value_ints=[1]>()  i2 = Constant<value_ints=[2]>()
            i3 = Constant<value_ints=[3]>()  s0 = Constant<value_int=0>()  s2 = Constant<value_int=-1>()
            {picks}
            c0 = Cast<to=7>(q0)  c2 = Cast<to=7>(q2)
            e = Gather(A, c0)  f = Gather(C, c2)
            y = Concat<axis=1>(e, f)
        }}""",
        A=table(10, 4), C=table(20, 8),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert blocks(result) == ["row 0 0 4 0 0:0 0", "row 0 4 8 1 0:2 0"]
    x = (np.random.default_rng(1).random((7, 3)) * 9.99).astype(dtype)
    agree(model, result, {"X": x}, {"X": x[:1]}, {"X": x[:0]})


def test_fractions_are_cut_off_toward_zero() -> None:
    model = parse("(float[b] x) => (float[b,2] y) { c = Cast<to=7>(x) y = Gather(W, c) }", W=table(5, 2))
    result = optimize(model)
    assert op_types(result.model) == [OP]
    agree(model, result, {"x": np.array([0.99, 1.0, 4.999, -0.99, -1.5, -5.0], np.float32)})


def test_a_matrix_with_the_batch_last() -> None:
    # P27: [k,b], as DLRM feeds it
    model = parse(
        """(int64[2,b] x) => (float[b,8] y) {
            s0 = Constant<value_int=0>()  s1 = Constant<value_int=1>()
            q0 = Gather<axis=0>(x, s0)  q1 = Gather<axis=0>(x, s1)
            e = Gather(A, q0)  f = Gather(C, q1)
            y = Concat<axis=1>(e, f)
        }""",
        A=table(10, 4), C=table(20, 4),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert "source 2 column\n" in programs(result)[0]
    assert blocks(result) == ["row 0 0 4 0 0:0 0", "row 0 4 4 1 0:1 0"]
    agree(model, result, *batches({"x": ((2, "b"), 10)}))


def test_a_transposed_matrix() -> None:
    model = parse(
        """(int64[b,2] x) => (float[b,8] y) {
            s0 = Constant<value_int=0>()  s1 = Constant<value_int=1>()
            t = Transpose<perm=[1,0]>(x)
            q0 = Gather<axis=0>(t, s0)  q1 = Gather<axis=0>(t, s1)
            e = Gather(A, q0)  f = Gather(C, q1)
            y = Concat<axis=1>(e, f)
        }""",
        A=table(10, 4), C=table(20, 4),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert "source 2 row\n" in programs(result)[0]
    agree(model, result, *batches({"x": (("b", 2), 10)}))


def test_columns_picked_by_gather_nd_between_transposes() -> None:
    # P10: how the dynamo exporter writes X[:, [2, 0]]
    model = parse(
        """(float[b,3] X) => (float[b,2,4] y) {
            t = Transpose<perm=[1,0]>(X)
            p = GatherND(t, picks)
            u = Transpose<perm=[1,0]>(p)
            i = Cast<to=7>(u)
            y = Gather(W, i)
        }""",
        W=table(10, 4), picks=np.array([[2], [0]]),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert blocks(result) == ["row 0 0 4 0 0:2 0", "row 0 4 4 0 0:0 0"]
    agree(model, result, *({"X": c["X"].astype(np.float32)} for c in batches({"X": (("b", 3), 10)})))


# P10, P38: offsets, factors, quotients and remainders


@pytest.mark.parametrize(
    ("steps", "expr", "low", "high"),
    [
        ("i = Add(a, n)", "0:0+7", 0, 13),
        ("i = Add(n, a)", "0:0+7", -7, 13),
        ("i = Sub(a, n)", "0:0+-7", 7, 27),
        ("i = Mul(a, n)", "0:0*7", 0, 3),
        ("i = Div(a, n)", "0:0/7", -140, 140),
        ("i = Mod(a, n)", "0:0%7", -100, 100),
        ("d = Div(a, n) i = Mod(d, n)", "0:0/7%7", -1000, 1000),
        ("d = Div(a, n) m = Mod(d, n) x = Mul(m, two) i = Add(x, two)", "0:0/7%7*2+2", -1000, 1000),
        ("x = Add(a, n) z = Add(x, n) i = Sub(z, two)", "0:0+12", -12, 8),
        ("x = Mul(a, two) i = Mul(two, x)", "0:0*4", 0, 5),
    ],
)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_arithmetic_on_ids(steps: str, expr: str, low: int, high: int, dtype: type) -> None:
    kind = {np.int32: "int32", np.int64: "int64"}[dtype]
    model = parse(
        f"({kind}[b] a) => (float[b,4] y) {{ {steps} y = Gather(W, i) }}",
        W=table(20, 4), n=np.array([7], dtype), two=np.array([2], dtype),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert blocks(result) == [f"row 0 0 4 0 {expr} 0"]
    agree(model, result, {"a": np.arange(low, high).astype(dtype)}, {"a": np.zeros(0, dtype)})


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ("i = Mod<fmod=1>(a, n)", "this remainder has the sign of the dividend"),
        ("x = Add(a, n) i = Mod(x, n)", "the offset comes first"),
        ("x = Mul(a, n) i = Div(x, n)", "the factor comes first"),
        ("x = Mod(a, n) i = Div(x, two)", "the remainder comes first"),
        ("x = Add(a, n) i = Mul(x, two)", "the offset comes first"),
        ("x = Neg(a) i = Neg(x)", "not a step of the format"),
        ("i = Add(a, a)", "two columns"),
    ],
)
def test_other_arithmetic_stays_before_the_lookup(steps: str, why: str) -> None:
    model = parse(
        f"(int64[b] a) => (float[b,4] y) {{ {steps} y = Gather(W, i) }}",
        W=table(70, 4), n=np.array([7]), two=np.array([2]),
    )  # fmt: skip
    result = fuse_all(model)
    assert op_types(result.model)[-1] == OP, why
    assert blocks(result) == ["row 0 0 4 0 0:0 0"], why
    agree(model, result, {"a": np.arange(-4, 7)}, {"a": np.arange(0)})


def test_a_quotient_and_remainder_embedding() -> None:
    # P38: two tables, their rows multiplied; the product of rows is left alone
    model = parse(
        """(int64[b] a) => (float[b,4] y) {
            n = Constant<value_int=5>()
            q = Div(a, n)  r = Mod(a, n)
            e = Gather(Q, q)  f = Gather(R, r)
            y = Mul(e, f)
        }""",
        Q=table(4, 4), R=table(5, 4),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP, "Mul"]
    assert blocks(result) == ["row 0 0 4 0 0:0/5 0", "row 1 0 4 1 0:0%5 0"]
    agree(model, result, {"a": np.arange(-19, 20)})


def test_ids_of_two_levels() -> None:
    # P39: ids * n + field, then one lookup a pair of fields
    model = parse(
        """(int64[b,2] x) => (float[b,2,2,4] y) {
            two = Constant<value_ints=[2]>()  axis = Constant<value_ints=[2]>()
            s = Mul(x, two)
            u = Unsqueeze(s, axis)
            i = Add(u, fields)
            y = Gather(W, i)
        }""",
        W=table(20, 4), fields=np.array([[[0, 1]]]),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert blocks(result) == [f"row 0 {4 * k} 4 0 0:{k // 2}*2{'+1' if k % 2 else ''} 0" for k in range(4)]
    agree(model, result, *batches({"x": (("b", 2), 10)}))


def test_ids_joined_from_separate_inputs() -> None:
    # P10: RecBole joins its inputs before it adds the offsets
    model = parse(
        """(int64[b] a, int64[b] c, int64[b] d) => (float[b,3,4] y) {
            one = Constant<value_ints=[1]>()
            au = Unsqueeze(a, one)  cu = Unsqueeze(c, one)  du = Unsqueeze(d, one)
            j = Concat<axis=1>(au, cu, du)
            i = Add(j, offsets)
            y = Gather(W, i)
        }""",
        W=table(30, 4), offsets=np.array([[0, 10, 20]]),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert blocks(result) == ["row 0 0 4 0 0:0 0", "row 0 4 4 0 1:0+10 0", "row 0 8 4 0 2:0+20 0"]
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 10), "d": (("b",), 10)}))


# P11, P20, P36: shapes computed at run time, zeros added, branches decided


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


# P15: pooling

MASKS = {
    "ids": "eq = Equal(x, zero)  ne = Not(eq)  m = Cast<to=1>(ne)",
    "length": "n = Slice(len, i0, i1, i1)  less = Less(positions, n)  m = Cast<to=1>(less)",
    "greater": "g = Greater(x, zero)  m = Cast<to=1>(g)",
    "not below": "g = GreaterOrEqual(x, zero)  m = Cast<to=1>(g)",
}
POOLS = {
    "sum": "y = ReduceSum<keepdims=0>(me, i1)",
    "mean": "s = ReduceSum<keepdims=0>(me, i1)  c = ReduceSum<keepdims=1>(m, i1)  ce = Add(c, eps)  y = Div(s, ce)",
    "max": "inv = Sub(fone, mu)  pen = Mul(inv, big)  pe = Sub(e, pen)  y = ReduceMax<keepdims=0>(pe, i1)",
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("pool", POOLS)
def test_masked_pooling(mask: str, pool: str) -> None:
    model = parse(
        f"""(int64[b,3] x, int64[b,1] len) => (float[b,4] y) {{
            zero = Constant<value_int=0>()  i0 = Constant<value_ints=[0]>()  i1 = Constant<value_ints=[1]>()
            i2 = Constant<value_ints=[2]>()
            eps = Constant<value_float=1e-8>()  fone = Constant<value_float=1.0>()  big = Constant<value_float=1e9>()
            {MASKS[mask]}
            mu = Unsqueeze(m, i2)
            e = Gather(W, x)
            me = Mul(e, mu)
            {POOLS[pool]}
        }}""",
        W=table(10, 4), positions=np.array([[0, 1, 2]]),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    weights = {"ids": "ne 0:{0} 0", "length": "lt {0} 1:0", "greater": "lt 0 0:{0}", "not below": "lt -1 0:{0}"}[mask]
    x = {"sum": "0", "mean": "1.0e-08", "max": "1.0e+09"}[pool]
    assert blocks(result) == [f"pool 0 0 4 {pool} 3 {x}", *(f"term 0 0:{k} 0 {weights.format(k)}" for k in range(3))]
    rows = np.array([[1, 2, 3], [1, 0, 0], [0, 0, 0], [0, 5, 0], [-1, -2, 9], [9, 9, 9]])
    lengths = np.array([[3], [1], [0], [2], [5], [-1]])
    agree(model, result, {"x": rows, "len": lengths}, {"x": rows[:0], "len": lengths[:0]}, tolerance=FP32_TOLERANCE)


@pytest.mark.parametrize(("op", "name"), [("ReduceSum", "sum"), ("ReduceMean", "mean"), ("ReduceMax", "max")])
def test_pooling_without_a_mask(op: str, name: str) -> None:
    model = parse(
        f"(int64[b,3] x) => (float[b,4] y) {{ i1 = Constant<value_ints=[1]>() e = Gather(W, x) y = {op}<keepdims=0>(e, i1) }}",
        W=table(10, 4),
    )
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert blocks(result) == [f"pool 0 0 4 {name} 3 0", *(f"term 0 0:{k} 0 one" for k in range(3))]
    agree(model, result, *batches({"x": (("b", 3), 10)}), tolerance=FP32_TOLERANCE)


def test_a_sum_divided_by_how_many_rows_there_are_is_a_mean() -> None:
    model = parse(
        """(int64[b,3] x) => (float[b,4] y) {
            i1 = Constant<value_ints=[1]>()  three = Constant<value_float=3.0>()
            e = Gather(W, x)  s = ReduceSum<keepdims=0>(e, i1)  y = Div(s, three)
        }""",
        W=table(10, 4),
    )
    result = optimize(model)
    assert blocks(result)[0] == "pool 0 0 4 mean 3 0"
    agree(model, result, *batches({"x": (("b", 3), 10)}), tolerance=FP32_TOLERANCE)


def test_weights_given_as_an_input() -> None:
    model = parse(
        """(int64[b,3] x, float[b,3] w) => (float[b,4] y, float[b,1,4] z) {
            i1 = Constant<value_ints=[1]>()  i2 = Constant<value_ints=[2]>()
            e = Gather(W, x)
            wu = Unsqueeze(w, i2)
            we = Mul(wu, e)
            y = ReduceSum<keepdims=0>(we, i1)
            wr = Unsqueeze(w, i1)
            z = MatMul(wr, e)
        }""",
        W=table(10, 4),
    )
    result = optimize(model)
    assert op_types(result.model) == [OP, "Reshape"]
    assert blocks(result) == ["pool 0 0 4 sum 3 0", *(f"term 0 0:{k} 0 col 1 {k}" for k in range(3))]
    w = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    agree(model, result, {"x": ids(5, 3, high=10), "w": w}, tolerance=FP32_TOLERANCE)


def test_nan_in_a_padding_row_comes_through() -> None:
    values = table(10, 4)
    values[0] = [np.nan, np.inf, -np.inf, 0]
    model = parse(
        """(int64[b,3] x) => (float[b,4] y) {
            zero = Constant<value_int=0>()  i1 = Constant<value_ints=[1]>()  i2 = Constant<value_ints=[2]>()
            eq = Equal(x, zero)  ne = Not(eq)  m = Cast<to=1>(ne)  mu = Unsqueeze(m, i2)
            e = Gather(W, x)  me = Mul(e, mu)  y = ReduceSum<keepdims=0>(me, i1)
        }""",
        W=values,
    )
    agree(model, optimize(model), {"x": np.array([[1, 2, 0], [3, 4, 5], [0, 0, 0]])}, tolerance=FP32_TOLERANCE)


def test_a_sum_of_rows_that_are_needed_themselves_stays() -> None:
    # the second order of a factorization machine reads the rows anyway
    model = parse(
        """(int64[b,3] x) => (float[b,4] y, float[b,3,4] z) {
            i1 = Constant<value_ints=[1]>()
            z = Gather(W, x)
            y = ReduceSum<keepdims=0>(z, i1)
        }""",
        W=table(10, 4),
    )
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "ReduceSum"]
    agree(model, result, *batches({"x": (("b", 3), 10)}), tolerance=FP32_TOLERANCE)


def test_a_sum_that_is_read_twice_is_computed_once() -> None:
    model = parse(
        """(int64[b] a, int64[b] c, int64[b] d) => (float[b,4] y, float[b,4] z) {
            e = Gather(A, a)  f = Gather(C, c)  g = Gather(D, d)
            s = Add(e, f)
            y = Relu(s)
            z = Add(s, g)
        }""",
        A=table(10, 4), C=table(20, 4), D=table(5, 4),
    )  # fmt: skip
    result = optimize(model)
    assert sorted(op_types(result.model)) == sorted([OP, "Relu", "Add"])
    assert [line.split()[0] for line in blocks(result)] == ["row", "pool", "term", "term"]
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 20), "d": (("b",), 5)}), tolerance=FP32_TOLERANCE)


def test_a_row_added_to_itself_again_and_again_does_not_blow_up() -> None:
    steps = "\n".join(f"s{k + 1} = Add(s{k}, s{k})" for k in range(40))
    model = parse(f"(int64[b] a) => (float[b,4] y) {{ s0 = Gather(A, a) {steps} y = Relu(s40) }}", A=table(10, 4))
    result = fuse_all(model)
    assert op_types(result.model) == [OP, *["Add"] * 40, "Relu"]
    agree(model, result, {"a": ids(3, high=10)})


# P22: one table, several id streams


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


# P29: a constant added to rows


def test_zeros_added_to_rows_are_dropped() -> None:
    model = parse(
        """(int64[b] a, int64[b] c) => (float[b,8] y) {
            e = Gather(A, a)  f = Gather(C, c)
            e0 = Add(e, zeros)  f0 = Add(zeros, f)
            y = Concat<axis=1>(e0, f0)
        }""",
        A=table(10, 4), C=table(20, 4), zeros=np.zeros((1, 4), np.float32),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 20)}))


def test_other_constants_stay_outside() -> None:
    model = parse(
        """(int64[b] a, int64[b] c) => (float[b,8] y) {
            e = Gather(A, a)  f = Gather(C, c)
            e1 = Add(e, bias)  f1 = Add(f, bias)
            y = Concat<axis=1>(e1, f1)
        }""",
        A=table(10, 4), C=table(20, 4), bias=np.array([[0, 0, 0, 1e-3]], np.float32),
    )  # fmt: skip
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "Add", "Add", "Concat"]
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 20)}))


# P34, P37


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
    # RecBole's item features: the integer table stays a Gather
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


# two row axes


def test_a_dynamic_length_makes_a_second_row_axis() -> None:
    model = parse(
        """(int64[b,L] items, int64[b,L] categories) => (float[b,L,12] y) {
            e = Gather(W, items)  f = Gather(V, categories)
            y = Concat<axis=-1>(e, f)
        }""",
        W=table(10, 4), V=table(5, 8),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert programs(result)[0].splitlines()[1] == "rows 2"
    for b, length in ((3, 5), (0, 5), (3, 0), (1, 1)):
        agree(model, result, {"items": ids(b, length, high=10), "categories": ids(b, length, high=5)})


STAR = {
    "sum": ("y = ReduceSum<keepdims=0>(e, i1)", "pool 0 0 4 sum 1 0", "one"),
    "mean": ("y = ReduceMean<keepdims=0>(e, i1)", "pool 0 0 4 mean 1 0", "one"),
    "max": ("y = ReduceMax<keepdims=0>(e, i1)", "pool 0 0 4 max 1 0", "one"),
    "masked sum": ("y = ReduceSum<keepdims=0>(me, i1)", "pool 0 0 4 sum 1 0", "ne 0:* 0"),
    "masked mean": (POOLS["mean"], "pool 0 0 4 mean 1 1.0e-08", "ne 0:* 0"),
    "masked max": (POOLS["max"], "pool 0 0 4 max 1 1.0e+09", "ne 0:* 0"),
    "weighted sum": ("y = ReduceSum<keepdims=0>(we, i1)", "pool 0 0 4 sum 1 0", "col 1 *"),
}


@pytest.mark.parametrize("pool", STAR)
def test_pooling_over_a_dynamic_length(pool: str) -> None:
    steps, head, weight = STAR[pool]
    model = parse(
        f"""(int64[b,L] x, float[b,L] w) => (float[b,4] y) {{
            zero = Constant<value_int=0>()  i1 = Constant<value_ints=[1]>()  i2 = Constant<value_ints=[2]>()
            eps = Constant<value_float=1e-8>()  fone = Constant<value_float=1.0>()  big = Constant<value_float=1e9>()
            e = Gather(W, x)
            eq = Equal(x, zero)  ne = Not(eq)  m = Cast<to=1>(ne)  mu = Unsqueeze(m, i2)
            me = Mul(e, mu)
            wu = Unsqueeze(w, i2)  we = Mul(e, wu)
            {steps}
        }}""",
        W=table(10, 4),
    )
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert blocks(result) == [head, f"term 0 0:* 0 {weight}"]
    rng = np.random.default_rng(0)
    for b, length in ((4, 5), (1, 1), (0, 3), *(((2, 0),) if "sum" in pool else ())):
        case = {"x": ids(b, length, high=10), "w": rng.normal(size=(b, length)).astype(np.float32)}
        agree(model, result, case, tolerance=FP32_TOLERANCE)


def test_a_dynamic_length_with_further_axes_is_not_pooled_wrongly() -> None:
    model = parse(
        """(int64[b,L,1] x) => (float[b,1,4] y) {
            i1 = Constant<value_ints=[1]>()
            e = Gather(W, x)
            y = ReduceSum<keepdims=0>(e, i1)
        }""",
        W=table(10, 4),
    )
    result = fuse_all(model)
    assert OP in op_types(result.model)
    for b, length in ((4, 5), (1, 1), (0, 3)):
        agree(model, result, {"x": ids(b, length, 1, high=10)}, tolerance=FP32_TOLERANCE)


def test_a_dynamic_batch_and_length_beside_scalars() -> None:
    model = parse(
        """(int64[b] user, int64[b,L] x) => (float[b,8] y) {
            i1 = Constant<value_ints=[1]>()
            u = Gather(V, user)
            e = Gather(W, x)
            s = ReduceSum<keepdims=0>(e, i1)
            y = Concat<axis=1>(u, s)
        }""",
        W=table(10, 4), V=table(7, 4),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    for b, length in ((4, 5), (1, 1), (0, 3), (3, 0)):
        agree(model, result, {"user": ids(b, high=7), "x": ids(b, length, high=10)}, tolerance=FP32_TOLERANCE)


# types and sizes


def test_float16_tables() -> None:
    model = parse(
        """(int64[b] a, int64[b,3] x, float16[b,2] dense) => (float16[b,10] y) {
            i1 = Constant<value_ints=[1]>()
            e = Gather(A, a)
            h = Gather(C, x)
            p = ReduceMax<keepdims=0>(h, i1)
            y = Concat<axis=1>(e, p, dense)
        }""",
        A=table(10, 4, np.float16), C=table(20, 4, np.float16),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    dense = table(5, 2, np.float16)
    agree(model, result, {"a": ids(5, high=10), "x": ids(5, 3, high=20), "dense": dense}, tolerance=FP16_TOLERANCE)


def test_tables_of_two_types_are_two_nodes() -> None:
    model = parse(
        """(int64[b] a) => (float[b,4] y, float16[b,4] z) { y = Gather(A, a) z = Gather(C, a) }""",
        A=table(10, 4), C=table(10, 4, np.float16),
    )  # fmt: skip
    result = fuse_all(model)
    assert op_types(result.model) == [OP, OP]
    agree(model, result, {"a": ids(5, high=10)})


def test_float16_ids_are_cast_before() -> None:
    model = parse("(float16[b] x) => (float[b,4] y) { c = Cast<to=7>(x) y = Gather(W, c) }", W=table(10, 4))
    result = fuse_all(model)
    assert op_types(result.model) == ["Cast", OP]
    agree(model, result, {"x": np.array([0.5, 9.4, 3], np.float16)})


@pytest.mark.parametrize("dtype", [np.float64, "bfloat16", np.int64])
def test_tables_of_other_types_are_left_alone(dtype: object) -> None:
    values = table(10, 4)
    if dtype == "bfloat16":
        model = parse("(int64[b] a) => (bfloat16[b,4] y) { y = Gather(W, a) }")
        model.graph.initializer.append(onnx.helper.make_tensor("W", onnx.TensorProto.BFLOAT16, [10, 4], values))
        result = optimize(model)
    else:
        kind = {np.float64: "double", np.int64: "int64"}[dtype]  # type: ignore[index]
        model = parse(f"(int64[b] a) => ({kind}[b,4] y) {{ y = Gather(W, a) }}", W=values.astype(dtype))  # type: ignore[call-overload]
        result = optimize(model)
        agree(model, result, {"a": ids(5, high=10)})
    assert op_types(result.model) == ["Gather"]
    assert not result.fused
    assert ("aren't supported" in "".join(refusals(result).values())) == (dtype is not np.int64)


def test_a_static_batch() -> None:
    model = parse(
        """(int64[4] a, float[4,3] X) => (float[4,9] y) {
            s1 = Constant<value_int=1>()
            q = Gather<axis=1>(X, s1)
            c = Cast<to=7>(q)
            e = Gather(A, a)  f = Gather(C, c)
            n = Constant<value_ints=[4, 1]>()  au = Reshape(a, n)  ac = Cast<to=1>(au)
            y = Concat<axis=1>(e, f, ac)
        }""",
        A=table(10, 4), C=table(20, 4),
    )  # fmt: skip
    result = optimize(model)
    assert OP in op_types(result.model)
    agree(model, result, {"a": ids(4, high=10), "X": ids(4, 3, high=20).astype(np.float32)})


@pytest.mark.parametrize("n", [1, 6])
def test_a_static_batch_that_could_be_taken_for_another_axis(n: int) -> None:
    model = parse(
        f"""(int64[{n},{n}] x) => (float[{n},{n * 2}] y, float[{n * n},2] z, float[{n},2,{n}] t) {{
            rows = Constant<value_ints=[{n}, {n * 2}]>()  flat = Constant<value_ints=[-1, 2]>()
            e = Gather(W, x)
            y = Reshape(e, rows)
            z = Reshape(e, flat)
            t = Transpose<perm=[1,2,0]>(e)
        }}""",
        W=table(10, 2),
    )
    result = optimize(model)
    assert OP in op_types(result.model)
    agree(model, result, {"x": ids(n, n, high=10)})


@pytest.mark.parametrize("opset", [11, 12, 13, 15, 17, 18, 20, 21, 22, 23, 24])
@pytest.mark.parametrize("bad_ids", ["error", "zero", "clamp"])
def test_operator_sets(opset: int, bad_ids: str) -> None:
    axes = opset >= 13
    u = "Unsqueeze(e, i1)" if axes else "Unsqueeze<axes=[1]>(e)"
    mu = "Unsqueeze(m, i2)" if axes else "Unsqueeze<axes=[2]>(m)"
    s = "ReduceSum<keepdims=1>(me, i1)" if axes else "ReduceSum<keepdims=1, axes=[1]>(me)"
    x = "ReduceMax<keepdims=1>(h, i1)" if opset >= 18 else "ReduceMax<keepdims=1, axes=[1]>(h)"
    model = parse(
        f"""(int64[b] a, int64[b,3] x) => (float[b,12] y) {{
            zero = Constant<value = int64[1] {{0}}>()  i1 = Constant<value = int64[1] {{1}}>()
            i2 = Constant<value = int64[1] {{2}}>()
            e = Gather(A, a)
            eu = {u}
            h = Gather(C, x)
            eq = Equal(x, zero)  ne = Not(eq)  m = Cast<to=1>(ne)  mu = {mu}
            me = Mul(h, mu)
            s = {s}
            p = {x}
            j = Concat<axis=1>(eu, s, p)
            y = Flatten(j)
        }}""",
        opset=opset, ir={11: 6, 12: 7, 13: 7}.get(opset, 8), A=table(10, 4), C=table(20, 4),
    )  # fmt: skip
    result = optimize(model, bad_ids=bad_ids)
    assert op_types(result.model) == [OP]
    assert result.model.ir_version == 8
    cases = batches({"a": (("b",), 10), "x": (("b", 3), 20)})
    agree(model, result, *cases, tolerance=FP32_TOLERANCE)


@pytest.mark.parametrize("opset", [7, 9, 10])
def test_operator_sets_that_are_too_old_are_refused_with_a_reason(opset: int) -> None:
    model = parse("(int64[b] a) => (float[b,4] y) { y = Gather(W, a) }", opset=opset, ir=4, W=table(10, 4))
    result = optimize(model)
    assert not result.fused
    assert refusals(result) == {"y": f"opset {opset} is older than 11: convert the model first"}
    agree(model, result, {"a": ids(3, high=10)}, reference=False)


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


# what is left alone, and why


@pytest.mark.parametrize(
    ("inputs", "output", "ids_", "reason"),
    [
        ("int64[b,n,m] a", "[b,n,m,4]", "a", "which axis is the batch is unclear"),
        ("int64[2,b,3] a", "[2,b,3,4]", "a", "which axis is the batch is unclear"),
        ("float[b] a", "[2,4]", "picks", "its ids are constant"),
        ("int64[b] a, int64[n] shape", "[k,l,4]", "r", "the shape of its ids is unknown"),
        ("int64[b,100000] a", "[b,100000,4]", "a", "too many elements a row"),
    ],
)
def test_lookups_that_are_left_alone_say_why(inputs: str, output: str, ids_: str, reason: str) -> None:
    reshape = "r = Reshape(a, shape)" if ids_ == "r" else ""
    model = parse(
        f"({inputs}) => (float{output} y) {{ {reshape} y = Gather(W, {ids_}) }}", W=table(10, 4), picks=np.array([1, 2])
    )
    result = optimize(model)
    assert not result.fused
    assert reason in refusals(result)["y"]


def test_an_empty_table_is_left_alone() -> None:
    model = parse("(int64[b] a) => (float[b,4] y) { y = Gather(W, a) }", W=table(0, 4))
    result = optimize(model)
    assert refusals(result) == {"y": "its table is empty"}
    agree(model, result, {"a": ids(0, high=1)})


def test_rows_that_are_expanded_stay_rows() -> None:
    # P32: the query of a target attention
    model = parse(
        """(int64[b,1] a) => (float[b,3,4] y) {
            shape = Constant<value_ints=[1, 3, 4]>()
            e = Gather(W, a)
            y = Expand(e, shape)
        }""",
        W=table(10, 4),
    )
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "Expand"]
    agree(model, result, *batches({"a": (("b", 1), 10)}))


def test_rows_that_are_transposed_stay_rows() -> None:
    # P24: E and its transpose
    model = parse(
        """(int64[b,3] x) => (float[b,3,3] y) {
            e = Gather(W, x)
            t = Transpose<perm=[0,2,1]>(e)
            y = MatMul(e, t)
        }""",
        W=table(10, 4),
    )
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "Transpose", "MatMul"]
    agree(model, result, *batches({"x": (("b", 3), 10)}), tolerance=FP32_TOLERANCE)


def test_pairs_picked_from_a_join_stay_picks() -> None:
    # P35: n (n - 1) / 2 rows of n
    model = parse(
        """(int64[b,4] x) => (float[b,6,4] y) {
            e = Gather(W, x)
            p = Gather<axis=1>(e, first)  q = Gather<axis=1>(e, second)
            y = Mul(p, q)
        }""",
        W=table(10, 4), first=np.array([0, 0, 0, 1, 1, 2]), second=np.array([1, 2, 3, 2, 3, 3]),
    )  # fmt: skip
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "Gather", "Gather", "Mul"]
    agree(model, result, *batches({"x": (("b", 4), 10)}))


def test_slices_of_a_join_are_taken_in() -> None:
    # P28: a join that is split again
    model = parse(
        """(int64[b,2] x) => (float[b,1,4] y) {
            e = Gather(W, x)
            p, q = Split<axis=1, num_outputs=2>(e)
            y = Mul(p, q)
        }""",
        W=table(10, 4),
    )
    result = optimize(model)
    assert op_types(result.model) == [OP, "Mul"]
    assert blocks(result) == ["row 0 0 4 0 0:0 0", "row 1 0 4 0 0:1 0"]
    agree(model, result, *batches({"x": (("b", 2), 10)}))


def test_a_split_by_sizes_known_only_at_run_time_stays() -> None:
    model = parse(
        """(int64[b,4] x, int64[2] sizes) => (float[b,m,4] y, float[b,n,4] z) {
            e = Gather(W, x)
            y, z = Split<axis=1>(e, sizes)
        }""",
        W=table(10, 4),
    )
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "Split"]
    agree(model, result, {"x": ids(3, 4, high=10), "sizes": np.array([1, 3])})


def test_squeezing_axes_known_only_at_run_time_stays() -> None:
    model = parse(
        """(int64[b,1,1] x, int64[n] axes) => (float[k, l, 4] y) {
            e = Gather(W, x)
            y = Squeeze(e, axes)
        }""",
        W=table(10, 4),
    )
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "Squeeze"]
    agree(model, result, {"x": ids(3, 1, 1, high=10), "axes": np.array([1])})


def test_squeeze_without_axes_takes_a_batch_of_one_away() -> None:
    model = parse("""(int64[b,1] x) => (float[k, 4] y) { e = Gather(W, x) y = Squeeze(e) }""", W=table(10, 4))
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "Squeeze"]
    agree(model, result, {"x": ids(3, 1, high=10)}, {"x": ids(1, 1, high=10)})


def test_a_dense_branch_that_needs_rows_does_not_hold_up_the_lookups() -> None:
    # the attention output depends on lookups: joining it here would make all lookups wait and repeat
    model = parse(
        """(int64[b] a, int64[b] c) => (float[b,12] y) {
            e = Gather(A, a)  f = Gather(C, c)
            attention = Softmax<axis=1>(e)
            y = Concat<axis=1>(e, f, attention)
        }""",
        A=table(10, 4), C=table(20, 4),
    )  # fmt: skip
    result = fuse_all(model)
    assert op_types(result.model) == [OP, "Softmax", "Concat"]
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 20)}), tolerance=FP32_TOLERANCE)


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


# ids outside their tables


OUTSIDE = np.array([-1, -10, -11, 10, 9, 0, 2**40, -(2**40), -(2**63), 2**63 - 1])


def rows_of(values: np.ndarray, given: np.ndarray, policy: str) -> np.ndarray:
    """What the op's documentation says."""
    size = len(values)
    if policy == "clamp":
        return values[np.clip(given, -size, size - 1)]
    inside = (given >= -size) & (given < size)
    rows = values[np.where(inside, given, 0)]
    rows[~inside] = 0
    return rows


@pytest.mark.parametrize("opset", [11, 12, 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("policy", ["zero", "clamp"])
def test_bad_ids_give_zeros_or_the_nearest_row(policy: str, dtype: type, opset: int) -> None:
    kind = {np.float32: "float", np.float16: "float16"}[dtype]
    values = table(10, 4, dtype)
    model = parse(f"(int64[b] a) => ({kind}[b,4] y) {{ y = Gather(W, a) }}", opset=opset, ir=8, W=values)
    result = optimize(model, bad_ids=policy)
    gives(result, {"a": OUTSIDE}, rows_of(values, OUTSIDE, policy))
    agree(model, result, {"a": ids(7, high=10)})


@pytest.mark.parametrize("library", [False, True])
@pytest.mark.parametrize("bad", [10, -11, 2**40])
def test_bad_ids_fail_by_default_as_they_did(bad: int, library: bool) -> None:
    model = parse("(int64[b] a) => (float[b,4] y) { y = Gather(W, a) }", W=table(10, 4))
    result = optimize(model)
    assert fails(model, {"a": np.array([bad])})
    assert fails(result.model, {"a": np.array([bad])}, library=library)
    assert not fails(result.model, {"a": np.array([-10, 9])}, library=library)


@pytest.mark.parametrize("policy", ["zero", "clamp"])
def test_float_ids_that_are_no_numbers(policy: str) -> None:
    values = table(10, 4)
    model = parse("(float[b] a) => (float[b,4] y) { c = Cast<to=7>(a) y = Gather(W, c) }", W=values)
    result = optimize(model, bad_ids=policy)
    given = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 3.7, -0.5], np.float32)
    smallest = -(2**63)
    want = rows_of(values, np.array([smallest, smallest, smallest, smallest, smallest, 3, 0]), policy)
    gives(result, {"a": given}, want)


@pytest.mark.parametrize("policy", ["zero", "clamp"])
def test_bad_ids_in_pooling(policy: str) -> None:
    values = table(10, 4)
    model = parse(
        "(int64[b,3] x) => (float[b,4] y) { i1 = Constant<value_ints=[1]>() e = Gather(W, x) y = ReduceSum<keepdims=0>(e, i1) }",
        W=values,
    )
    result = optimize(model, bad_ids=policy)
    given = np.array([[0, 10, -11], [99, 99, 99], [1, 2, -1]])
    want = rows_of(values, given, policy).sum(axis=1)
    gives(result, {"x": given}, want, tolerance=FP32_TOLERANCE)


@pytest.mark.parametrize("policy", ["error", "zero", "clamp"])
def test_the_policy_stands_in_program_and_metadata(policy: str) -> None:
    result = optimize(two_fields(), bad_ids=policy)
    assert programs(result)[0].splitlines()[2] == f"bad {policy}"
    assert {p.key: p.value for p in result.model.metadata_props}["dpiframe.bad_ids"] == policy


def test_a_sum_of_a_sum_is_one_sum() -> None:
    # RecBole sums its first order twice, the second time over an axis of one
    model = parse(
        """(int64[b,3] x) => (float[b,1] y) {
            i1 = Constant<value_ints=[1]>()
            e = Gather(W, x)
            s = ReduceSum<keepdims=0>(e, i1)
            y = ReduceSum<keepdims=1>(s, i1)
        }""",
        W=table(10, 1),
    )
    result = optimize(model)
    assert op_types(result.model) == [OP]
    agree(model, result, *batches({"x": (("b", 3), 10)}), tolerance=FP32_TOLERANCE)


# form only what wins


def test_a_lookup_with_which_nothing_is_joined_stays_a_gather() -> None:
    model = parse(
        "(int64[b] a, int64[b] c) => (float[b,4] y, float[b,4] z) { y = Gather(A, a) e = Gather(A, c) z = Relu(e) }",
        A=table(10, 4),
    )
    result = optimize(model)
    assert op_types(result.model) == ["Gather", "Gather", "Relu"]
    assert not result.fused
    reason = "there is nothing to join it with: it is as fast on its own"
    assert refusals(result) == {"y": reason, "e": reason}


def test_on_a_gpu_several_lookups_are_one_launch() -> None:
    model = parse(
        "(int64[b] a, int64[b] c) => (float[b,4] y, float[b,4] z) { y = Gather(A, a) e = Gather(A, c) z = Relu(e) }",
        A=table(10, 4),
    )
    result = optimize(model, provider="cuda")
    assert op_types(result.model) == [OP, "Relu"]
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 10)}))
    one = parse("(int64[b] a) => (float[b,4] y) { y = Gather(A, a) }", A=table(10, 4))
    assert op_types(optimize(one, provider="cuda").model) == ["Gather"]


@pytest.mark.parametrize("policy", ["zero", "clamp"])
def test_a_policy_for_bad_ids_holds_for_every_lookup(policy: str) -> None:
    model = parse("(int64[b] a) => (float[b,4] y) { y = Gather(A, a) }", A=table(10, 4))
    assert op_types(optimize(model, bad_ids=policy).model) == [OP]


@pytest.mark.parametrize(
    "steps",
    ["i = Cast<to=7>(x) y = Gather(A, i)", "e = Gather(A, a) y = Flatten(e)", "i = Add(a, n) y = Gather(A, i)"],
)
def test_a_lookup_that_saves_a_node_is_fused(steps: str) -> None:
    shape = "float[b,4]" if "x" in steps else "float[b,m]" if "Flatten" in steps else "float[b,2,4]"
    constants = {"n": np.array([1])} if "n)" in steps else {}
    model = parse(f"(int64[b,2] a, float[b] x) => ({shape} y) {{ {steps} }}", A=table(10, 4), **constants)
    result = optimize(model)
    assert op_types(result.model) == [OP]
    agree(model, result, {"a": ids(3, 2, high=9), "x": np.array([1, 2.5, 9], np.float32)})


def test_plain_lookups_beside_joined_ones_come_along() -> None:
    model = parse(
        """(int64[b] a, int64[b] c, int64[b] d) => (float[b,8] y, float[b,4] z) {
            e = Gather(A, a)  f = Gather(A, c)  z = Gather(A, d)
            y = Concat<axis=1>(e, f)
        }""",
        A=table(10, 4),
    )
    result = optimize(model)
    assert op_types(result.model) == [OP]
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 10), "d": (("b",), 10)}))


SHARED_POOL = """(int64[b,{length}] x, int64[b] a, float[b,2] dense) => (float[b,8] y, float[b,10] z) {{
    i1 = Constant<value_ints=[1]>()
    h = Gather(W, x)
    p = ReduceSum<keepdims=0>(h, i1)
    e = Gather(A, a)
    y = Concat<axis=1>(p, e)
    z = Concat<axis=1>(p, e, dense)
}}"""


@pytest.mark.parametrize(("length", "nodes"), [("3", [OP]), ("40", [OP, f"{OP}_1"]), ("l", [OP, f"{OP}_1"])])
def test_a_long_pool_that_two_joins_hold_is_computed_once(length: str, nodes: list[str]) -> None:
    model = parse(SHARED_POOL.format(length=length), W=table(10, 4), A=table(20, 4))
    result = optimize(model)
    assert op_types(result.model) == nodes
    sizes = 5 if length == "l" else int(length)
    if len(nodes) == 2:
        assert [line.split()[0] for line in blocks(result, 1)] == ["copy", "row", "copy", "row", "copy"]
        assert sum(line.startswith("pool") for line in blocks(result, 0)) == 1
    case = {"x": ids(3, sizes, high=10), "a": ids(3, high=20), "dense": table(3, 2)}
    agree(model, result, case, tolerance=FP32_TOLERANCE)


def test_on_a_gpu_a_launch_costs_more_than_pooling_again() -> None:
    model = parse(SHARED_POOL.format(length="40"), W=table(10, 4), A=table(20, 4))
    result = optimize(model, provider="cuda")
    assert op_types(result.model) == [OP]
    case = {"x": ids(3, 40, high=10), "a": ids(3, high=20), "dense": table(3, 2)}
    agree(model, result, case, tolerance=FP32_TOLERANCE)


def test_a_long_mean_behind_views_that_two_joins_hold() -> None:
    model = parse(
        """(int64[b,50] x, int64[b,1] a) => (float[b,2,4] y, float[b,8] z) {
            i1 = Constant<value_ints=[1]>()  zero = Constant<value_int=0>()  i2 = Constant<value_ints=[2]>()
            eps = Constant<value_float=1e-8>()
            h = Gather(W, x)
            q = Equal(x, zero)  n = Not(q)  m = Cast<to=1>(n)  mu = Unsqueeze(m, i2)
            hm = Mul(h, mu)  s = ReduceSum<keepdims=0>(hm, i1)  c = ReduceSum<keepdims=1>(m, i1)
            ce = Add(c, eps)  p = Div(s, ce)
            pu = Unsqueeze(p, i1)
            e = Gather(A, a)
            j = Concat<axis=1>(pu, e)
            y = Relu(j)
            k = Concat<axis=2>(e, pu)
            z = Flatten(k)
        }""",
        W=table(10, 4), A=table(20, 4),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP, f"{OP}_1", "Relu"]
    assert sum(line.startswith("pool") for k in range(2) for line in blocks(result, k)) == 1
    agree(model, result, {"x": ids(3, 50, high=10), "a": ids(3, 1, high=20)}, tolerance=FP32_TOLERANCE)


def test_two_tensors_of_the_same_rows_and_shape_are_one() -> None:
    # a sum over an axis of one gives the rows again: there is nothing to view
    model = parse(
        """(int64[b,1] a) => (float[b,1,4] y, float[b,3,4] z, float[b,1,4] again) {
            one = Constant<value_ints=[1]>()  shape = Constant<value_ints=[1, 3, 1]>()
            e = Gather(A, a)
            y = Relu(e)
            u = Unsqueeze(e, one)
            r = ReduceSum<keepdims=0>(u, one)
            z = Expand(r, shape)
            again = ReduceSum<keepdims=0>(u, one)
        }""",
        A=table(10, 4),
    )
    result = fuse_all(model)
    assert sorted(op_types(result.model)) == sorted([OP, "Relu", "Expand", "Reshape"])
    agree(model, result, *batches({"a": (("b", 1), 10)}))
