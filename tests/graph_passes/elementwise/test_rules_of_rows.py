"""Hazard: an operator over a whole row means something else in the program than in ONNX: a reduction, a normalization."""

from __future__ import annotations

import numpy as np
import pytest

from dpiframe.graph_passes.elementwise.rules import REDUCED
from tests.graph_passes.elementwise.programs import floats, lines_of, refusal_of
from tests.graph_passes.harness import parse


@pytest.mark.parametrize("op", sorted(REDUCED))
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("axes", [[1], [2], [-1], [1, 2], [2, 1]])
def test_reductions(op: str, keep: int, axes: list[int]) -> None:
    left = ("float[b,1,1]" if keep else "float[b]") if len(axes) == 2 else "float[b,n,m]" if keep else "float[b,n]"
    model = parse(
        f"(float[b,3,4] x) => ({left} y) {{ y = {op}<keepdims={keep}>(x, axes) }}", axes=np.array(axes), opset=18
    )
    lines_of(model, {"x": np.abs(floats(5, 3, 4))}, {"x": np.abs(floats(0, 3, 4))})


@pytest.mark.parametrize("op", sorted(REDUCED))
def test_reductions_whose_axes_are_an_attribute(op: str) -> None:
    model = parse(f"(float[b,3,4] x) => (float[b,3] y) {{ y = {op}<axes=[-1],keepdims=0>(x) }}", opset=12)
    lines_of(model, {"x": np.abs(floats(5, 3, 4))})


def test_reductions_line_by_line() -> None:
    model = parse("(float[b,3,4] x) => (float[b,4] y) { y = ReduceMean<keepdims=0>(x, one) }", one=np.array([1]))
    assert lines_of(model, {"x": floats(2, 3, 4)}) == ["sum f32 4 : 0 0", "const f32 3e+00", "div f32 4 : 1 2"]
    model = parse("(float[b,3,4] x) => (float[b,3,1] y) { y = ReduceL2(x, one) }", one=np.array([2]))
    assert lines_of(model, {"x": floats(2, 3, 4)}) == ["mul f32 3 4 : 0 0", "sum f32 3 1 : 1 1", "sqrt f32 3 1 : 2"]


def test_the_logarithm_of_a_sum_of_exponentials_of_anything() -> None:
    model = parse("(float[b,3] x) => (float[b,1] y) { y = ReduceLogSumExp(x, one) }", one=np.array([1]))
    rows = [[100, 101, 99], [-np.inf, -np.inf, 0], [-200, -300, -400], [0, 0, 0]]
    lines_of(model, {"x": np.array(rows, np.float32)})


def test_integers_are_summed_but_not_averaged() -> None:
    model = parse("(int64[b,3] x) => (int64[b,1] y) { y = ReduceSum(x, one) }", one=np.array([1]))
    assert lines_of(model, {"x": np.arange(6).reshape(2, 3)}) == ["sum i64 1 : 0 0"]
    model = parse("(int64[b,3] x) => (int64[b,1] y) { y = ReduceMean(x, one) }", one=np.array([1]))
    assert refusal_of(model) == "it averages integers"


def test_reductions_over_no_axis() -> None:
    text = "(float[b,3] x) => (float[b,3] y) { y = ReduceSum<noop_with_empty_axes=1>(x, none) }"
    assert refusal_of(parse(text, none=np.array([], np.int64))) == "it reduces over no axis"


def test_reductions_over_all_axes() -> None:
    model = parse("(float[1,3] x) => (float[1,1] y) { y = ReduceSum(x) }")
    assert refusal_of(model) == "it reduces over the batch, too"


def test_a_reduction_over_the_batch() -> None:
    model = parse("(float[b,3] x) => (float[b,3] y) { s = ReduceSum(x, zero) y = Sub(x, s) }", zero=np.array([0]))
    assert refusal_of(model) == "its result has no rows"


# normalizations


@pytest.mark.parametrize(("opset", "axis"), [(13, -1), (13, 1), (13, 2), (20, -2)])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_softmax(op: str, opset: int, axis: int) -> None:
    model = parse(f"(float[b,3,4] x) => (float[b,3,4] y) {{ y = {op}<axis={axis}>(x) }}", opset=opset)
    lines_of(model, {"x": floats(5, 3, 4)}, {"x": floats(5, 3, 4) * 100})


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("attribute", ["", "<axis=1>", "<axis=2>"])
def test_softmax_of_older_operator_sets_sums_over_all_axes_from_one_on(op: str, attribute: str) -> None:
    model = parse(f"(float[b,3,4] x) => (float[b,3,4] y) {{ y = {op}{attribute}(x) }}", opset=12)
    lines = lines_of(model, {"x": floats(5, 3, 4)})
    assert lines[0] == ("max f32 3 1 : 0 1" if "2" in attribute else "max f32 1 1 : 0 0 1")


def test_softmax_line_by_line() -> None:
    model = parse("(float[b,4] x) => (float[b,4] y) { y = Softmax(x) }")
    assert lines_of(model, {"x": floats(3, 4)}) == [
        *("max f32 1 : 0 0", "sub f32 4 : 0 1", "exp f32 4 : 2", "sum f32 1 : 3 0", "div f32 4 : 3 4"),
    ]


def test_softmax_across_rows() -> None:
    model = parse("(float[b,4] x) => (float[b,4] y) { y = Softmax<axis=0>(x) }")
    assert refusal_of(model) == "it works across rows"
    model = parse("(float[b,4] x) => (float[b,4] y) { y = Softmax<axis=0>(x) }", opset=11)
    assert refusal_of(model) == "it works across rows"


@pytest.mark.parametrize("axis", [-1, -2, 1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_layer_normalization(axis: int, bias: bool) -> None:
    shape = (4,) if axis in (-1, 2) else (3, 4)
    operands = "x, scale, shift" if bias else "x, scale"
    model = parse(
        f"(float[b,3,4] x) => (float[b,3,4] y) {{ y = LayerNormalization<axis={axis},epsilon=0.01>({operands}) }}",
        scale=floats(*shape),
        shift=floats(*shape, seed=1),
    )
    lines_of(model, {"x": floats(5, 3, 4)})


def test_layer_normalization_whose_mean_is_read() -> None:
    model = parse(
        "(float[b,4] x) => (float[b,4] y, float[b,1] m) { y, m = LayerNormalization(x, scale) }", scale=floats(4)
    )
    assert refusal_of(model) == "its output 'm' is used, too"
    model = parse("(float[b,4] x) => (float[b,4] y) { y, m = LayerNormalization(x, scale) }", scale=floats(4))
    assert lines_of(model, {"x": floats(5, 4)})


def test_root_mean_square_normalization() -> None:
    text = "(float[b,3,4] x) => (float[b,3,4] y) { y = RMSNormalization<epsilon=0.01>(x, scale) }"
    model = parse(text, opset=23, ir=11, scale=floats(4))
    assert lines_of(model, {"x": floats(5, 3, 4)})[0] == "mul f32 3 4 : 0 0"


BATCH_NORM = {
    "scale": floats(3),
    "shift": floats(3, seed=1),
    "mean": floats(3, seed=2),
    "var": np.abs(floats(3, seed=3)),
}


@pytest.mark.parametrize("shape", ["b,3", "b,3,4", "b,3,2,2"])
@pytest.mark.parametrize("opset", [11, 14, 15])
def test_batch_normalization(shape: str, opset: int) -> None:
    text = f"(float[{shape}] x) => (float[{shape}] y) {{ y = BatchNormalization<epsilon=0.01>(x, scale, shift, mean, var) }}"
    sizes = [5, *map(int, shape.split(",")[1:])]
    lines_of(parse(text, opset=opset, **BATCH_NORM), {"x": floats(*sizes)})


def test_batch_normalization_is_a_factor_and_a_shift() -> None:
    text = "(float[b,3,4] x) => (float[b,3,4] y) { y = BatchNormalization(x, scale, shift, mean, var) }"
    assert lines_of(parse(text, **BATCH_NORM), {"x": floats(5, 3, 4)}) == [
        *("view f32 3 1 : 1 0 1 0", "view f32 3 1 : 2 0 1 0", "view f32 3 1 : 3 0 1 0", "view f32 3 1 : 4 0 1 0"),
        *("const f32 1e-05", "add f32 3 1 : 8 9", "sqrt f32 3 1 : 10", "div f32 3 1 : 5 11"),
        *("mul f32 3 4 : 0 12", "mul f32 3 1 : 7 12", "sub f32 3 1 : 6 14", "add f32 3 4 : 13 15"),
    ]


def test_batch_normalization_in_training() -> None:
    text = """(float[b,3] x) => (float[b,3] y) {
        y, m, v = BatchNormalization<training_mode=1>(x, scale, shift, mean, var)
    }"""
    assert refusal_of(parse(text, **BATCH_NORM)) == "it is in training mode"


def test_batch_normalization_over_an_axis_of_dynamic_length() -> None:
    text = "(float[b,l,3] x) => (float[b,l,3] y) { y = BatchNormalization(x, scale, shift, mean, var) }"
    assert refusal_of(parse(text, **BATCH_NORM)) == "its channels are no axis of static size behind the batch"
    text = "(float[b] x) => (float[b] y) { y = BatchNormalization(x, scale, shift, mean, var) }"
    assert refusal_of(parse(text, **BATCH_NORM))
