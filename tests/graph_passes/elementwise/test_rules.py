"""Hazard: an operator means something else in the program than in ONNX: its attributes, its older versions, its types."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernelError

from dpiframe.custom_ops.elementwise_operators import OPERATORS, Operator
from dpiframe.graph_passes.elementwise.rules import COMPOSED
from tests.graph_passes.elementwise.programs import floats, lines_of, refusal_of
from tests.graph_passes.harness import parse

SPECIAL = np.array([[0.0, -0.0, 1.5, -2.5, 0.5, 80.0, -80.0, 1e-30]], np.float32)
ONNX_NAMES = {"f32": "float", "f64": "double", "i32": "int32", "i64": "int64", "bool": "bool"}
NUMPY = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "bool": np.bool_}


def x_of(kind: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 5, (3, 4)) if kind.startswith("i") else rng.normal(size=(3, 4))
    return values > 0 if kind == "bool" else values.astype(NUMPY[kind])


@pytest.mark.parametrize("operator", [o for o in OPERATORS if o.onnx], ids=lambda o: o.name)
def test_every_operator_of_the_table(operator: Operator) -> None:
    """A new line in the table is tested from here on, in each type that ONNX Runtime has a kernel for."""
    ran = 0
    for kind in operator.types:
        if kind == "f16":
            continue
        given = ["bool"] if operator.name == "where" else []
        given += [kind] * (operator.arity - len(given))
        result = "bool" if operator.gives_bool else kind
        names = "abc"[: operator.arity]
        inputs = ", ".join(f"{ONNX_NAMES[k]}[b,4] {n}" for k, n in zip(given, names, strict=True))
        model = parse(f"({inputs}) => ({ONNX_NAMES[result]}[b,4] y) {{ y = {operator.onnx}({', '.join(names)}) }}")
        case = {name: x_of(k, seed) for seed, (k, name) in enumerate(zip(given, names, strict=True))}
        if operator.name in ("log", "sqrt"):
            case["a"] = np.abs(case["a"])
        if operator.name == "pow":
            case["a"] = np.abs(case["a"])
        try:
            lines = lines_of(model, case)
        except NoKernelError:
            continue
        operands = " ".join(map(str, range(operator.arity)))
        assert lines == [f"{operator.name} {result} 4 : {operands}"]
        ran += 1
    assert ran


def unary(op: str, opset: int = 22, size: int = 8) -> onnx.ModelProto:
    return parse(f"(float[b,{size}] x) => (float[b,{size}] y) {{ y = {op} }}", opset=opset)


@pytest.mark.parametrize("op", sorted(set(COMPOSED) - {"Swish"}))
def test_every_composition(op: str) -> None:
    lines_of(unary(f"{op}(x)"), *({"x": x} for x in (floats(5, 8), floats(5, 8) * 20, floats(0, 8), SPECIAL)))


@pytest.mark.parametrize(
    ("op", "lines"),
    [
        ("LeakyRelu<alpha=0.25>(x)", ["const f32 2.5e-01", "leakyrelu f32 8 : 0 1"]),
        (
            "Elu<alpha=0.5>(x)",
            [
                *("const f32 0", "lt bool 8 : 0 1", "exp f32 8 : 0", "const f32 1e+00", "sub f32 8 : 3 4"),
                *("const f32 5e-01", "mul f32 8 : 5 6", "where f32 8 : 2 7 0"),
            ],
        ),
        (
            "HardSigmoid<alpha=0.5,beta=0.25>(x)",
            [
                *("const f32 5e-01", "mul f32 8 : 0 1", "const f32 2.5e-01", "add f32 8 : 2 3", "const f32 0"),
                *("maximum f32 8 : 4 5", "const f32 1e+00", "minimum f32 8 : 6 7"),
            ],
        ),
        (
            "Softplus(x)",
            [
                *("const f32 0", "maximum f32 8 : 0 1", "abs f32 8 : 0", "neg f32 8 : 3", "exp f32 8 : 4"),
                *("const f32 1e+00", "add f32 8 : 5 6", "log f32 8 : 7", "add f32 8 : 2 8"),
            ],
        ),
        ("ThresholdedRelu<alpha=2.0>(x)", ["const f32 2e+00", "gt bool 8 : 0 1", "const f32 0", "where f32 8 : 2 0 3"]),
    ],
)
def test_compositions_line_by_line(op: str, lines: list[str]) -> None:
    assert lines_of(unary(op), {"x": floats(5, 8)}) == lines


@pytest.mark.parametrize(
    "op",
    [
        "Celu<alpha=0.5>(x)",
        "Selu<alpha=1.5,gamma=0.5>(x)",
        "Gelu(x)",
        'Gelu<approximate="tanh">(x)',
        'Gelu<approximate="none">(x)',
        "Softsign(x)",
        "Mish(x)",
        "HardSwish(x)",
        "HardSigmoid(x)",
    ],
)
def test_attributes_of_compositions(op: str) -> None:
    lines_of(unary(op), {"x": floats(5, 8) * 3})


def test_swish_of_newer_operator_sets() -> None:
    model = unary("Identity(x)")
    assert "Swish" in COMPOSED
    assert lines_of(model, {"x": floats(2, 8)}) == []


def test_compositions_of_float16_are_computed_in_float32() -> None:
    model = parse("(float16[b,4] x) => (float16[b,4] y) { y = Softmax<axis=1>(x) }")
    lines = lines_of(model, {"x": floats(3, 4, dtype="float16")})
    assert lines[0] == "cast f32 4 : 0"
    assert lines[-1] == "cast f16 4 : 6"


def test_arithmetic_of_float16_stays_float16() -> None:
    model = parse("(float16[b,4] x, float16[b,4] y) => (float16[b,4] z) { z = Add(x, y) }")
    assert lines_of(model, {"x": floats(3, 4, dtype="float16"), "y": floats(3, 4, dtype="float16")}) == [
        "add f16 4 : 0 1"
    ]


# operators that aren't one line


@pytest.mark.parametrize(
    ("exponent", "lines"),
    [
        (np.float32(2), ["mul f32 4 : 0 0"]),
        (np.int64(2), ["mul f32 4 : 0 0"]),
        (np.float32(3), ["mul f32 4 : 0 0", "mul f32 4 : 1 0"]),
        (np.float32(0.5), ["const f32 5e-01", "pow f32 4 : 0 1"]),
        (np.int64(4), ["const f32 4e+00", "pow f32 4 : 0 1"]),
        (np.float32(-2), ["const f32 -2e+00", "pow f32 4 : 0 1"]),
    ],
)
def test_powers(exponent: np.generic, lines: list[str]) -> None:
    model = parse("(float[b,4] x) => (float[b,4] y) { y = Pow(x, n) }", n=np.array(exponent))
    assert lines_of(model, {"x": np.abs(floats(3, 4))}) == lines


def test_a_power_of_several_exponents() -> None:
    model = parse("(float[b,2] x) => (float[b,2] y) { y = Pow(x, n) }", n=np.array([2, 3]))
    assert lines_of(model, {"x": np.abs(floats(3, 2))}) == ["cast f32 2 : 1", "pow f32 2 : 0 2"]


def test_integers_are_squared_but_not_raised() -> None:
    squared = parse("(int64[b,4] x) => (int64[b,4] y) { y = Pow(x, n) }", n=np.array(2))
    assert lines_of(squared, {"x": np.arange(8).reshape(2, 4)}) == ["mul i64 4 : 0 0"]
    raised = parse("(int64[b,4] x) => (int64[b,4] y) { y = Pow(x, n) }", n=np.array(5))
    assert refusal_of(raised) == "pow of i64"


LOWEST, HIGHEST = "const f32 -3.4028235e+38", "const f32 3.4028235e+38"


@pytest.mark.parametrize(
    ("operands", "lines"),
    [
        ("x, low, high", ["const f32 -5e-01", "maximum f32 4 : 0 1", "const f32 5e-01", "minimum f32 4 : 2 3"]),
        ("x, low", ["const f32 -5e-01", "maximum f32 4 : 0 1", HIGHEST, "minimum f32 4 : 2 3"]),
        ('x, "", high', [LOWEST, "maximum f32 4 : 0 1", "const f32 5e-01", "minimum f32 4 : 2 3"]),
        ("x", [LOWEST, "maximum f32 4 : 0 1", HIGHEST, "minimum f32 4 : 2 3"]),
    ],
)
def test_clip(operands: str, lines: list[str]) -> None:
    model = parse("(float[b,4] x) => (float[b,4] y) { y = Clip(x) }", low=np.float32(-0.5), high=np.float32(0.5))
    del model.graph.node[0].input[:]
    model.graph.node[0].input.extend(name.strip(' "') for name in operands.split(","))
    infinite = np.array([[np.inf, -np.inf, np.nan, 1], [0, -np.inf, np.inf, -1]], np.float32)
    assert lines_of(model, {"x": floats(3, 4)}, {"x": infinite}) == lines


def test_clip_of_integers_has_the_bounds_that_are_given() -> None:
    model = parse("(int64[b,4] x) => (int64[b,4] y) { y = Clip(x, zero) }", zero=np.int64(0))
    assert lines_of(model, {"x": np.arange(-4, 4).reshape(2, 4)}) == ["const i64 0", "maximum i64 4 : 0 1"]


def test_clip_between_bounds_in_the_wrong_order() -> None:
    model = parse("(float[b,4] x) => (float[b,4] y) { y = Clip(x, one, zero) }", one=np.float32(1), zero=np.float32(0))
    lines_of(model, {"x": floats(3, 4) * 2})


@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min"])
@pytest.mark.parametrize("operands", ["x", "x, y", "x, y, w", "w, x, y, x"])
def test_operators_of_any_number_of_operands(op: str, operands: str) -> None:
    model = parse(f"(float[b,4] x, float[b,1] y) => (float[b,4] z) {{ z = {op}({operands}) }}", w=floats(4))
    lines_of(model, {"x": floats(3, 4), "y": floats(3, 1)})


def test_a_mean_line_by_line() -> None:
    model = parse("(float[b,4] x, float[b,1] y) => (float[b,4] z) { z = Mean(x, y, x) }")
    assert lines_of(model, {"x": floats(3, 4), "y": floats(3, 1)}) == [
        *("add f32 4 : 0 1", "add f32 4 : 2 0", "const f32 3e+00", "div f32 4 : 3 4"),
    ]


def test_remainders() -> None:
    whole = parse("(int64[b,4] x) => (int64[b,4] y) { y = Mod(x, n) }", n=np.array(3))
    assert lines_of(whole, {"x": np.arange(-4, 4).reshape(2, 4)}) == ["const i64 3", "mod i64 4 : 0 1"]
    floating = parse("(float[b,4] x) => (float[b,4] y) { y = Mod<fmod=1>(x, n) }", n=np.float32(0.75))
    assert lines_of(floating, {"x": floats(2, 4) * 4}) == ["const f32 7.5e-01", "fmod f32 4 : 0 1"]
    neither = parse("(int64[b,4] x) => (int64[b,4] y) { y = Mod<fmod=1>(x, n) }", n=np.array(3))
    assert refusal_of(neither) == "fmod of i64"


@pytest.mark.parametrize(
    ("source", "target", "number", "line"),
    [
        ("float", "int64", 7, "cast i64 4 : 0"),
        ("float", "int32", 6, "cast i32 4 : 0"),
        ("float", "bool", 9, "cast bool 4 : 0"),
        ("float", "double", 11, "cast f64 4 : 0"),
        ("float", "float16", 10, "cast f16 4 : 0"),
        ("int64", "float", 1, "cast f32 4 : 0"),
        ("bool", "float", 1, "cast f32 4 : 0"),
    ],
)
def test_casts(source: str, target: str, number: int, line: str) -> None:
    model = parse(f"({source}[b,4] x) => ({target}[b,4] y) {{ y = Cast<to={number}>(x) }}")
    dtype = {"float": "float32", "int64": "int64", "bool": "bool"}[source]
    assert lines_of(model, {"x": (floats(3, 4) * 9).astype(dtype)}) == [line]


@pytest.mark.parametrize(("target", "number"), [("int8", 3), ("uint8", 2), ("bfloat16", 16), ("string", 8)])
def test_casts_to_other_types(target: str, number: int) -> None:
    model = parse(f"(float[b,4] x) => ({target}[b,4] y) {{ y = Cast<to={number}>(x) }}")
    assert refusal_of(model) == "it casts to a type that isn't supported"


@pytest.mark.parametrize(("kind", "what"), [("int8", "int8"), ("uint32", "uint32"), ("bfloat16", "bfloat16")])
def test_other_types(kind: str, what: str) -> None:
    model = parse(f"({kind}[b,4] x) => ({kind}[b,4] y) {{ y = Add(x, x) }}")
    assert refusal_of(model) == f"tensors of type {what} aren't supported"


def test_dropout_is_nothing_outside_of_training() -> None:
    model = parse("(float[b,4] x) => (float[b,4] y) { y = Dropout(x, ratio) }", ratio=np.float32(0.5))
    assert lines_of(model, {"x": floats(3, 4)}) == []
    training = parse(
        "(float[b,4] x) => (float[b,4] y) { y = Dropout(x, ratio, mode) }", ratio=np.float32(0.5), mode=np.array(True)
    )
    assert refusal_of(training) == "it drops values at random"
    chosen = parse("(float[b,4] x, bool mode) => (float[b,4] y) { y = Dropout(x, ratio, mode) }", ratio=np.float32(0.5))
    assert refusal_of(chosen) == "its operand 'mode' isn't a small constant"
    masked = parse(
        "(float[b,4] x) => (float[b,4] y, bool[b,4] mask) { y, mask = Dropout(x, ratio) }", ratio=np.float32(0.5)
    )
    assert refusal_of(masked) == "its output 'mask' is used, too"
