"""Printed kernels of FusedElementwise, run on the CPU: they are C++ but for a few words of CUDA (cuda_on_cpu.h)."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpiframe.custom_ops.elementwise_operators import NUMPY_TYPES
from dpiframe.graph_passes.elementwise.program import Const, elements, parse_program

SHIM = Path(__file__).with_name("cuda_on_cpu.h")
ASSEMBLY = {
    'asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));': "value = BitCast<_Float16>(bits);",
    'asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));': "bits = BitCast<unsigned short>(_Float16(value));",
    'asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(guess) : "f"(x));': "guess = Flushed(1.0f / x);",
    'asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(power));': "e = Flushed(exp2f(power));",
    'asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(value));': "bits = BitCast<unsigned short>(_Float16(value));",
}
RUN = """
extern "C" void run_on_cpu(unsigned blocks, unsigned threads, const void* words, bool backwards) {
  cuda_on_cpu::backwards = backwards;
  cuda_on_cpu::Run(blocks, threads, [](const void* words) { dpiframe_elementwise(%s); }, words);
}
"""


def for_cpu(source: str) -> str:
    """The printed kernel as C++ with a function that runs it."""
    for cuda, plain in ASSEMBLY.items():
        assert cuda in source
        source = source.replace(cuda, plain)
    source = source.replace("extern __shared__", "extern").replace("__shared__", "static")
    by_table = "const Arguments* table" in source
    call = "static_cast<const Arguments*>(words)" if by_table else "*static_cast<const Arguments*>(words)"
    return f'#include "{SHIM}"\n{source}{RUN % call}'


def compile_for_cpu(source: str, folder: Path, name: str) -> ctypes.CDLL:
    path = folder / f"{name}.cc"
    path.write_text(for_cpu(source))
    library = folder / f"{name}.so"
    flags = ["-std=c++17", "-O1", "-ffp-contract=off", "-fwrapv", "-w", "-shared", "-fPIC", "-Wl,-Bsymbolic"]
    # an address that suits no access of several elements ends the process
    flags += ["-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"]
    done = subprocess.run(["g++", *flags, "-o", str(library), str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


def row_axes(text: str, inputs: Sequence[np.ndarray]) -> list[int]:
    """Sizes of the row axes, as the inputs tell them."""
    program = parse_program(text)
    sizes = [1] * program.rows
    for value, array in zip(program.inputs, inputs, strict=True):
        for axis, letter in enumerate(value.mask):
            if letter == "x":
                sizes[axis] = array.shape[array.ndim - len(value.sizes) - program.rows + axis]
    return sizes


def empty_outputs(text: str, rows: Sequence[int]) -> list[np.ndarray]:
    program = parse_program(text)
    results = []
    for output in program.outputs:
        value = program.values[output]
        assert not isinstance(value, Const)
        results.append(np.full((*rows, *value.sizes), 77).astype(NUMPY_TYPES[value.type]))
    return results


def aligned(array: np.ndarray, offset: int = 0) -> np.ndarray:
    """A copy that starts `offset` bytes behind a multiple of 64."""
    room = np.zeros(array.nbytes + 128, np.uint8)
    start = -room.ctypes.data % 64 + offset
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


class CpuKernel:
    """A program's kernel for teams of `lanes`, 0: of as many as the cost model finds best."""

    def __init__(self, kernels: Any, text: str, folder: Path, lanes: int = 0, vectors: bool = True) -> None:
        self.text, self.vectors = text, vectors
        self.schedule = kernels.elementwise_schedule(text, lanes)
        source = kernels.print_elementwise(text, lanes, vectors)
        name = re.sub(r"\W", "_", f"kernel_{lanes}_{int(vectors)}_{abs(hash(text))}")
        self.library = compile_for_cpu(source, folder, name)

    def run(self, inputs: Sequence[np.ndarray], backwards: bool = False, most_rows: int = 0) -> list[np.ndarray]:
        """backwards: the last thread has the first turn, which shows where threads should have waited. most_rows: of a
        launch, 0 for all."""
        axes = row_axes(self.text, inputs)
        rows = int(np.prod(axes))
        outputs = [aligned(output) for output in empty_outputs(self.text, axes)]
        # without vectors, addresses need suit single elements only
        given = [aligned(array, 0 if self.vectors else array.itemsize) for array in inputs]
        most = most_rows or max(rows, 1)
        for first in range(0, rows, most):
            self.launch(given, outputs, axes, first, min(rows - first, most), backwards)
        return outputs

    def launch(
        self,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        axes: Sequence[int],
        first_row: int,
        rows: int,
        backwards: bool,
    ) -> None:
        lanes, stages = self.schedule["lanes"], self.schedule["stages"]
        threads = max(64, lanes)
        firsts: list[int] = []
        blocks = 0
        if lanes == 0:
            for stage in stages:
                firsts.append(blocks)
                blocks += -(-rows * (stage["outer"] // stage["width"]) // threads)
        else:
            blocks = -(-rows // (threads // lanes))
            if self.schedule["scratch_bytes"]:
                blocks = min(blocks, 3)  # fewer than there are rows for, so that teams take several
        scratch = np.zeros(blocks * (threads // max(lanes, 1)) * self.schedule["scratch_bytes"] + 64, np.uint8)
        scratch = aligned(scratch)
        words = [rows, axes[-1], scratch.ctypes.data, first_row, *firsts]
        program = parse_program(self.text)
        for value, array in zip(program.inputs, inputs, strict=True):
            whole = value.mask == "x" * program.rows
            words.append(array.ctypes.data + (first_row * elements(value.sizes) * array.itemsize if whole else 0))
        for number, array in zip(program.outputs, outputs, strict=True):
            sizes = getattr(program.values[number], "sizes", ())
            words.append(array.ctypes.data + first_row * elements(sizes) * array.itemsize)
        buffer = (ctypes.c_uint64 * len(words))(*words)
        self.library.run_on_cpu(blocks, threads, buffer, backwards)
