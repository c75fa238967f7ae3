"""Products of fields that a lookup gives by themselves and in a join: they read the join."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs
import pytest

from dpiframe.graph_passes.gemm.looked_up import in_the_join
from dpiframe.graph_passes.gemm.parts import Part
from dpiframe.graph_passes.graphs import Node
from tests.graph_passes.gemm.test_bundle import forms, weights
from tests.graph_passes.gemm.test_fuse import fuse
from tests.graph_passes.harness import agree, fused_nodes, ids, op_types, parse, table


def test_pairs_of_looked_up_fields() -> None:
    """Three fields joined for a mean, and split again for a product with each pair: one product of the join."""
    fields = range(3)
    lookups = "".join(f"e{i} = Gather(T{i}, c{i}) u{i} = Unsqueeze(e{i}, one) " for i in fields)
    pairs = "".join(
        f"p{i}{j} = MatMul(s{i}, W{i}{j}) m{i}{j} = Mul(p{i}{j}, s{j}) " for i, j in ((0, 1), (0, 2), (1, 2))
    )
    model = parse(
        f"""(int64[b] c0, int64[b] c1, int64[b] c2) => (float[b,4] mean, float[b,3,4] y) {{
          {lookups} j = Concat <axis = 1> (u0, u1, u2) mean = ReduceMean <keepdims = 0> (j, one)
          s0, s1, s2 = Split <axis = 1> (j, ones) {pairs} y = Concat <axis = 1> (m01, m02, m12) }}""",
        one=np.array([1]),
        ones=np.ones(3, np.int64),
        **{f"T{i}": table(10 + i, 4) for i in fields},
        **weights(W01=(4, 4), W02=(4, 4), W12=(4, 4)),
    )
    result = fuse(model)
    (name,) = [form for form in forms(result) if form.startswith("size")]
    assert name == "size 4 12; left 2; runs 12 0 0 4"
    assert sorted(op_types(result.model)) == sorted(
        ["FusedMultiGather", "FusedGemm", "ReduceMean", "Unsqueeze", "Split", *["Mul"] * 3, "Concat"]
    )
    lookup, product = sorted(fused_nodes(result.model.graph), key=lambda node: node.op_type, reverse=True)
    assert product.input[0] == lookup.output[0] == "j"
    cases = [{f"c{i}": ids(batch, high=10, seed=i) for i in fields} for batch in (0, 1, 5)]
    agree(model, result, *cases, tolerance=2e-6)


def lookup(*lines: str, outputs: int = 2, op: str = "FusedMultiGather") -> list[gs.Variable]:
    """The outputs of a lookup of rows of 4 with these blocks: the first [b, 3, 4], the others [b, 1, 4]."""
    head = ["lookup 1", "rows 1", "bad error", *["source 1 row"] * 3, *["table 9 4"] * 3, "output 3 4"]
    program = "\n".join([*head, *["output 1 4"] * (outputs - 1), *lines]) + "\n"
    shapes = [["b", 3, 4], *[["b", 1, 4]] * (outputs - 1)]
    tensors = [gs.Variable(f"o{i}", np.dtype(np.float32), shape) for i, shape in enumerate(shapes)]
    Node(op, domain="dpiframe", attrs={"program": program}, outputs=tensors)
    return tensors


JOIN = ["row 0 0 4 0 0:0 0", "row 0 4 4 1 1:0 0", "row 0 8 4 2 2:0 0"]


@pytest.mark.parametrize("field", range(3))
def test_a_field_in_the_join(field: int) -> None:
    join, alone = lookup(*JOIN, f"row 1 0 4 {field} {field}:0 0")
    assert in_the_join(Part(alone, 1, 2)) == Part(join, 1, 4 * field + 2)
    assert in_the_join(Part(join, 1)) == Part(join, 1)


@pytest.mark.parametrize(
    "block",
    [
        "row 1 0 4 0 1:0 0",  # another id
        "row 1 0 4 1 0:0 0",  # another table
        "copy 1 0 4 0 0",
    ],
)
def test_a_field_that_is_not_in_the_join(block: str) -> None:
    _, alone = lookup(*JOIN, block)
    assert in_the_join(Part(alone, 1)) == Part(alone, 1)


@pytest.mark.parametrize("op", ["FusedMultiGatherV2", "FusedMultiGatherV2_1"])
def test_the_programs_of_another_op_are_not_read(op: str) -> None:
    _, alone = lookup(*JOIN, "row 1 0 4 0 0:0 0", op=op)
    assert in_the_join(Part(alone, 1)) == Part(alone, 1)


def test_other_rows_are_other_rows() -> None:
    _, alone = lookup(*JOIN, "row 1 0 4 0 0:0 0")
    assert in_the_join(Part(alone, 2)) == Part(alone, 2)


def test_what_no_lookup_gives() -> None:
    part = Part(gs.Variable("x", np.dtype(np.float32), ["b", 4]), 1)
    assert in_the_join(part) == part


def test_places_of_a_row_lie_apart_in_a_join() -> None:
    """Five rows of a field, and the same ones among those of two: only all five together are part of the join."""
    model = parse(
        """(int64[b,5] i, int64[b,5] j) => (float[b,5,3] y0, float[b,5,3] y1, float[b,5,3] y2, float[b,5,2] z) {
          A = Gather(S, i) B = Gather(T, j) a = Reshape(A, flat) d = Reshape(B, flat) s = Concat <axis = 1> (d, a)
          join = Reshape(s, pairs)
          y0 = MatMul(A, U0) y1 = MatMul(A, U1) y2 = MatMul(A, U2) z = MatMul(join, V) }""",
        S=table(9, 4),
        T=table(8, 4),
        flat=np.array([-1, 20]),
        pairs=np.array([-1, 5, 8]),
        **weights(U0=(4, 3), U1=(4, 3), U2=(4, 3), V=(8, 2)),
    )
    result = fuse(model)
    lookup, product, _ = fused_nodes(result.model.graph)
    assert lookup.op_type == "FusedMultiGather"
    assert product.input[0] == "A"
    agree(
        model,
        result,
        *({n: ids(batch, 5, high=8, seed=k) for k, n in enumerate("ij")} for batch in (0, 1, 5)),
        tolerance=2e-6,
    )
