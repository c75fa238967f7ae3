"""Hazard: scratch memory that a call at other addresses would need more of. A region takes its nodes' memory before it
knows their addresses, by what an earlier call took; a kernel for odd addresses has other numbers of registers, and so
might have other blocks."""

from __future__ import annotations

import pytest

from dpiframe.graph_passes.elementwise.program import parse_program
from tests.gpu.elementwise import CudaProgram
from tests.gpu.test_elementwise_sizes import PAIRS, norm

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
