"""Hazard: single operators: NaN, infinities, signed zeros, subnormals, overflow, division by 0; and their accuracy.

The tests run by themselves over the table of operators.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

from dpiframe.custom_ops._kernels import ElementwiseProgram
from dpiframe.custom_ops.elementwise_operators import ANY, BY_NAME, FLOATS, NUMPY_TYPES, OPERATORS, Operator
from tests.custom_ops import elementwise_reference as reference
from tests.custom_ops.elementwise_models import ONNX_TYPES

FLOAT_VALUES = [0, 1, 0.5, 2, 2.5, 3, 7, 1e-3, 88.7, 103.5, np.inf]
VALUES = {
    "f32": [*FLOAT_VALUES, 3.4028235e38, 1e-45, 1.1754944e-38, 16777216, 1e10, 2147483648, 9.3e18],
    "f16": [*FLOAT_VALUES, 65504, 6e-8, 6.104e-5, 2048],
    "f64": [*FLOAT_VALUES, 1.7976931348623157e308, 5e-324, 2.2250738585072014e-308, 709.7, 1e300, 65519.99, 65520],
    "i32": [0, 1, 2, 3, 7, 100, 2**31 - 1],
    "i64": [0, 1, 2, 3, 7, 1 << 40, 2**63 - 1],
    "bool": [0, 1],
}
CASES = [(operator, kind) for operator in OPERATORS for kind in operator.types]
IDS = [f"{operator.name}-{kind}" for operator, kind in CASES]


def special(kind: str) -> np.ndarray:
    values = np.array(VALUES[kind]).astype(NUMPY_TYPES[kind])
    if kind == "bool":
        return values
    lowest = [] if kind in FLOATS else [np.iinfo(values.dtype).min]
    more = [np.nan] if kind in FLOATS else lowest
    return np.concatenate([values, -values, np.array(more, values.dtype)])


def operands(operator: Operator, kind: str) -> list[np.ndarray]:
    """All combinations of special values, one element a row."""
    one = special(kind)
    sets = [one] * operator.arity
    if operator.name == "where":
        sets[0] = np.array([False, True])
        sets[2] = one[:3]
    grid = np.array(list(itertools.product(*(range(len(values)) for values in sets))))
    return [np.ascontiguousarray(values[grid[:, i]]) for i, values in enumerate(sets)]


def types_of(operator: Operator, kind: str) -> list[str]:
    return ["bool" if operator.name == "where" and i == 0 else kind for i in range(operator.arity)]


def program_of(operator: Operator, kind: str) -> str:
    lines = ["elementwise 1", "rows 1", *(f"input {of} x" for of in types_of(operator, kind))]
    lines.append(f"{operator.name} {'bool' if operator.gives_bool else kind} : {' '.join('012'[: operator.arity])}")
    return "\n".join([*lines, f"output {operator.arity}", ""])


@pytest.mark.parametrize(("operator", "kind"), CASES, ids=IDS)
@pytest.mark.parametrize("instructions", ["best", "avx2", "baseline"])
def test_special_values(operator: Operator, kind: str, instructions: str) -> None:
    inputs = operands(operator, kind)
    text = program_of(operator, kind)
    outputs = ElementwiseProgram(text, instructions).run(inputs)
    expected = reference.run(text, inputs)[0]
    if operator.exact:
        np.testing.assert_array_equal(outputs[0], expected)
    else:
        close(outputs[0], expected, inputs)


def close(actual: np.ndarray, expected: np.ndarray, inputs: list[np.ndarray]) -> None:
    with np.errstate(all="ignore"):
        same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
        gap = np.abs(actual.astype(np.longdouble) - expected)
        wrong = ~(same | (gap <= 2 * np.spacing(np.abs(expected))))
    # the largest number and infinity are neighbours
    limit = np.finfo(expected.dtype).max
    wrong &= ~((np.abs(actual) >= limit) & (np.abs(expected) >= limit) & (np.signbit(actual) == np.signbit(expected)))
    assert not wrong.any(), [(x[wrong][:4], actual[wrong][:4], expected[wrong][:4]) for x in inputs]


EXACT = [(operator, kind) for operator, kind in CASES if operator.exact]


@pytest.mark.parametrize(("operator", "kind"), EXACT, ids=[f"{operator.name}-{kind}" for operator, kind in EXACT])
def test_exact_operators_are_the_same_with_all_instructions(operator: Operator, kind: str) -> None:
    inputs = operands(operator, kind)
    results = [ElementwiseProgram(program_of(operator, kind), name).run(inputs)[0] for name in ("best", "baseline")]
    np.testing.assert_array_equal(*results)


def own_operator(operator: Operator, kind: str) -> ort.InferenceSession | None:
    """ONNX Runtime's operator of the same meaning, if it has one for this type."""
    if not operator.onnx:
        return None
    names = [f"x{i}" for i in range(operator.arity)]
    inputs = [
        helper.make_tensor_value_info(name, ONNX_TYPES[of], ["B"])
        for name, of in zip(names, types_of(operator, kind), strict=True)
    ]
    output = helper.make_tensor_value_info("y", ONNX_TYPES["bool" if operator.gives_bool else kind], ["B"])
    graph = helper.make_graph([helper.make_node(operator.onnx, names, ["y"])], "one", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        onnx.checker.check_model(model, full_check=True)
        return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:
        return None


@pytest.mark.parametrize(("operator", "kind"), CASES, ids=IDS)
def test_as_the_standard_operator(operator: Operator, kind: str) -> None:
    session = own_operator(operator, kind)
    if session is None:
        pytest.skip("ONNX Runtime has no such operator")
    inputs = operands(operator, kind)
    if operator.name in ("div", "mod") and kind not in FLOATS:
        x, y = inputs
        defined = (y != 0) & ((y != -1) | (x != np.iinfo(x.dtype).min))  # ONNX Runtime dies of the others
        inputs = [x[defined], y[defined]]
    if kind == "f16" and operator.name == "sign":
        inputs = [inputs[0][~np.isnan(inputs[0])]]  # where ONNX Runtime gives 0
    theirs = session.run(None, {f"x{i}": array for i, array in enumerate(inputs)})[0]
    mine = ElementwiseProgram(program_of(operator, kind)).run(inputs)[0]
    if operator.exact:
        np.testing.assert_array_equal(mine, theirs)
        return
    exact = reference.run(program_of(operator, kind), inputs)[0]
    # where ONNX Runtime itself is near the exact value, mine lies near to its
    with np.errstate(all="ignore"):
        theirs_right = (theirs == exact) | (np.abs(theirs - exact) <= 4 * np.spacing(np.abs(exact)))
        theirs_right |= np.isnan(theirs) & np.isnan(exact)
    picked = [array[theirs_right] for array in inputs]
    with np.errstate(all="ignore"):
        gap = np.abs(mine[theirs_right].astype(np.longdouble) - theirs[theirs_right])
        near = (gap <= 6 * np.spacing(np.abs(exact[theirs_right]))) | (mine == theirs)[theirs_right]
        near |= np.isnan(mine[theirs_right]) & np.isnan(theirs[theirs_right])
    assert near.all(), [array[~near][:4] for array in picked]


RANGES = {"exp": 104, "log": None, "tanh": 12, "erf": 5, "sigmoid": 104, "sin": 100, "cos": 100, "atan": 100}


@pytest.mark.parametrize("instructions", ["best", "avx2", "baseline"])
@pytest.mark.parametrize("name", RANGES)
def test_error_is_below_about_two_units_in_the_last_place(name: str, instructions: str) -> None:
    rng = np.random.default_rng(0)
    reach = RANGES[name]
    spread = np.concatenate(
        [
            rng.uniform(-(reach or 10), reach or 10, 100_000),
            rng.standard_normal(50_000),
            # every binary exponent
            rng.uniform(1, 2, 50_000) * 2.0 ** rng.integers(-149, 128, 50_000) * rng.choice([-1, 1], 50_000),
        ]
    ).astype(np.float32)
    x = np.abs(spread) if reach is None else spread[np.abs(spread) <= reach]
    y = ElementwiseProgram(program_of(BY_NAME[name], "f32"), instructions).run([x])[0]
    wide = x.astype(np.float64)
    exact = {
        "erf": lambda: np.array([math.erf(v) for v in wide]),
        "sigmoid": lambda: np.where(wide < 0, np.exp(wide) / (1 + np.exp(wide)), 1 / (1 + np.exp(-wide))),
        "atan": lambda: np.arctan(wide),
    }.get(name, lambda: getattr(np, name)(wide))()
    with np.errstate(all="ignore"):
        unit = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
        error = np.where(np.isfinite(y), np.abs(y - exact) / unit, np.where(np.abs(exact) > 3.4e38, 0, np.inf))
    # ONNX Runtime's sigmoid is off by 10 and more
    assert error.max() <= (2.5 if name == "sigmoid" else 2), x[error.argmax()]


@pytest.mark.parametrize("instructions", ["best", "avx2", "baseline"])
def test_powers_are_within_two_units_in_the_last_place(instructions: str) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([np.exp(rng.uniform(-20, 20, 100_000)), -np.exp(rng.uniform(-5, 5, 20_000))]).astype(np.float32)
    y = np.concatenate([rng.uniform(-5, 5, 100_000), rng.integers(-6, 7, 20_000)]).astype(np.float32)
    z = ElementwiseProgram(program_of(BY_NAME["pow"], "f32"), instructions).run([x, y])[0]
    exact = np.power(x.astype(np.float64), y.astype(np.float64))
    inside = (np.abs(exact) < 3.4e38) & (np.abs(exact) > 1e-37)
    assert inside.mean() > 0.9
    error = np.abs(z - exact)[inside] / np.spacing(np.abs(exact[inside]).astype(np.float32))
    assert error.max() <= 1


@pytest.mark.parametrize("instructions", ["best", "avx2", "baseline"])
@pytest.mark.parametrize("kind", ANY)
def test_casts(kind: str, instructions: str) -> None:
    values = special(kind)
    for to in ANY:
        text = f"elementwise 1\nrows 1\ninput {kind} x\ncast {to} : 0\noutput 1\n"
        with np.errstate(all="ignore"):
            expected = reference.run(text, [values])[0]
        np.testing.assert_array_equal(ElementwiseProgram(text, instructions).run([values])[0], expected)


@pytest.mark.parametrize("instructions", ["best", "avx2", "baseline"])
def test_float64_to_float16_is_rounded_once(instructions: str) -> None:
    rng = np.random.default_rng(0)
    halves = rng.integers(0, 0x7BFF, 100_000).astype(np.uint16).view(np.float16)
    above = np.nextafter(halves, np.float16(np.inf))
    middle = (halves.astype(np.float64) + above) / 2
    x = np.concatenate([middle, np.nextafter(middle, np.inf), np.nextafter(middle, 0), -middle])
    text = "elementwise 1\nrows 1\ninput f64 x\ncast f16 : 0\noutput 1\n"
    np.testing.assert_array_equal(ElementwiseProgram(text, instructions).run([x])[0], x.astype(np.float16))


@pytest.mark.parametrize("instructions", ["best", "baseline"])
def test_float16_is_rounded_after_each_line(instructions: str) -> None:
    text = (
        "elementwise 1\nrows 1\ninput f16 x\nconst f16 1.5e+0\nmul f16 : 0 1\nadd f16 : 2 0\ncast f32 : 3\noutput 4\n"
    )
    x = np.random.default_rng(0).standard_normal(5000).astype(np.float16)
    wide = x.astype(np.float32)
    product = (wide * np.float32(1.5)).astype(np.float16)
    expected = (product.astype(np.float32) + wide).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(ElementwiseProgram(text, instructions).run([x])[0], expected)
