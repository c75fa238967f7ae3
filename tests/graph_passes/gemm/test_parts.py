"""Where the values of an operand lie, as far up as its rows are rows."""

from __future__ import annotations

import numpy as np
import pytest

from dpiframe.graph_passes.gemm.parts import Part, find_part
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import parse


def part_of(text: str, leading: int = 1, whole_rows: bool = False, **constants: np.ndarray) -> Part:
    """The part that the operand of the last node is."""
    bench = Workbench(parse(text, **constants))
    bench.infer_shapes()
    return find_part(bench.graph.nodes[-1].inputs[0], leading, whole_rows)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("text", "begin", "row"),
    [
        ("p = Slice(x, two, five, one)", 2, 10),
        ("p = Slice(x, back, end, one)", 6, 10),
        ("p = Slice(x, two, end, one)", 2, 10),
        ("p, q = Split <axis = 1> (x, sizes)", 0, 10),
        ("q, p = Split <axis = -1> (x, sizes)", 3, 10),
        ("q = Slice(x, two, end, one) p = Slice(q, two, five, one)", 4, 10),
        ("u = Unsqueeze(x, one) q, r = Split <axis = 2> (u, sizes) p = Squeeze(r, one)", 3, 10),
        ("r = Reshape(x, pairs) p = Gather <axis = 1> (r, two)", 4, 10),
        ("r = Reshape(x, pairs) p = Gather <axis = 1> (r, back)", 2, 10),
        ("r = Reshape(x, pairs) q = Slice(r, two, five, one) p = Flatten(q)", 4, 10),
    ],
)
def test_parts_of_rows(text: str, begin: int, row: int) -> None:
    text = f"(float[b,10] x) => (float[b,c] y) {{ {text} y = Neg(p) }}"
    constants = {"two": integers(2), "five": integers(5), "back": integers(-4), "end": integers(1 << 40)}
    part = part_of(text, one=integers(1), sizes=integers(3, 7), pairs=integers(0, 5, 2), **constants)
    assert (part.source.name, part.begin, part.row) == ("x", begin, row)


@pytest.mark.parametrize(
    "text",
    [
        "p = Slice(x, two, end, zero)",  # rows
        "p = Slice(x, two, end, one, two)",  # every second value
        "p = Slice(x, s, end, one)",
        "r = Reshape(x, pairs) p = Slice(r, zero, one, two)",  # values that don't lie together
        "p = Gather <axis = 1> (x, several)",
        "p = Reshape(x, halves)",  # other rows
        "p = vendor.Slice(x, two, end, one)",
        "p = Abs(x)",
    ],
)
def test_what_is_no_part(text: str) -> None:
    bench = Workbench(
        parse(
            f"(float[b,10] x, int64[1] s) => (float[c,d] y) {{ {text} y = Neg(p) }}",
            imports=', "vendor": 1',
            zero=integers(0),
            one=integers(1),
            two=integers(2),
            end=integers(1 << 40),
            pairs=integers(-1, 5, 2),
            halves=integers(-1, 5),
            several=integers(3, 1),
        )
    )
    bench.infer_shapes()
    assert find_part(bench.graph.nodes[-1].inputs[0], 1).source.name == "p"


def test_whole_rows_alone() -> None:
    text = "(float[b,5,2] x) => (float[b,4] y) { f = Flatten(x) p = Slice(f, two, six, one) y = Neg(p) }"
    constants = {"one": integers(1), "two": integers(2), "six": integers(6)}
    assert part_of(text, **constants).source.name == "x"
    assert part_of(text, whole_rows=True, **constants).source.name == "p"
