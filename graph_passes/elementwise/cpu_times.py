"""What the CPU kernel's lines take longer than the nodes of ONNX Runtime's that they stand for, in nanoseconds.

Measured on one core with AVX-512 against ONNX Runtime 1.32. Most lines take less, as their operands are in registers:
that is in what a pass over memory costs.
"""

from __future__ import annotations

from dpiframe.graph_passes.elementwise.program import ElementwiseProgram, Input, Line, elements

NODE = 300.0
"""What a node costs ONNX Runtime before it computes anything."""
PASS = 0.06
"""To write an element and read it again."""
SLOWER = {
    "tanh": 0.05,
    "erf": 0.05,
    "sin": 2.5,
    "cos": 2.5,
    "atan": 3.0,
    "fmod": 12.0,
    "where": -2.0,
    "sign": -0.6,
    "sqrt": -0.2,
    "log": -1.1,
    "pow": -1.3,
}
"""An element of an operator: the kernel is more exact than ONNX Runtime where it takes longer."""
SHORT_RUN = 2.0
"""To read an element of a view in which only two or three lie beside each other in its operand."""


def lost(program: ElementwiseProgram) -> float:
    """Nanoseconds a row that the lines of a program take longer than nodes; negative where they take less."""
    depends: list[bool] = []
    total = 0.0
    for value in program.values:
        if isinstance(value, Line):
            depends.append(any(depends[operand] for operand in value.operands))
            # what is the same for all rows is computed once
            total += _line(value) if depends[-1] else 0.0
        else:
            depends.append(isinstance(value, Input) and "x" in value.mask)
    return total


def _line(line: Line) -> float:
    return elements(line.sizes) * (_view(line) if line.name == "view" else SLOWER.get(line.name, 0.0))


def _view(line: Line) -> float:
    """An element of a view, by how many lie beside each other in its operand."""
    run = 1
    for size, stride in zip(line.sizes[::-1], line.numbers[:0:-1], strict=True):
        if size > 1 and stride == 0 and run == 1:
            return 0.0
        if size > 1 and stride != run:
            break
        run *= size
    if run == elements(line.sizes):
        return 0.0
    return SHORT_RUN if run in (2, 3) else 0.0
