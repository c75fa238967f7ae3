"""Hazard: a join of rows with something else keeps all lookups apart, or is split where that costs more."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.graph_passes.harness import (
    FP32_TOLERANCE,
    OP,
    agree,
    batches,
    blocks,
    changes,
    ids,
    op_types,
    optimize,
    parse,
    table,
)

FIELDS = ("a", "c", "d", "e")
CASES = dict.fromkeys(FIELDS, (("b",), 10))


def model(join: str, steps: str = "", outputs: str = "float[b,n] y", **more: np.ndarray) -> onnx.ModelProto:
    """Lookups ra ... re of four fields, `other`, which needs rows of its own, and what is made of them."""
    inputs = ", ".join(f"int64[b] {name}" for name in FIELDS)
    lookups = " ".join(f"r{name} = Gather(W, {name})" for name in FIELDS)
    text = f"""({inputs}) => ({outputs}) {{
        {lookups}
        first = Gather(V, a)
        other = Sigmoid(first)
        {steps}
        y = {join}
    }}"""
    return parse(text, W=table(10, 4), V=table(10, 4, seed=1), **more)


def inputs_of(result: onnx.ModelProto, op: str) -> list[str]:
    return list(next(n for n in result.graph.node if n.op_type == op).input)


def test_rows_before_and_behind_something_else_are_joined_first() -> None:
    given = model("Concat<axis=1>(ra, rc, other, rd, re)")
    result = optimize(given)
    assert op_types(result.model) == [OP, "Sigmoid", "Concat"]
    assert inputs_of(result.model, "Concat") == ["y_rows", "other", "y_rows_1"]
    # the rows of `other`, then the two runs
    assert [line.split()[1:4] for line in blocks(result)] == [
        ["0", "0", "4"],
        ["1", "0", "4"],
        ["1", "4", "4"],
        ["2", "0", "4"],
        ["2", "4", "4"],
    ]
    agree(given, result, *batches(CASES), tolerance=FP32_TOLERANCE)


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_views_on_any_axis(axis: int) -> None:
    steps = " ".join(f"u{n} = Unsqueeze(r{n}, one)" for n in FIELDS) + " uo = Unsqueeze(other, one)"
    given = model(f"Concat<axis={axis}>(ua, uc, ud, ue, uo)", steps, "float[b,n,m] y", one=np.array([1]))
    result = optimize(given)
    assert op_types(result.model).count("Concat") == 1
    assert len(inputs_of(result.model, "Concat")) == 2
    agree(given, result, *batches(CASES), tolerance=FP32_TOLERANCE)


def test_a_single_row_is_no_run() -> None:
    given = model("Concat<axis=1>(ra, other, rc, other, rd)", "z = Relu(re)", "float[b,n] y, float[b,4] z")
    result = optimize(given)
    assert len(inputs_of(result.model, "Concat")) == 5
    agree(given, result, *batches(CASES), tolerance=FP32_TOLERANCE)


def test_rows_that_something_else_reads_are_not_written_twice() -> None:
    given = model("Concat<axis=1>(ra, rc, rd, other, re)", "z = Relu(rc)", "float[b,n] y, float[b,4] z")
    result = optimize(given)
    assert inputs_of(result.model, "Concat") == ["ra", "rc", "rd", "other", "re"]
    agree(given, result, *batches(CASES), tolerance=FP32_TOLERANCE)


def test_rows_that_are_outputs_of_the_graph_stay() -> None:
    given = model("Concat<axis=1>(ra, rc, other)", "", "float[b,n] y, float[b,4] rc")
    result = optimize(given)
    assert inputs_of(result.model, "Concat") == ["ra", "rc", "other"]
    agree(given, result, *batches(CASES), tolerance=FP32_TOLERANCE)


def test_a_join_that_is_taken_in_whole_is_not_split() -> None:
    given = model("Concat<axis=1>(ra, rc, rd, re)", "z = Relu(other)", "float[b,n] y, float[b,4] z")
    result = optimize(given)
    assert "Concat" not in op_types(result.model)
    agree(given, result, *batches(CASES), tolerance=FP32_TOLERANCE)


def test_a_join_of_batches_is_not_split() -> None:
    given = model("Concat<axis=0>(ra, rc, other)")
    result = optimize(given)
    assert len(inputs_of(result.model, "Concat")) == 3
    agree(given, result, *batches(CASES), tolerance=FP32_TOLERANCE)


def test_at_a_later_level_what_an_earlier_one_gave_is_just_floats() -> None:
    given = parse(
        """(int64[b] a, int64[b] c) => (float[b,20] y) {
            next = Gather(N, a)  i = Cast<to=7>(next)  q = Squeeze(i, one)
            s = Gather(W, q)  t = Gather(V, q)
            ra = Gather(W, a)  rc = Gather(W, c)
            first = Gather(V, c)  other = Sigmoid(first)
            y = Concat<axis=1>(ra, rc, other, s, t)
        }""",
        W=table(10, 4), V=table(10, 4, seed=1), N=np.arange(10, dtype=np.float32)[:, None], one=np.array([1]),
    )  # fmt: skip
    result = optimize(given)
    assert op_types(result.model) == ["Gather", "Cast", "Gather", "Sigmoid", OP]
    assert [line.split()[0] for line in blocks(result)] == ["row", "row", "copy", "row", "row"]
    agree(given, result, *batches({"a": (("b",), 10), "c": (("b",), 10)}), tolerance=FP32_TOLERANCE)


def test_pooled_rows_count_as_rows() -> None:
    given = parse(
        """(int64[b,3] x, int64[b] a) => (float[b,12] y) {
            h = Gather(W, x)  p = ReduceSum<keepdims=0>(h, one)
            e = Gather(U, a)
            first = Gather(V, a)  other = Sigmoid(first)
            y = Concat<axis=1>(p, e, other)
        }""",
        W=table(10, 4), V=table(10, 4, seed=1), U=table(10, 4, seed=2), one=np.array([1]),
    )  # fmt: skip
    result = optimize(given)
    assert inputs_of(result.model, "Concat") == ["y_rows", "other"]
    agree(given, result, {"x": ids(3, 3, high=10), "a": ids(3, high=10)}, tolerance=FP32_TOLERANCE)


def test_inside_a_branch() -> None:
    given = parse(
        """(int64[b] a, int64[b] c, float[b,4] x, bool f) => (float[b,12] y) {
            s = Sigmoid(x)
            y = If (f) <
                then_branch = t () => (z) {
                    e = Gather(W, a) g = Gather(W, c) v = Gather(V, a) o = Mul(v, s) z = Concat<axis=1>(e, g, o)
                },
                else_branch = b () => (z) { z = Concat<axis=1>(s, s, s) }
            >
        }""",
        W=table(10, 4), V=table(10, 4, seed=1),
    )  # fmt: skip
    result = optimize(given)
    taken = next(a.g for n in result.model.graph.node for a in n.attribute if a.name == "then_branch")
    assert op_types(taken) == [OP, "Mul", "Concat"]
    for flag in (True, False):
        case = {"a": ids(3, high=10), "c": ids(3, high=10), "x": table(3, 4), "f": np.array(flag)}
        agree(given, result, case, tolerance=FP32_TOLERANCE)


def test_names_of_inner_joins_are_new() -> None:
    given = model("Concat<axis=1>(ra, rc, other, y_rows)", "y_rows = Neg(other)")
    result = optimize(given)
    assert inputs_of(result.model, "Concat")[0] == "y_rows_1"
    agree(given, result, *batches(CASES), tolerance=FP32_TOLERANCE)


def test_the_report_counts_one_output_for_a_run() -> None:
    result = optimize(model("Concat<axis=1>(ra, rc, rd, re, other)"))
    assert "into 2 outputs" in changes(result)
