"""Hazard: two sizes that may differ are taken for one."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from dpiframe.graph_passes.canonicalize.dimensions import unify_dimensions
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import OP, agree, batches, ids, op_types, optimize, parse, table


def unified(model: onnx.ModelProto) -> list[list[object]]:
    bench = Workbench(model)
    for _ in range(3):
        bench.infer_shapes()
        if not unify_dimensions(bench, []):
            break
    else:
        raise AssertionError("not at an end")
    return [tensor.shape for tensor in bench.graph.inputs]


def test_a_join_makes_batches_one() -> None:
    model = parse("(float[p,2] x, float[q,3] y, float[r,1] z) => (float[n,6] o) { o = Concat<axis=1>(x, y, z) }")
    assert unified(model) == [["p", 2], ["p", 3], ["p", 1]]


def test_joins_are_followed_across_nodes() -> None:
    model = parse(
        "(float[p,2] x, float[q,3] y, float[r,1] z) => (float[n,5] o, float[m,4] u) { o = Concat<axis=1>(x, y) k = Relu(y) u = Concat<axis=-1>(k, z) }"
    )
    assert unified(model) == [["p", 2], ["p", 3], ["p", 1]]


def test_the_joined_axis_itself_says_nothing() -> None:
    model = parse("(float[p,2] x, float[q,2] y) => (float[n,2] o) { o = Concat<axis=0>(x, y) }")
    assert unified(model) == [["p", 2], ["q", 2]]


@pytest.mark.parametrize("op", ["Add", "Mul", "Sub"])
def test_broadcasting_says_nothing(op: str) -> None:
    model = parse(f"(float[p,2] x, float[q,2] y) => (float[n,2] o) {{ o = {op}(x, y) }}")
    assert unified(model) == [["p", 2], ["q", 2]]


def test_a_branch_says_nothing() -> None:
    model = parse(
        """(float[p,2] x, float[q,2] y, bool f) => (float[n,m] o) {
            o = If (f) <then_branch = t () => (z) { z = Concat<axis=1>(x, y) }, else_branch = e () => (z) { z = Neg(x) }>
        }"""
    )
    assert unified(model) == [["p", 2], ["q", 2], []]


def test_unnamed_sizes_get_names_of_their_own() -> None:
    model = parse("(float[p,2] x, float[q,2] y, float[2] z) => (float[n,2] o) { o = Add(x, y) }")
    for value in list(model.graph.input)[:2]:
        value.type.tensor_type.shape.dim[0].ClearField("dim_param")
    assert unified(model) == [["x#0", 2], ["y#0", 2], [2]]
    assert Workbench(model).to_model().graph.input == model.graph.input


def test_unnamed_sizes_are_unified_too() -> None:
    model = parse("(float[p,2] x, float[q,2] y) => (float[n,4] o) { o = Concat<axis=1>(x, y) }")
    for value in model.graph.input:
        value.type.tensor_type.shape.dim[0].ClearField("dim_param")
    assert unified(model) == [["x#0", 2], ["x#0", 2]]


def test_a_number_and_a_symbol_stay_what_they_are() -> None:
    model = parse("(float[p,2] x, float[4,2] y) => (float[n,4] o) { o = Concat<axis=1>(x, y) }")
    assert unified(model) == [["p", 2], [4, 2]]


def test_batch_and_length() -> None:
    model = parse(
        "(int64[p,l] x, int64[q,m] y) => (int64[n,k,2] o) { u = Unsqueeze(x, two) v = Unsqueeze(y, two) o = Concat<axis=2>(u, v) }",
        two=np.array([2]),
    )
    assert unified(model) == [["p", "l"], ["p", "l"]]


def test_inputs_without_a_shape() -> None:
    model = parse("(float[p,2] x, float[q,2] y) => (float[n,4] o) { o = Concat<axis=1>(x, y) }")
    model.graph.input[1].type.tensor_type.ClearField("shape")
    assert unified(model)[0] == ["p", 2]


def test_the_file_keeps_its_own_names() -> None:
    model = parse(
        "(int64[p] a, int64[q] c) => (float[n,8] y) { e = Gather(A, a) f = Gather(C, c) y = Concat<axis=1>(e, f) }",
        A=table(10, 4), C=table(20, 4),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == [OP]
    assert list(result.model.graph.input) == list(model.graph.input)
    agree(model, result, *batches({"a": (("b",), 10), "c": (("b",), 20)}))


def test_sizes_that_differ_still_fail() -> None:
    model = parse(
        "(int64[p] a, int64[q] c) => (float[n,8] y) { e = Gather(A, a) f = Gather(C, c) y = Concat<axis=1>(e, f) }",
        A=table(10, 4), C=table(20, 4),
    )  # fmt: skip
    from tests.graph_passes.harness import fails

    result = optimize(model)
    case = {"a": ids(3, high=10), "c": ids(2, high=20)}
    assert fails(model, case)
    assert fails(result.model, case)
    assert fails(result.model, case, library=True)


def test_the_report() -> None:
    bench = Workbench(parse("(float[p,2] x, float[q,3] y) => (float[n,5] o) { o = Concat<axis=1>(x, y) }"))
    bench.infer_shapes()
    changes: list[str] = []
    assert unify_dimensions(bench, changes)
    assert changes == ["1 input dimensions equal others, as joins show"]
    assert not unify_dimensions(bench, changes)
