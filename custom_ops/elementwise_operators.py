"""The operators of FusedElementwise, one line each: the only list of them.

The passes, the tests and the kernels read it; the build writes it out as a C++ header. This module imports nothing
that a bare Python lacks.
"""

from __future__ import annotations

from dataclasses import dataclass

FLOATS = ("f32", "f16", "f64")
INTEGERS = ("i32", "i64")
NUMBERS = (*FLOATS, *INTEGERS)
BOOL = ("bool",)
ANY = (*NUMBERS, *BOOL)

NUMPY_TYPES = {"f32": "float32", "f16": "float16", "f64": "float64", "i32": "int32", "i64": "int64", "bool": "bool"}


@dataclass(frozen=True)
class Operator:
    """One operator.

    name: in a program. onnx: the ONNX operator of the same meaning, "" where there is none. arity: operands. types:
    those of the operands (of all but the condition for `where`). reference: the meaning, as a numpy expression over
    arrays x, y and z of one type; erf, divide and remainder are not numpy's own. code: the expression in C++ and CUDA
    over scalars x, y and z of type T (float for f16, an unsigned byte for bool); a capitalised call names a function
    that both kernels' headers define. gives_bool: the result is a bool; else it has the operands' type. exact: rounded
    correctly, so that every kernel gives the same bits.
    """

    name: str
    onnx: str
    arity: int
    types: tuple[str, ...]
    reference: str
    code: str
    gives_bool: bool = False
    exact: bool = True


OPERATORS = (
    Operator("add", "Add", 2, NUMBERS, "x + y", "x + y"),
    Operator("sub", "Sub", 2, NUMBERS, "x - y", "x - y"),
    Operator("mul", "Mul", 2, NUMBERS, "x * y", "x * y"),
    Operator("div", "Div", 2, NUMBERS, "divide(x, y)", "Div(x, y)"),
    Operator("mod", "Mod", 2, INTEGERS, "remainder(x, y)", "Mod(x, y)"),
    Operator("fmod", "", 2, FLOATS, "np.fmod(x, y)", "Fmod(x, y)"),
    Operator("pow", "Pow", 2, FLOATS, "np.power(x, y)", "Pow(x, y)", exact=False),
    Operator("minimum", "Min", 2, NUMBERS, "np.minimum(x, y)", "Min(x, y)"),
    Operator("maximum", "Max", 2, NUMBERS, "np.maximum(x, y)", "Max(x, y)"),
    Operator("eq", "Equal", 2, ANY, "x == y", "x == y", gives_bool=True),
    Operator("lt", "Less", 2, NUMBERS, "x < y", "x < y", gives_bool=True),
    Operator("le", "LessOrEqual", 2, NUMBERS, "x <= y", "x <= y", gives_bool=True),
    Operator("gt", "Greater", 2, NUMBERS, "x > y", "x > y", gives_bool=True),
    Operator("ge", "GreaterOrEqual", 2, NUMBERS, "x >= y", "x >= y", gives_bool=True),
    Operator("and", "And", 2, BOOL, "x & y", "x & y"),
    Operator("or", "Or", 2, BOOL, "x | y", "x | y"),
    Operator("xor", "Xor", 2, BOOL, "x ^ y", "x ^ y"),
    Operator("not", "Not", 1, BOOL, "~x", "x ^ 1"),
    Operator("isnan", "IsNaN", 1, FLOATS, "np.isnan(x)", "x != x", gives_bool=True),
    Operator("where", "Where", 3, ANY, "np.where(x, y, z)", "x ? y : z"),
    Operator("neg", "Neg", 1, NUMBERS, "-x", "-x"),
    Operator("abs", "Abs", 1, NUMBERS, "np.abs(x)", "Abs(x)"),
    Operator("sign", "Sign", 1, NUMBERS, "np.sign(x)", "Sign(x)"),
    Operator("floor", "Floor", 1, FLOATS, "np.floor(x)", "Floor(x)"),
    Operator("ceil", "Ceil", 1, FLOATS, "np.ceil(x)", "Ceil(x)"),
    Operator("round", "Round", 1, FLOATS, "np.rint(x)", "Round(x)"),
    Operator("sqrt", "Sqrt", 1, FLOATS, "np.sqrt(x)", "Sqrt(x)"),
    Operator("reciprocal", "Reciprocal", 1, FLOATS, "1 / x", "T(1) / x"),
    Operator("exp", "Exp", 1, FLOATS, "np.exp(x)", "Exp(x)", exact=False),
    Operator("log", "Log", 1, FLOATS, "np.log(x)", "Log(x)", exact=False),
    Operator("sin", "Sin", 1, FLOATS, "np.sin(x)", "Sin(x)", exact=False),
    Operator("cos", "Cos", 1, FLOATS, "np.cos(x)", "Cos(x)", exact=False),
    Operator("atan", "Atan", 1, FLOATS, "np.arctan(x)", "Atan(x)", exact=False),
    Operator("tanh", "Tanh", 1, FLOATS, "np.tanh(x)", "Tanh(x)", exact=False),
    Operator("erf", "Erf", 1, FLOATS, "erf(x)", "Erf(x)", exact=False),
    Operator("sigmoid", "Sigmoid", 1, FLOATS, "1 / (1 + np.exp(-x))", "Sigmoid(x)", exact=False),
    Operator("relu", "Relu", 1, NUMBERS, "np.maximum(x, 0)", "Max(x, T(0))"),
    Operator("leakyrelu", "PRelu", 2, FLOATS, "np.where(x < 0, x * y, x)", "x < T(0) ? x * y : x"),
)

BY_NAME = {operator.name: operator for operator in OPERATORS}
