"""Hazard: scratch memory that a call at other addresses would need more of. A region takes its nodes' memory before it
knows their addresses, by what an earlier call took; a kernel for odd addresses has other numbers of registers, and so
might have other blocks."""

from __future__ import annotations

import numpy as np
import pytest

from dpiframe.graph_passes.elementwise.program import parse_program
from tests.custom_ops import elementwise_reference
from tests.gpu.elementwise import CudaProgram
from tests.gpu.test_elementwise_sizes import PAIRS, norm

ALL_PAIRS = """elementwise 1
rows 1
input f32 x 300 4
view f32 300 300 4 : 0 0 4 0 1
view f32 300 300 4 : 0 0 0 4 1
mul f32 300 300 4 : 1 2
sum f32 300 300 : 3 2
exp f32 300 300 : 4
sum f32 300 : 5 0
sum f32 300 : 5 1
output 6
output 7
"""
GROUPS = """elementwise 1
rows 1
input f32 x 512 8
exp f32 512 8 : 0
sum f32 512 : 1 1
sum f32 8 : 1 0
sum f32 1 : 2 0
output 3
output 2
output 4
"""


@pytest.mark.parametrize("text", [GROUPS, PAIRS.format(n=120, d=4), norm(4096)])
@pytest.mark.parametrize("rows", [1, 5000, 200_000, 1_000_000])
def test_it_depends_on_sizes_alone(text: str, rows: int) -> None:
    parsed = parse_program(text)
    counts = [len(parsed.inputs), len(parsed.outputs)]
    aligned, odd = (
        [[start + 4096 * i for i in range(count)] for count in counts] for start in (1 << 20, (1 << 20) + 4)
    )
    for lanes in (0, 1, 16, 32):
        kernel = CudaProgram(text, lanes=lanes).kernel
        assert kernel.scratch_bytes([rows], *aligned) == kernel.scratch_bytes([rows], *odd)


@pytest.mark.parametrize("lanes", [1, 32, 512])
def test_it_has_a_limit(lanes: int) -> None:
    """However many rows there are: blocks take rows in turns."""
    rows = 1500
    program = CudaProgram(ALL_PAIRS, lanes=lanes)
    wanted = program.kernel.scratch_bytes([10**6], [1 << 20], [1 << 21, 1 << 22])
    assert 100 << 20 < wanted <= 256 << 20
    inputs = [np.random.default_rng(lanes).standard_normal((rows, 300, 4)).astype(np.float32) / 4]
    last = [output[-3:] for output in program.run(inputs)]
    elementwise_reference.compare(ALL_PAIRS, [inputs[0][-3:]], last)
