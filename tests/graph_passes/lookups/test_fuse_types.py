"""Hazard: tables of a type or a size, or an operator set, that most models don't have."""

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
    fuse_all,
    ids,
    op_types,
    optimize,
    parse,
    refusals,
    table,
)


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
    counted = dtype is not np.int64
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name  # type: ignore[call-overload]
    assert (f"tables of type {name} aren't supported" in refusals(result).values()) == counted
    assert (result.lookups_before, result.lookups_fused) == (counted, 0)


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
