"""Hazard: a lookup takes other ids than the nodes before it gave. P numbers are pattern numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph_passes.harness import (
    OP,
    agree,
    batches,
    blocks,
    fuse_all,
    op_types,
    optimize,
    parse,
    programs,
    table,
)

# ids in one matrix


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
    # [k,b], as DLRM feeds it
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


def test_columns_picked_by_a_list() -> None:
    # how the TorchScript exporter writes X[:, [3, 1]]
    model = parse(
        "(float[b,4] X) => (float[b,2,4] y) { p = Gather<axis=1>(X, picks) i = Cast<to=7>(p) y = Gather(W, i) }",
        W=table(10, 4), picks=np.array([3, 1]),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert blocks(result) == ["row 0 0 4 0 0:3 0", "row 0 4 4 0 0:1 0"]
    agree(model, result, *({"X": c["X"].astype(np.float32)} for c in batches({"X": (("b", 4), 10)})))


def test_columns_picked_by_gather_nd_between_transposes() -> None:
    # how the dynamo exporter writes X[:, [2, 0]]
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


# offsets, factors, quotients and remainders


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
    # two tables, their rows multiplied; the product of rows is left alone
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
    # ids * n + field, then one lookup a pair of fields
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
    # RecBole joins its inputs before it adds the offsets
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
