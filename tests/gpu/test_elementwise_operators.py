"""Every operator, cast and reduction alone, over ordinary numbers and those that are likely to be treated wrongly."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpiframe.custom_ops.elementwise_operators import ANY, NUMBERS, NUMPY_TYPES, OPERATORS
from tests.custom_ops import elementwise_reference
from tests.custom_ops.elementwise_programs import SPECIAL_FLOATS, SPECIAL_INTEGERS, numbers
from tests.gpu.elementwise import CudaProgram

SIZE = 96


def arrays(kind: str, count: int, size: int = SIZE) -> list[np.ndarray]:
    """Rows of random numbers, and all pairs of special ones."""
    rng = np.random.default_rng(size)
    result = [numbers(rng, kind, (20, size), special=True) for _ in range(count)]
    special = {**SPECIAL_INTEGERS, "bool": (False, True)}.get(kind, SPECIAL_FLOATS)
    pairs = np.array(list(itertools.product(special, special)), NUMPY_TYPES[kind] if kind != "f16" else np.float32)
    with np.errstate(over="ignore"):
        pairs = pairs.astype(NUMPY_TYPES[kind])[: 20 * size]
    for array in result[:2]:
        array.reshape(-1)[: len(pairs)] = pairs[:, 0 if array is result[0] else 1]
    return result


def lines_of(kind: str) -> list[str]:
    """Lines that read the inputs 0, 1, 2 of this type and the condition 3."""
    lines = []
    for operator in OPERATORS:
        if kind in operator.types:
            operands = "3 0 1" if operator.name == "where" else " ".join("012"[: operator.arity])
            lines.append(f"{operator.name} {'bool' if operator.gives_bool else kind} {SIZE} : {operands}")
    return lines


@pytest.mark.parametrize("compiles", [True, False])
@pytest.mark.parametrize("kind", ANY)
def test_operators(kind: str, compiles: bool) -> None:
    lines = lines_of(kind)
    text = "elementwise 1\nrows 1\n" + f"input {kind} x {SIZE}\n" * 3 + f"input bool x {SIZE}\n"
    text += "".join(line + "\n" for line in lines) + "".join(f"output {4 + i}\n" for i in range(len(lines)))
    inputs = [*arrays(kind, 3), *arrays("bool", 1)]
    elementwise_reference.compare(text, inputs, CudaProgram(text, compiles).run(inputs))


@pytest.mark.parametrize("compiles", [True, False])
@pytest.mark.parametrize("kind", ANY)
def test_casts(kind: str, compiles: bool) -> None:
    text = f"elementwise 1\nrows 1\ninput {kind} x {SIZE}\n" + "".join(f"cast {to} {SIZE} : 0\n" for to in ANY)
    text += "".join(f"output {1 + i}\n" for i in range(len(ANY)))
    inputs = arrays(kind, 1)
    if kind.startswith("f"):
        edges = [2.0**31, -(2.0**31), 2.0**31 - 1, 2.0**63, -(2.0**63), 65519.9, 65520, 2.5, -2.5, 0.5, -0.5, 1e-8]
        with np.errstate(over="ignore"):
            inputs[0].reshape(-1)[-len(edges) :] = np.array(edges).astype(inputs[0].dtype)
    elementwise_reference.compare(text, inputs, CudaProgram(text, compiles).run(inputs))


@pytest.mark.parametrize("lanes", [0, 1, 4, 32, 256, -1])
@pytest.mark.parametrize("kind", NUMBERS)
def test_reductions(kind: str, lanes: int) -> None:
    """All axes, the last and the first ones; -1: by the interpreter."""
    text = f"elementwise 1\nrows 1\ninput {kind} x 6 4 4\n"
    lines = []
    for name in ("sum", "max", "min", "prod"):
        for sizes, axes in (("", "0 1 2"), ("6", "1 2"), ("4 4", "0"), ("6 4", "2"), ("4", "0 1"), ("6 1 4", "1")):
            lines.append(f"{name} {kind}{' ' + sizes if sizes else ''} : 0 {axes}\n")
    text += "".join(lines) + "".join(f"output {1 + i}\n" for i in range(len(lines)))
    inputs = [array.reshape(20, 6, 4, 4) for array in arrays(kind, 1)]
    outputs = CudaProgram(text, lanes >= 0, max(lanes, 0)).run(inputs)
    elementwise_reference.compare(text, inputs, outputs)
