"""Hazard: a lookup is fused that is better left alone, or left alone without a reason."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph_passes.harness import (
    OP,
    agree,
    batches,
    ids,
    op_types,
    optimize,
    parse,
    refusals,
    table,
)

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
