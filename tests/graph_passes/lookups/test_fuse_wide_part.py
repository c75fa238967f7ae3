"""Hazard: a wide part's sum has other terms, or gives up what else reads them."""

from __future__ import annotations

import numpy as np

from tests.graph_passes.harness import (
    FP32_TOLERANCE,
    OP,
    agree,
    batches,
    blocks,
    op_types,
    optimize,
    parse,
    table,
)


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
