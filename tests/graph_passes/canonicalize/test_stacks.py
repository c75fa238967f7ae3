"""Hazard: parts that are stacked or joined in another order, or aren't all of an axis, are taken for a view."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from dpiframe.graph_passes.canonicalize.stacks import turn_stacks
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import op_types, parse, session


def turned(model: onnx.ModelProto) -> list[str]:
    """The operators afterwards, which give the same bits."""
    bench = Workbench(model)
    bench.infer_shapes()
    turn_stacks(bench, [])
    bench.tidy()
    after = bench.to_model()
    onnx.checker.check_model(after, full_check=True)
    for batch in (0, 1, 4):
        value = model.graph.input[0]
        sizes = [d.dim_value or batch for d in value.type.tensor_type.shape.dim]
        case = {value.name: np.random.default_rng(batch).normal(size=sizes).astype(np.float32)}
        for before, now in zip(session(model).run(None, case), session(after).run(None, case), strict=True):
            np.testing.assert_array_equal(before, now)
    return op_types(after)


def stack(rows: str, axis: int, new: int, parts: str = "2, 2, 2", order: tuple[int, int, int] = (0, 1, 2)) -> str:
    names = ", ".join(f"u{i}" for i in order)
    unsqueezed = " ".join(f"u{i} = Unsqueeze(p{i}, at)" for i in range(3))
    return (
        f"(float[{rows}] x) => (float[] y) <int64[1] at = {{{new}}}, int64[3] parts = {{{parts}}}> {{"
        f" p0, p1, p2 = Split<axis={axis}>(x, parts) {unsqueezed} s = Concat<axis={new}>({names}) y = Relu(s) }}"
    )


def model_of(text: str) -> onnx.ModelProto:
    model = parse(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return onnx.shape_inference.infer_shapes(model)


@pytest.mark.parametrize(
    ("rows", "axis", "new", "ops"),
    [
        ("b,5,6", 2, 0, ["Reshape", "Transpose"]),
        ("b,5,6", -1, 0, ["Reshape", "Transpose"]),
        ("b,6,5", 1, 1, ["Reshape"]),
        ("b,6,5", 1, 2, ["Reshape", "Transpose"]),
        ("b,6,5", 1, -1, ["Reshape", "Transpose"]),
        ("6,b", 0, 1, ["Reshape", "Transpose"]),
    ],
)
def test_stacked_parts_are_a_view_and_a_transpose(rows: str, axis: int, new: int, ops: list[str]) -> None:
    assert turned(model_of(stack(rows, axis, new))) == [*ops, "Relu"]


@pytest.mark.parametrize(
    "text",
    [
        stack("b,5,6", 2, 0, order=(0, 2, 1)),
        stack("b,l,6", 2, 0),
        stack("b,5,6", 2, 0).replace("Concat<axis=0>", "Concat<axis=1>"),  # not along the new axis
    ],
)
def test_other_stacks_stay(text: str) -> None:
    model = model_of(text)
    bench = Workbench(model)
    bench.infer_shapes()
    assert not turn_stacks(bench, [])


def join(rows: str, axis: int, to: int, order: str = "p0, p1, p2", parts: str = "1, 1, 1") -> str:
    return (
        f"(float[{rows}] x) => (float[] y) <int64[3] parts = {{{parts}}}> {{"
        f" p0, p1, p2 = Split<axis={axis}>(x, parts) j = Concat<axis={to}>({order}) y = Relu(j) }}"
    )


@pytest.mark.parametrize(
    ("rows", "axis", "to", "ops"),
    [
        ("3,b,5,2", 0, -1, ["Transpose", "Reshape", "Reshape"]),
        ("b,5,3,2", 2, 3, ["Reshape", "Reshape"]),
        ("b,5,2,3", 3, 2, ["Transpose", "Reshape", "Reshape"]),
        ("b,5,3,2", 2, 1, ["Transpose", "Reshape", "Reshape"]),
    ],
)
def test_joined_parts_of_a_stack_are_a_transpose_and_a_view(rows: str, axis: int, to: int, ops: list[str]) -> None:
    assert turned(model_of(join(rows, axis, to))) == [*ops, "Relu"]


@pytest.mark.parametrize(
    "text",
    [
        join("3,b,5,2", 0, 3, "p1, p0, p2"),
        join("3,b,5,2", 0, 0),
        join("6,b,5,2", 0, 3, parts="2, 2, 2"),
        join("3,b,5,l", 0, 3),
        join("3,b,5,2", 0, 3, "p0, p1"),
        join("3,b,0,5", 0, 3),  # a Reshape can't name a 0 in another place
        join("3,b,5,2", 0, 1),  # along the size that isn't known
    ],
)
def test_other_joins_stay(text: str) -> None:
    bench = Workbench(model_of(text))
    bench.infer_shapes()
    assert not turn_stacks(bench, [])
