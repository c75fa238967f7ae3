"""Programs of FusedElementwise on the GPU: the kernels alone, and sessions with one node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from dpiframe.custom_ops.elementwise_operators import NUMPY_TYPES
from dpiframe.graph_passes.elementwise.program import parse_program
from tests.custom_ops import models
from tests.custom_ops.printed_kernels import empty_outputs, row_axes
from tests.gpu.device import DeviceArray, kernels

ONNX_TYPES = {**models.ONNX_TYPES, "bool": onnx.TensorProto.BOOL}


class CudaProgram:
    """A program, printed and compiled, or interpreted. `odd`: addresses suit single elements only."""

    def __init__(self, text: str, compiles: bool = True, lanes: int = 0) -> None:
        self.text = text
        self.kernel = kernels().CudaElementwise(text, compiles, lanes)
        assert self.kernel.is_compiled == compiles

    def run(self, inputs: Sequence[np.ndarray], odd: bool = False) -> list[np.ndarray]:
        rows = row_axes(self.text, inputs)
        given = [DeviceArray(array, array.itemsize if odd else 0) for array in inputs]
        outputs = [DeviceArray(array, array.itemsize if odd else 0) for array in empty_outputs(self.text, rows)]
        self.kernel.launch(rows, [array.address for array in given], [array.address for array in outputs], 0)
        results = [output.read() for output in outputs]
        for array, before in zip(given, inputs, strict=True):
            assert array.read().tobytes() == np.ascontiguousarray(before).tobytes()
        return results


def elementwise_model(text: str, sizes: Sequence[int | str] = ("B", "L")) -> onnx.ModelProto:
    """A model with the program's one node: inputs "x0", "x1", ..., outputs "y0", ... `sizes`: those of the row axes."""
    program = parse_program(text)
    inputs = []
    for i, value in enumerate(program.inputs):
        rows = [size if letter == "x" else 1 for size, letter in zip(sizes, value.mask, strict=False)]
        # a weight may come with any number of leading axes of size 1
        shape = [*rows, *value.sizes] if "x" in value.mask else None
        info = helper.make_tensor_value_info(f"x{i}", ONNX_TYPES[NUMPY_TYPES[value.type]], shape)
        inputs.append(info)
    outputs = [
        helper.make_tensor_value_info(f"y{i}", ONNX_TYPES[NUMPY_TYPES[program.values[output].type]], None)
        for i, output in enumerate(program.outputs)
    ]
    names = [info.name for info in inputs], [info.name for info in outputs]
    node = helper.make_node("FusedElementwise", *names, name="fused", domain="dpiframe", program=text)
    return models.model_of([node], inputs, outputs, {})


def feeds(inputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {f"x{i}": array for i, array in enumerate(inputs)}
