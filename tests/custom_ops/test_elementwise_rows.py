"""Hazard: numbers of rows: none, one, odd ones, those of two axes; values that few rows or none belong to."""

from __future__ import annotations

import numpy as np
import pytest

from dpiframe.custom_ops._kernels import ElementwiseProgram
from tests.custom_ops import elementwise_reference as reference

# a masked, weighted sum of a normalised row, and the row itself
ONE_AXIS = """\
elementwise 1
rows 1
input f32 x 7 16
input f32 x 7
input f32 - 16
const f32 6.25e-2
sum f32 7 1 : 0 1
mul f32 7 1 : 4 3
sub f32 7 16 : 0 5
view f32 7 1 : 1 0 1 0
mul f32 7 16 : 6 7
mul f32 7 16 : 8 2
sum f32 16 : 9 0
tanh f32 16 : 10
output 9
output 11
"""
# x- and -x values, each computed on before they meet
TWO_AXES = """\
elementwise 1
rows 2
input f32 xx 5
input f32 x- 5
input f32 -x 5
input f32 -- 5
exp f32 5 : 1
add f32 5 : 2 3
mul f32 5 : 3 3
mul f32 5 : 0 4
add f32 5 : 7 5
sum f32 : 4 0
mul f32 5 : 8 9
sub f32 5 : 10 6
mul f32 5 : 4 5
output 11
output 12
output 8
"""


def inputs_of(rows: int) -> list[np.ndarray]:
    rng = np.random.default_rng(rows)
    return [
        rng.standard_normal((rows, 7, 16)).astype(np.float32),
        rng.integers(0, 2, (rows, 7)).astype(np.float32),
        rng.standard_normal(16).astype(np.float32),
    ]


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 15, 16, 17, 31, 33, 100, 1001, 5000])
@pytest.mark.parametrize("threads", [1, 3])
def test_one_axis(rows: int, threads: int) -> None:
    inputs = inputs_of(rows)
    for instructions in ("best", "avx2", "baseline"):
        outputs = ElementwiseProgram(ONE_AXIS, instructions).run(inputs, threads)
        reference.compare(ONE_AXIS, inputs, outputs)


@pytest.mark.parametrize(
    "rows", [(0, 3), (3, 0), (1, 1), (1, 7), (7, 1), (2, 3), (16, 17), (300, 5), (5, 300), (3, 9000)]
)
@pytest.mark.parametrize("block", [0, 1, 2, 7])
def test_two_axes(rows: tuple[int, int], block: int) -> None:
    rng = np.random.default_rng(0)
    shapes = [(*rows, 5), (rows[0], 1, 5), (1, rows[1], 5), (5,)]
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    outputs = ElementwiseProgram(TWO_AXES, block_rows=block).run(inputs, 2)
    reference.compare(TWO_AXES, inputs, outputs)


@pytest.mark.parametrize("kind", ["f32", "f64", "bool", "f16"])
def test_single_elements_of_one_axis_for_all_rows_of_two(kind: str) -> None:
    dtype = {"f32": np.float32, "f64": np.float64, "bool": np.bool_, "f16": np.float16}[kind]
    text = f"elementwise 1\nrows 2\ninput {kind} x-\ninput {kind} -x\ninput {kind} xx\neq bool : 0 1\neq bool : 3 4\n"
    text = text.replace("eq bool : 3 4", f"cast {kind} : 3\neq bool : 4 2") + "output 5\noutput 3\n"
    rng = np.random.default_rng(0)
    for rows in ((3, 5), (40, 41), (1, 100), (100, 1)):
        shapes = [(rows[0], 1), (1, rows[1]), rows]
        inputs = [rng.integers(0, 2, shape).astype(dtype) for shape in shapes]
        reference.compare(text, inputs, ElementwiseProgram(text, block_rows=16).run(inputs))


def test_what_no_row_belongs_to_is_computed_from_constants_once() -> None:
    text = "elementwise 1\nrows 1\ninput f32 x 4\ninput f32 - 4\ninput f32 - 4\nexp f32 4 : 1\nmul f32 4 : 3 2\n"
    text += "add f32 4 : 0 4\noutput 5\n"
    rng = np.random.default_rng(0)
    x, a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((9, 4), (4,), (1, 1, 4)))
    expected = reference.run(text, [x, a, b])[0]
    fixed = a.copy()
    program = ElementwiseProgram(text, constants=[None, fixed, None])
    np.testing.assert_allclose(program.run([x, a, b])[0], expected, rtol=1e-6)
    fixed[:] = 0  # nothing reads it any more
    np.testing.assert_allclose(program.run([x, a, b])[0], expected, rtol=1e-6)
    np.testing.assert_allclose(program.run([x, a, 2 * b])[0], reference.run(text, [x, a, 2 * b])[0], rtol=1e-6)


def test_rows_do_not_depend_on_their_number_or_place() -> None:
    inputs = inputs_of(257)
    program = ElementwiseProgram(ONE_AXIS)
    together = program.run(inputs)
    for row in (0, 1, 100, 255, 256):
        alone = program.run([inputs[0][row : row + 1], inputs[1][row : row + 1], inputs[2]])
        for one, all_rows in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one[0], all_rows[row])
