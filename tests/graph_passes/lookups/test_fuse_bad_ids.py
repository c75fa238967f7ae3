"""Hazard: an id outside its table reads something else than the policy says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph_passes.harness import (
    FP32_TOLERANCE,
    agree,
    fails,
    gives,
    ids,
    optimize,
    parse,
    programs,
    table,
)
from tests.graph_passes.lookups.models import two_fields

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
