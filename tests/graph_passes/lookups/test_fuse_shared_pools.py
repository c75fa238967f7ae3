"""Hazard: a pool that several joins hold is computed for each of them, where that takes longer than a node more."""

from __future__ import annotations

import pytest

from tests.graph_passes.harness import (
    FP32_TOLERANCE,
    OP,
    agree,
    blocks,
    ids,
    op_types,
    optimize,
    parse,
    table,
)

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
