"""Hazard: kernels start while earlier ones of their stream run: they would read what is not written yet, or write what
is still read."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.custom_ops import models
from tests.gpu.device import DeviceArray, kernels, whole_session

ROWS, WIDTH = 2048, 4096
NEXT = f"""elementwise 1
rows 1
input f32 x 1
input f32 x 1
input f32 x {WIDTH}
add f32 1 : 0 1
const f32 5e-1
mul f32 1 : 3 4
sum f32 1 : 2 0
add f32 1 : 5 6
const f32 1
add f32 1 : 7 8
output 9
"""
"""One more than the half of two numbers' sum, after a look at many zeros."""
ENDS = f"""elementwise 1
rows 1
input f32 - {ROWS}
input f32 x 1
min f32 1 : 0 0
max f32 1 : 0 0
add f32 1 : 1 2
add f32 1 : 1 3
output 4
output 5
"""
"""The smallest and the largest of all rows, for each row."""
OWN = f"""elementwise 1
rows 1
input f32 x 1
input f32 - {ROWS}
neg f32 1 : 0
neg f32 1 : 2
output 3
output 3
"""
"""Each row's own number, twice: without teams."""


@pytest.mark.parametrize(("behind", "has_teams"), [(ENDS, True), (OWN, False)], ids=["all rows", "own row"])
def test_all_rows_of_the_kernel_before(behind: str, has_teams: bool) -> None:
    """A number counts up as long as each kernel sees all rows of the one before, and none of the one behind."""
    assert (kernels().elementwise_schedule(behind)["lanes"] > 0) == has_teams
    following, ends = (kernels().CudaElementwise(text) for text in (NEXT, behind))
    numbers, smallest, largest, nothing = (DeviceArray(np.zeros((ROWS, 1), np.float32)) for _ in range(4))
    zeros = DeviceArray(np.zeros((ROWS, WIDTH), np.float32))
    count = 300
    for _ in range(count):
        following.launch([ROWS], [smallest.address, largest.address, zeros.address], [numbers.address], 0)
        ends.launch([ROWS], [numbers.address, nothing.address], [smallest.address, largest.address], 0)
    for array in (numbers, smallest, largest):
        np.testing.assert_array_equal(array.read(), np.full((ROWS, 1), count, np.float32))


def test_between_kernels_of_onnxruntime() -> None:
    """Slow permutations of rows before and behind."""
    random = np.random.default_rng(0)
    order = random.permutation(ROWS)
    permutation = np.zeros((ROWS, ROWS), np.float32)
    permutation[np.arange(ROWS), order] = 1
    nodes, name, expected = [], "x", np.arange(ROWS)
    negate = "elementwise 1\nrows 1\ninput f32 x 8\nneg f32 8 : 0\noutput 1\n"
    for i in range(12):
        nodes.append(helper.make_node("MatMul", ["permutation", name], [f"moved{i}"]))
        nodes.append(
            helper.make_node("FusedElementwise", [f"moved{i}"], [f"negative{i}"], domain="dpiframe", program=negate)
        )
        name, expected = f"negative{i}", expected[order]
    inputs = [models.value("x", "float32", [ROWS, 8]), models.value("permutation", "float32", [ROWS, ROWS])]
    session = whole_session(models.model_of(nodes, inputs, [models.value(name, "float32", [ROWS, 8])], {}))
    for _ in range(20):
        x = random.integers(-100, 100, (ROWS, 8)).astype(np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": x, "permutation": permutation})[0], x[expected])
