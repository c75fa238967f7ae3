"""Hazard: any valid program on any inputs, with any instruction set, block size, threads and constants."""

from __future__ import annotations

import numpy as np
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from dpiframe.custom_ops._kernels import ElementwiseProgram
from dpiframe.graph_passes.elementwise.program import parse_program
from tests.custom_ops import elementwise_reference as reference
from tests.custom_ops.elementwise_models import feeds, session
from tests.custom_ops.elementwise_programs import Case, cases

# A failing case is not made smaller: a program comes from one number, and is printed.
LOOK = settings(max_examples=400, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
INSTRUCTIONS = st.sampled_from(["best", "avx2", "baseline"])
BLOCKS = st.sampled_from([0, 0, 1, 3])


def constants_of(case: Case, which: int) -> list[np.ndarray | None]:
    """Some of the inputs of no row axis, chosen by the bits of `which`."""
    values = parse_program(case.program).inputs
    return [
        array if "x" not in value.mask and which >> i & 1 else None
        for i, (value, array) in enumerate(zip(values, case.inputs, strict=True))
    ]


def check(case: Case, instructions: str, block: int, threads: int, constant: int) -> None:
    program = ElementwiseProgram(case.program, instructions, block, constants_of(case, constant))
    reference.compare(case.program, case.inputs, program.run(case.inputs, threads))


@LOOK
@given(cases(), INSTRUCTIONS, BLOCKS, st.sampled_from([1, 3]), st.integers(0, 31))
def test_programs_of_all_types(case: Case, instructions: str, block: int, threads: int, constant: int) -> None:
    check(case, instructions, block, threads, constant)


@LOOK
@given(cases(("f32",)), INSTRUCTIONS, BLOCKS, st.sampled_from([1, 3]), st.integers(0, 31))
def test_programs_of_float32(case: Case, instructions: str, block: int, threads: int, constant: int) -> None:
    check(case, instructions, block, threads, constant)


@settings(LOOK, max_examples=60)
@given(cases(("f16", "f32", "bool")), INSTRUCTIONS, BLOCKS, st.integers(0, 31))
def test_programs_of_halves(case: Case, instructions: str, block: int, constant: int) -> None:
    check(case, instructions, block, 1, constant)


@settings(LOOK, max_examples=20)
@given(cases(max_lines=200), INSTRUCTIONS, BLOCKS)
def test_long_programs(case: Case, instructions: str, block: int) -> None:
    check(case, instructions, block, 1, 0)


@settings(LOOK, max_examples=60)
@given(cases(), st.integers(0, 31))
@example(Case("elementwise 1\nrows 1\ninput f32 x\noutput 0\noutput 0\n", [np.arange(3, dtype=np.float32)]), 0)
def test_in_a_session(case: Case, constant: int) -> None:
    fixed = {i: array for i, array in enumerate(constants_of(case, constant)) if array is not None}
    made = session(case.program, fixed, threads=2)
    given_inputs = {name: array for name, array in feeds(case.inputs).items() if int(name[1:]) not in fixed}
    # graph inputs have the shapes that the program says, without leading ones
    for name, value in zip(feeds(case.inputs), parse_program(case.program).inputs, strict=True):
        if name in given_inputs and "x" not in value.mask:
            given_inputs[name] = given_inputs[name].reshape(value.sizes)
    outputs = made.run(None, given_inputs)
    reference.compare(case.program, case.inputs, outputs)
    for declared, array in zip(made.get_outputs(), outputs, strict=True):
        assert len(declared.shape) == array.ndim
        static = [(a, b) for a, b in zip(declared.shape, array.shape, strict=True) if isinstance(a, int)]
        assert all(a == b for a, b in static)
