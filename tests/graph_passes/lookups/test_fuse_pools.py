"""Hazard: a reduction of rows pools others, or with other weights, or more often than before. P numbers are pattern
numbers."""

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

# pooling

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


@pytest.mark.parametrize(
    "spread",
    [
        "mu = Unsqueeze(m, i2) s = Shape(e) w = Expand(mu, s)",
        "mu = Unsqueeze(m, i2) w = Tile(mu, times)",
        "w = Reshape(m, column)",
    ],
)
def test_a_mask_is_spread_over_the_row_in_any_way(spread: str) -> None:
    # the sequence shares its table with a field of one id
    model = parse(
        f"""(int64[b,3] x, int64[b] a) => (float[b,8] y) {{
            zero = Constant<value_int=0>()  i1 = Constant<value_ints=[1]>()  i2 = Constant<value_ints=[2]>()
            times = Constant<value_ints=[1, 1, 4]>()  column = Constant<value_ints=[-1, 3, 1]>()
            eq = Equal(x, zero)  ne = Not(eq)  m = Cast<to=1>(ne)
            e = Gather(W, x)
            {spread}
            me = Mul(e, w)  p = ReduceSum<keepdims=0>(me, i1)
            f = Gather(W, a)
            y = Concat<axis=1>(p, f)
        }}""",
        W=table(10, 4),
    )
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert list(result.model.graph.node[0].input) == ["x", "a", "W"]
    case = {"x": np.array([[1, 2, 0], [0, 0, 0], [3, 4, 5]]), "a": np.array([1, 0, 9])}
    agree(model, result, case, tolerance=FP32_TOLERANCE)


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


@pytest.mark.parametrize("length", ["3", "L"])
def test_a_list_that_is_looked_up_with_two_offsets(length: str) -> None:
    """As where one table holds two; the lists of both are the same."""
    model = parse(
        f"""(int64[b,{length}] x) => (float[b,4] z) {{
            i1 = Constant<value_ints=[1]>()  ten = Constant<value_int=10>()
            e = Gather(W, x)  xo = Add(x, ten)  f = Gather(W, xo)
            s = ReduceSum<keepdims=0>(e, i1)  t = ReduceSum<keepdims=0>(f, i1)
            z = Add(s, t)
        }}""",
        W=table(20, 4),
    )
    result = optimize(model)
    assert op_types(result.model) == [OP]
    agree(model, result, {"x": ids(3, 3, high=10)}, {"x": ids(1, 3, high=10)}, tolerance=FP32_TOLERANCE)


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
