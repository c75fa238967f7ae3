"""Hazard: something is taken for a table or a lookup that is none, or a table that can't be looked up in goes unnamed."""

from __future__ import annotations

import numpy as np
import pytest

from dpiframe.graph_passes.lookups.tables import count_lookups, is_float_table, is_lookup
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import agree, ids, op_types, optimize, parse, refusals, table

W = table(10, 4)


def lookups(text: str, **initializers: np.ndarray) -> list[bool]:
    bench = Workbench(parse(text, **initializers))
    bench.infer_shapes()
    return [is_lookup(node, bench) for node in bench.graph.nodes]


@pytest.mark.parametrize(
    ("call", "is_one"),
    [
        ("Gather(W, a)", True),
        ("Gather<axis=0>(W, a)", True),
        ("Gather<axis=-2>(W, a)", True),
        ("Gather<axis=1>(W, a)", False),
        ("Gather(V, a)", False),
        ("Gather(T, a)", False),
        ("Gather(x, a)", False),
        ("vendor.Gather(W, a)", False),
        ("GatherElements(W, m)", False),
    ],
)
def test_what_is_a_lookup(call: str, is_one: bool) -> None:
    constants = {"W": W, "V": np.zeros(10, np.float32), "T": np.zeros((2, 3, 4), np.float32)}
    model = parse(
        f"(int64[b] a, int64[2,4] m, float[10,4] x) => (float[b,4] y) {{ y = {call} }}",
        imports=', "vendor": 1', **{n: v for n, v in constants.items() if f"({n}," in call},
    )  # fmt: skip
    bench = Workbench(model)
    assert [is_lookup(node, bench) for node in bench.graph.nodes] == [is_one]
    assert count_lookups(bench) == is_one


@pytest.mark.parametrize(
    ("dtype", "is_one"), [(np.float32, True), (np.float16, True), (np.float64, False), (np.int64, False)]
)
def test_tables_are_floats(dtype: type, is_one: bool) -> None:
    kind = {np.float32: "float", np.float16: "float16", np.float64: "double", np.int64: "int64"}[dtype]
    assert lookups(f"(int64[b] a) => ({kind}[b,4] y) {{ y = Gather(W, a) }}", W=W.astype(dtype)) == [is_one]


@pytest.mark.parametrize(("declared", "is_one"), [("[10,4]", True), ("[n,4]", False), ("[10,d]", False)])
def test_an_overridable_table_of_known_size(declared: str, is_one: bool) -> None:
    assert lookups(f"(int64[b] a, float{declared} W) => (float[b,4] y) {{ y = Gather(W, a) }}", W=W) == [is_one]


def test_a_plain_input_is_no_table() -> None:
    bench = Workbench(parse("(int64[b] a, float[10,4] W) => (float[b,4] y) { y = Gather(W, a) }"))
    assert not is_float_table(bench.graph.inputs[1], bench)


def test_lookups_are_counted_through_identities_and_constants() -> None:
    model = parse(
        """(int64[b] a) => (float[b,4] x, float[b,2] y, float[b,4] z) {
            i = Identity(W) j = Identity(i) x = Gather(j, a)
            c = Constant<value = float[2,2] {1, 2, 3, 4}>() k = Identity(c) y = Gather(k, a)
            r = Relu(W) z = Gather(r, a)
        }""",
        W=W,
    )
    assert count_lookups(Workbench(model)) == 2


DEQUANTIZE = "y = DequantizeLinear(q, s, z)"


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("before", [False, True])
def test_quantized_tables_are_left_alone_and_named(dtype: type, before: bool) -> None:
    """Whoever quantizes first shall hear of it: nothing else says that there are lookups."""
    kind = np.dtype(dtype).name
    rows = "d = DequantizeLinear(W, s, z)  y = Gather(d, a)" if before else f"q = Gather(W, a)  {DEQUANTIZE}"
    model = parse(
        f"(int64[b] a) => (float[b,4] y) {{ {rows} }}",
        W=np.arange(40).reshape(10, 4).astype(dtype), s=np.array(0.5, np.float32), z=np.array(3, dtype),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == (["DequantizeLinear", "Gather"] if before else ["Gather", "DequantizeLinear"])
    assert (result.lookups_before, result.lookups_fused) == (1, 0)
    reason = f"its table is quantized to {kind}: optimize first, then quantize what is left"
    assert list(refusals(result).values()) == [reason]
    agree(model, result, {"a": ids(5, high=10)})


@pytest.mark.parametrize(
    "rows",
    [
        "i = Identity(W)  d = DequantizeLinear(i, s, z)  q = Gather(d, a)",
        "d = DequantizeLinear(W, s, z)  i = Identity(d)  q = Gather(i, a)",
        "g = Gather(W, a)  i = Identity(g)  q = DequantizeLinear(i, s, z)",
        "n = Constant<value_ints=[-1, 4]>()  g = Gather(W, a)  i = Reshape(g, n)  q = DequantizeLinear(i, s, z)",
    ],
)
def test_quantized_tables_are_counted_alike_before_and_behind(rows: str) -> None:
    model = parse(
        f"(int64[b] a) => (float[b,8] y) {{ {rows}  f = Gather(A, a)  y = Concat<axis=1>(q, f) }}",
        W=np.arange(40).reshape(10, 4).astype(np.uint8), s=np.array(0.5, np.float32), z=np.array(3, np.uint8), A=table(10, 4),
    )  # fmt: skip
    result = optimize(model)
    assert (result.lookups_before, result.lookups_fused) == (2, 1)
    agree(model, result, {"a": ids(5, high=10)})


def test_bytes_that_are_no_numbers_are_no_table() -> None:
    model = parse("(int64[b] a) => (uint8[b,4] y) { y = Gather(W, a) }", W=np.zeros((10, 4), np.uint8))
    result = optimize(model)
    assert (result.lookups_before, refusals(result)) == (0, {})
