"""A first input that isn't float16.

Where the nodes around one have no float16 kernel on a CPU, ONNX Runtime gives it float32 values instead, if its first
input and its first output are float16. It asks only whether there is a kernel for float32, and ours takes what its
program says: the session would not load. What has another first input is left as it is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.elementwise.lower import Lowered
from dpiframe.graph_passes.elementwise.program import ElementwiseProgram, Input, Line, Value


def with_first_input(lowered: Lowered, name: str) -> Lowered:
    """The same, with a number of this name that nothing reads in front."""
    program = lowered.program
    first = Input("f32", "-" * program.rows, ())
    values = [first, *map(_moved, program.values)]
    number = gs.Constant(name, np.zeros(1, np.float32))
    return Lowered(
        ElementwiseProgram(program.rows, values, [output + 1 for output in program.outputs]), [number, *lowered.inputs]
    )


def _moved(value: Value) -> Value:
    return replace(value, operands=tuple(o + 1 for o in value.operands)) if isinstance(value, Line) else value
