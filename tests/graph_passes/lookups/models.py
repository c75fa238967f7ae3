"""A small model for tests of lookups."""

from __future__ import annotations

import onnx

from tests.graph_passes.harness import parse, table

TWO_FIELDS = """(int64[b] a, int64[b] c) => (float[b,12] y) {
    e = Gather(W, a)
    f = Gather(V, c)
    y = Concat<axis=1>(e, f)
}"""


def two_fields(**options: int) -> onnx.ModelProto:
    return parse(TWO_FIELDS, W=table(10, 4), V=table(20, 8), **options)
