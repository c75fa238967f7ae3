"""The function body of a FusedGemm: its program as standard ONNX nodes. The body is the op's definition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from dpiframe.graph_passes.gemm.program import GemmProgram, Step

MIN_OPSET = 13
OUTPUT = "y"

_PLAIN = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "prelu": "PRelu",
}


def body_inputs(program: GemmProgram) -> list[str]:
    return ["a", "w", *(f"operand_{step.input}" for step in program.steps if step.kind)]


def gemm_body(program: GemmProgram, rank: int) -> list[onnx.NodeProto]:
    """The nodes that compute the program for a left operand of this rank, from `body_inputs` to `OUTPUT`."""
    body = _Body()
    steps = list(program.steps)
    leading = rank - program.left_axes
    left = body.flattened("a", leading, program.row_size) if program.left_axes > 1 else "a"
    if program.takes_parts and len(program.begins) == 1:
        left = body.part(left, leading, program.begins[0], program.k)
    if len(program.begins) > 1:
        value = body.products_of_parts(program, left, leading)
    elif leading == 1:
        inputs = [left, "w"]
        if steps and steps[0].op == "add" and steps[0].kind == "vector":
            inputs.append(f"operand_{steps.pop(0).input}")
        value = body.node("Gemm", *inputs, transB=int(program.layout == "nk"))
    else:
        value = body.node("MatMul", left, body.node("Transpose", "w", perm=[1, 0]) if program.layout == "nk" else "w")
    for step in steps:
        value = body.step(step, value)
    body.nodes[-1].output[0] = OUTPUT
    return body.nodes


class _Body:
    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def flattened(self, name: str, leading: int, k: int) -> str:
        """The last axes as one."""
        return self.node("Reshape", name, self.integers([0] * leading + [k]))

    def integers(self, values: list[int] | list[list[int]]) -> str:
        return self.node("Constant", value=numpy_helper.from_array(np.array(values, np.int64)))

    def part(self, name: str, axis: int, begin: int, size: int) -> str:
        bounds = [self.integers([value]) for value in (begin, begin + size, axis)]
        return self.node("Slice", name, *bounds)

    def products_of_parts(self, program: GemmProgram, left: str, leading: int) -> str:
        """Each run's values [..., runs, 1, K] times its columns [runs, K, columns], and these side by side again."""
        runs = len(program.begins)
        columns = program.n // runs
        index = [[begin + i for i in range(program.k)] for begin in program.begins]
        picked = self.node("Gather", left, self.integers(index), axis=leading)
        rows = self.node("Unsqueeze", picked, self.integers([leading + 1]))
        if program.layout == "nk":
            apart, order = [runs, columns, program.k], [0, 2, 1]
        else:
            apart, order = [program.k, runs, columns], [1, 0, 2]
        weights = self.node("Transpose", self.node("Reshape", "w", self.integers(apart)), perm=order)
        return self.flattened(self.node("MatMul", rows, weights), leading, program.n)

    def step(self, step: Step, value: str) -> str:
        if step.op in _PLAIN:
            return self.node(_PLAIN[step.op], value, *([f"operand_{step.input}"] if step.kind else []))
        if step.op == "leakyrelu":
            return self.node("LeakyRelu", value, alpha=step.number)
        if step.op == "silu":
            return self.node("Mul", value, self.node("Sigmoid", value))
        return self._gelu(value)

    def _gelu(self, value: str) -> str:
        """x * (1 + erf(x / sqrt 2)) / 2: Gelu itself came with opset 20, and onnx.reference has none in functions."""
        bell = self.node("Erf", self.node("Mul", value, self._number(math.sqrt(0.5))))
        half = self.node("Mul", value, self._number(0.5))
        return self.node("Mul", half, self.node("Add", bell, self._number(1.0)))

    def _number(self, number: float) -> str:
        return self.node("Constant", value=numpy_helper.from_array(np.array(number, np.float32)))
