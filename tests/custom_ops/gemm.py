"""Programs of FusedGemm, what they mean in float64, and models with one such node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper

from tests.custom_ops import models

Steps = Sequence[str]


@dataclass
class Case:
    """A product and its steps, as lines without "step"; operands are inputs 2, 3, ..."""

    a: np.ndarray
    weight: np.ndarray
    steps: Steps = ()
    operands: list[np.ndarray] = field(default_factory=list)
    layout: str = "nk"
    precision: str = "fp32"
    begins: Sequence[int] = ()
    """Where in a row of A the K values are that each run of columns multiplies; none: a row is K values."""

    @property
    def row(self) -> int:
        return int(self.a.shape[-1])

    @property
    def k(self) -> int:
        return int(self.weight.shape[1 if self.layout == "nk" else 0])

    @property
    def n(self) -> int:
        return int(self.weight.shape[0 if self.layout == "nk" else 1])

    @property
    def program(self) -> str:
        lines = ["gemm 1", f"precision {self.precision}", f"weight {self.layout}", f"size {self.k} {self.n}"]
        if self.begins:
            lines.append(f"runs {self.row} {' '.join(map(str, self.begins))}")
        return "\n".join([*lines, *(f"step {step}" for step in self.steps)]) + "\n"

    @property
    def nk(self) -> np.ndarray:
        return self.weight if self.layout == "nk" else self.weight.T

    def product(self) -> np.ndarray:
        """The product in float64."""
        with np.errstate(invalid="ignore", over="ignore"):
            return self._multiply(self.a.astype(np.float64), self.nk.astype(np.float64))

    def magnitude(self) -> np.ndarray:
        """Sums of the products' absolute values: what errors are measured by."""
        with np.errstate(invalid="ignore", over="ignore"):
            return self._multiply(np.abs(self.a).astype(np.float64), np.abs(self.nk).astype(np.float64))

    def _multiply(self, a: np.ndarray, nk: np.ndarray) -> np.ndarray:
        begins = self.begins or [0]
        weights = np.split(nk, len(begins))
        runs = [a[..., begin : begin + self.k] @ weight.T for begin, weight in zip(begins, weights, strict=True)]
        return np.concatenate(runs, axis=-1)

    def expected(self) -> np.ndarray:
        """The result in float64."""
        return apply(self.product(), self.steps, self.operands)


def apply(y: np.ndarray, steps: Steps, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Steps in float64 on a result of shape [..., N]."""
    with np.errstate(invalid="ignore", over="ignore"):
        for step in steps:
            op, *rest = step.split(" ")
            operand = np.float64(0)
            if len(rest) == 2:
                operand = operands[int(rest[1]) - 2].astype(np.float64)
                operand = operand.reshape({"column": [*y.shape[:-1], 1], "matrix": y.shape}.get(rest[0], [-1]))
            y = {
                "add": lambda y=y, o=operand: y + o,
                "sub": lambda y=y, o=operand: y - o,
                "mul": lambda y=y, o=operand: y * o,
                "relu": lambda y=y: np.where(y < 0, 0, y),
                "sigmoid": lambda y=y: 1 / (1 + np.exp(-y)),
                "tanh": lambda y=y: np.tanh(y),
                "leakyrelu": lambda y=y, rest=rest: np.where(y < 0, np.float64(np.float32(rest[0])) * y, y),
                "prelu": lambda y=y, o=operand: np.where(y < 0, o * y, y),
                "gelu": lambda y=y: 0.5 * y * (1 + np.vectorize(math.erf)(y / math.sqrt(2))) if y.size else y,
                "silu": lambda y=y: y / (1 + np.exp(-y)),
            }[op]()
    return y


# Every operation and operand once.
ALL_STEPS = [
    "relu",
    "sigmoid",
    "tanh",
    "leakyrelu 0.125",
    "gelu",
    "silu",
    *(f"{op} {kind} 2" for op in ("add", "sub", "mul", "prelu") for kind in ("scalar", "vector", "column", "matrix")),
]


def operand_shape(kind: str, m: int, n: int) -> tuple[int, ...]:
    return {"scalar": (1,), "vector": (n,), "column": (m, 1), "matrix": (m, n)}[kind]


def operands_for(steps: Steps, m: int, n: int, random: np.random.Generator) -> list[np.ndarray]:
    """Random operands for steps whose inputs are 2, 3, ... in order."""
    kinds = {int(rest[1]): rest[0] for _, *rest in (step.split(" ") for step in steps) if len(rest) == 2}
    return [random.standard_normal(operand_shape(kinds[i], m, n)).astype(np.float32) for i in sorted(kinds)]


def random_case(
    m: int, n: int, k: int, steps: Steps = (), layout: str = "nk", seed: int = 0, precision: str = "fp32"
) -> Case:
    random = np.random.default_rng(seed)
    a = random.standard_normal((m, k)).astype(np.float32)
    weight = (random.standard_normal((n, k) if layout == "nk" else (k, n)) / math.sqrt(k)).astype(np.float32)
    return Case(a, weight, steps, operands_for(steps, m, n, random), layout, precision)


def random_runs(
    m: int, n: int, k: int, begins: Sequence[int], row: int, steps: Steps = (), layout: str = "nk", seed: int = 0
) -> Case:
    """A case with runs of n columns each, of rows of `row` values."""
    case = random_case(m, n * len(begins), k, steps, layout, seed)
    case.a = np.random.default_rng(seed).standard_normal((m, row)).astype(np.float32)
    case.begins = begins
    return case


def gemm_node(program: str, inputs: list[str], op: str = "FusedGemm") -> onnx.NodeProto:
    return helper.make_node(op, inputs, ["y"], name="gemm", domain="dpiframe", program=program)


def gemm_model(case: Case, constant_weight: bool = True, batch: str | int = "B") -> onnx.ModelProto:
    """The node alone. Operands with a batch axis are graph inputs "o0", ..., the others constant."""
    inputs = [models.value("a", "float32", [batch, *case.a.shape[1:]])]
    constants = {}
    if constant_weight:
        constants["w"] = case.weight
    else:
        inputs.append(models.value("w", "float32", list(case.weight.shape)))
    for i, operand in enumerate(case.operands):
        if operand.ndim > 1:
            inputs.append(models.value(f"o{i}", "float32", [batch, *operand.shape[1:]]))
        else:
            constants[f"o{i}"] = operand
    names = ["a", "w", *(f"o{i}" for i in range(len(case.operands)))]
    output = models.value("y", "float32", [batch, *case.a.shape[1:-1], case.n])
    return models.model_of([gemm_node(case.program, names)], inputs, [output], constants)


def feeds(case: Case, constant_weight: bool = True) -> dict[str, np.ndarray]:
    fed = {"a": case.a} | {f"o{i}": operand for i, operand in enumerate(case.operands) if operand.ndim > 1}
    return fed if constant_weight else fed | {"w": case.weight}
