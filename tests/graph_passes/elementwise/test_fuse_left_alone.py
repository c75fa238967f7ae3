"""Hazard: what is better left alone is fused, or is left without a reason; and what a run leaves behind."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from dpiframe.graph_passes import functions
from dpiframe.graph_passes.elementwise.fuse import FuseElementwise
from dpiframe.graph_passes.pipeline import optimize_model
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.elementwise.fusing import TOLERANCE, fused
from tests.graph_passes.elementwise.programs import floats, program_texts
from tests.graph_passes.harness import agree, changes, op_types, optimize, parse, refusals, table


def test_what_saves_nothing_stays() -> None:
    model = parse("(float[b,4] x) => (float[b,2,2] y) { a = Relu(x) y = Reshape(a, c) }", c=np.array([0, 2, 2]))
    result = optimize(model)
    assert not result.fused
    assert refusals(result) == {"y": "ONNX Runtime runs it as one kernel"}
    assert not optimize(parse("(float[b,4] x) => (float[b,4] y) { y = Relu(x) }"), provider="cuda").fused


def test_activations_behind_products_stay() -> None:
    model = parse(
        "(float[b,8] x) => (float[b,8] y) { g = Gemm(x, w, v) a = Relu(g) h = MatMul(a, w) c = Add(h, v) y = Relu(c) }",
        w=floats(8, 8),
        v=floats(8),
    )
    result = optimize(model)
    assert not result.fused
    assert refusals(result) == dict.fromkeys("acy", "ONNX Runtime fuses it into the matrix product before it")


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_extreme_values_stay_where_nan_must_be_lost(op: str) -> None:
    """Those of floats only: a softmax keeps NaN in ONNX Runtime too, and integers have none."""
    model = parse(
        f"(float[b,8] x, int64[b,8] n) => (float[b,8] y, int64[b,8] z)"
        f"{{ t = Tanh(x) s = Softmax<axis=1>(t) m = {op}(s, one) a = Sub(s, m) y = Mul(a, x)"
        f" d = Mul(n, n) h = {op}(d, one) z = Sub(d, h) }}",
        one=np.array([1]),
    )
    plain = optimize(model, provider="cuda")
    assert op not in op_types(plain.model)
    result = optimize_model(model, provider="cuda", lose_nan=True)
    assert op_types(result.model).count(op) == 1
    assert refusals(result) == {"m": "ONNX Runtime's own loses NaN, and the answers then differ"}
    # The file says so to the next run.
    assert {p.key: p.value for p in result.model.metadata_props}["dpiframe.lose_nan"] == "true"
    assert not optimize(result.model, provider="cuda").fused


def test_sums_over_the_batch_say_why() -> None:
    model = parse("(float[8,4] x) => (float[8,4] y) { s = Softmax<axis=0>(x) y = Mul(s, x) }")
    result = optimize(model)
    assert not result.fused
    assert refusals(result) == {"s": "it works across rows"}


def test_a_shape_that_is_not_known_says_so() -> None:
    text = "(float[b,4] x, int64[n] s) => (float[k,l] y) { r = Reshape(x, s) a = Exp(r) y = Neg(a) }"
    result = optimize(parse(text))
    assert not result.fused
    assert refusals(result)["a"] == "the shape of its result isn't known"


def test_rows_of_unknown_sizes_are_rows_all_the_same() -> None:
    text = "(float[b,4] x, int64[2] s) => (float[k,l] y) { r = Reshape(x, s) a = Exp(r) c = Mul(a, r) y = Neg(c) }"
    result = fused(parse(text), {"x": floats(6, 4), "s": np.array([3, 8])})
    assert op_types(result.model) == ["Reshape", "FusedElementwise"]
    assert program_texts(result.model)[0].splitlines()[1:3] == ["rows 2", "input f32 xx"]


def test_the_end_of_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "POOL_SIZE", 1)
    model = parse(
        """(float[b,4] x) => (float[b,4] y) {
            a = Exp(x) c = Mul(a, x) g = MatMul(c, w) d = Abs(g) e = Sqrt(d) y = Add(e, g)
        }""",
        w=floats(4, 4),
    )
    result = optimize_model(model)
    assert op_types(result.model) == ["FusedElementwise", "MatMul", "Abs", "Sqrt", "Add"]
    assert refusals(result) == {"y": "all 1 names of FusedElementwise are taken"}


def test_the_report_counts() -> None:
    model = parse("(float[b,4] x) => (float[b,4] y) { a = Exp(x) c = Mul(a, w) y = Add(c, x) }", w=floats(4))
    result = optimize(model)
    assert "FusedElementwise_y: 3 nodes from 2 inputs into 1 outputs" in changes(result)


def test_a_second_run_changes_nothing() -> None:
    bench = Workbench(
        parse("(float[b,4] x) => (float[b,4] y) { a = Exp(x) c = Mul(a, w) y = Add(c, x) }", w=floats(4)),
        provider="cuda",
    )
    assert FuseElementwise()(bench).changes
    assert FuseElementwise()(bench).changes == []


def test_a_group_larger_than_a_program() -> None:
    """Cut in parts that read each other in order."""
    nodes = " ".join(f"n{i + 1} = {'Sin' if i % 2 else 'Cos'}(n{i})" for i in range(700))
    model = parse(f"(float[b,4] n0) => (float[b,4] y) {{ {nodes} y = Neg(n700) }}")
    result = optimize(model, provider="cuda")
    assert op_types(result.model) == ["FusedElementwise", "FusedElementwise_1"]
    agree(model, result, {"n0": floats(3, 4)}, tolerance=TOLERANCE, reference=False)


def test_a_group_of_more_lines_than_a_program_holds() -> None:
    """Fewer nodes than may be in a group, of several lines each."""
    nodes = " ".join(f'n{i + 1} = Gelu<approximate="tanh">(n{i})' for i in range(500))
    model = parse(f"(float[b,2] n0) => (float[b,2] y) {{ {nodes} y = Neg(n500) }}")
    result = optimize(model, provider="cuda")
    names = op_types(result.model)
    assert len(names) == 2
    assert all(name.startswith("FusedElementwise") for name in names)
    agree(model, result, {"n0": floats(3, 2)}, tolerance=TOLERANCE, reference=False)


def test_a_tensor_that_is_read_in_two_ways() -> None:
    """With a fixed batch, [4,4] is rows beside a matrix, and a weight beside more axes than it has."""
    model = parse(
        """(float[4,4] x, float[4,4,4] z) => (float[4,4] y, float[4,4,4] v) {
            a = Exp(x) y = Mul(a, x) c = Exp(z) v = Mul(c, x)
        }"""
    )
    result = fused(model, {"x": floats(4, 4), "z": floats(4, 4, 4)})
    assert all(name.startswith("FusedElementwise") for name in op_types(result.model))


def test_tables_are_not_read() -> None:
    """A weight beside the file stays there."""
    model = parse("(float[b,4] x) => (float[b,4] y) { a = Exp(x) c = Mul(a, w) y = Add(c, x) }", w=floats(4))
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="nowhere.bin")
    result = optimize_model(model, provider="cuda")
    assert op_types(result.model) == ["FusedElementwise"]
    assert result.model.graph.initializer[0] == weight


def test_what_a_group_leaves_is_grouped_again() -> None:
    """With the sine, which is slow here, the minimum and its square are no gain; they are once the first group is a
    node, which the sine and the mean follow and they don't."""
    model = parse(
        """(float[b,4] x, float[b,4] z) => (float[b,4] t, float[b,4] s, float[b,12] u, float[b,4] g, float[b,4] m) {
            a = Max(z, z) n = Neg(a) t = Abs(n) g = MatMul(a, w)
            p = MatMul(x, w) l = Min(p, x) s = Mul(l, l) k = Concat<axis=1>(l, a, a) u = Sin(k) m = Mean(l, a)
        }""",
        w=table(4, 4),
    )
    result = fused(model, *[{"x": floats(batch, 4), "z": floats(batch, 4)} for batch in (0, 1, 5)], provider="cpu")
    assert op_types(result.model).count("FusedElementwise_1") == 1
