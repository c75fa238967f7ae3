"""Hazard: a bag's loop in the function body says something else than the program: at offsets that are anywhere, for bags
without ids, in older operator sets, in any runtime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpiframe.graph_passes.lookups.body import lookup_body
from dpiframe.graph_passes.lookups.program import (
    STAR,
    Bag,
    IdExpr,
    LookupProgram,
    Row,
    Source,
    Table,
    Weight,
    parse_program,
)
from tests.custom_ops import reference
from tests.graph_passes.harness import FP16_TOLERANCE, FP32_TOLERANCE, fails, same, table
from tests.graph_passes.lookups.test_body import SETTINGS, answers, model_of

LIST = Source(STAR, "list")


def program_of(
    bag: Bag, offsets: Source, *lists: Source, size: int = 20, dim: int = 4, bad: str = "zero"
) -> LookupProgram:
    return LookupProgram(1, bad, [offsets, LIST, *lists], [Table(size, dim)], [(bag.width,)], [bag])


def check(
    program: LookupProgram,
    sources: list[np.ndarray],
    tables: list[np.ndarray],
    opset: int = 20,
    reference_too: bool = True,
) -> None:
    """ONNX Runtime without the library and with it, and onnx.reference, give what the format's documentation says."""
    assert parse_program(str(program)) == program
    wanted = reference.run(str(program), sources, tables).outputs
    tolerance = FP16_TOLERANCE if tables[0].dtype == np.float16 else FP32_TOLERANCE
    for name, got in answers(program, sources, tables, opset, reference_too).items():
        for output, (a, b) in enumerate(zip(got, wanted, strict=True)):
            same(a, b, tolerance, f"{name}, output {output}\n{program}")


@st.composite
def cases(draw: st.DrawFn) -> tuple[LookupProgram, list[np.ndarray], list[np.ndarray]]:
    random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    dtype = draw(st.sampled_from([np.float32, np.float32, np.float16]))
    rows, length = draw(st.sampled_from([1, 2, 5])), draw(st.sampled_from([0, 1, 9, 40]))
    columns = draw(st.integers(1, 3))
    layout = draw(st.sampled_from(["row", "column", "bounds"]))
    shape = {"row": (rows, columns), "column": (columns, rows), "bounds": (columns, rows + 1)}[layout]
    offsets = random.integers(-length - 3, length + 3, shape)
    if draw(st.booleans()):
        offsets = np.sort(np.abs(offsets) % (length + 1), 0 if layout == "row" else 1)
    op = draw(st.sampled_from(["sum", "mean", "max"]))
    size, dim = draw(st.integers(1, 20)), draw(st.integers(1, 5))
    first = draw(st.integers(0, dim - 1))
    width = draw(st.integers(1, dim - first))
    lists = [LIST]
    weight = Weight()
    sources = [
        offsets.astype(draw(st.sampled_from([np.int32, np.int64, np.float32]))),
        random.integers(-size - 2, size + 2, length).astype(draw(st.sampled_from([np.int32, np.int64]))),
    ]
    if op == "sum" and draw(st.booleans()):
        weight = Weight("col", IdExpr(2, STAR))
        lists.append(LIST)
        sources.append(random.normal(size=length).astype(draw(st.sampled_from([np.float32, dtype]))))
    steps = draw(st.sampled_from([{}, {"mod": 7}, {"mul": 2, "add": -1}, {"div": 3}]))
    bag = Bag(
        0,
        0,
        width,
        op,
        0,
        IdExpr(1, STAR, **steps),
        IdExpr(0, draw(st.integers(0, columns - 1)), add=draw(st.sampled_from([0, 1]))),
        first,
        weight,
        draw(st.sampled_from([None, 0, size - 1])),
        op == "max" and draw(st.booleans()),
    )
    program = program_of(bag, Source(columns, layout), size=size, dim=dim, bad=draw(st.sampled_from(["zero", "clamp"])))
    program.sources = [Source(columns, layout), *lists]
    return program, sources, [random.normal(size=(size, dim)).astype(dtype)]


@settings(max_examples=60, **SETTINGS)
@given(cases())
def test_any_bag(case: tuple[LookupProgram, list[np.ndarray], list[np.ndarray]]) -> None:
    check(*case)


@pytest.mark.parametrize("opset", [11, 12, 13, 17, 18, 20])
@pytest.mark.parametrize("op", ["sum", "mean", "max"])
def test_operator_sets(op: str, opset: int) -> None:
    weight = Weight("col", IdExpr(2, STAR)) if op == "sum" else Weight()
    bag = Bag(0, 0, 4, op, 0, IdExpr(1, STAR, mod=15), IdExpr(0, 0), weight=weight, padding=3)
    lists = [LIST] if op == "sum" else []
    weights = [np.linspace(-1, 1, 8, dtype=np.float32)] if op == "sum" else []
    sources = [np.array([0, 3, 3, 6]), np.array([3, 18, 2, 3, 3, 3, -17, 40]), *weights]
    check(program_of(bag, Source(1), *lists, bad="clamp"), sources, [table(20, 4)], opset)


@pytest.mark.parametrize("layout", ["row", "bounds"])
@pytest.mark.parametrize("op", ["sum", "mean", "max"])
def test_an_empty_batch(op: str, layout: str) -> None:
    bag = Bag(0, 0, 4, op, 0, IdExpr(1, STAR), IdExpr(0, 0))
    offsets = np.zeros((1, 1) if layout == "bounds" else (0, 1), np.int64)
    # onnx.reference can't scan a loop that doesn't run
    check(program_of(bag, Source(1, layout)), [offsets, np.arange(5)], [table(20, 4)], reference_too=False)


def test_bags_beside_rows_in_one_output() -> None:
    row = Row(0, 0, 4, 0, IdExpr(0, 1))
    bags = [
        Bag(0, 4, 4, "sum", 0, IdExpr(1, STAR), IdExpr(0, 0)),
        Bag(0, 8, 2, "max", 0, IdExpr(2, STAR), IdExpr(0, 2), 1, lowest=True),
    ]
    program = LookupProgram(1, "zero", [Source(3), LIST, LIST], [Table(20, 4)], [(10,)], [row, *bags])
    offsets = np.array([[0, 7, 0], [2, 8, 0], [5, 9, 1]])
    check(program, [offsets, np.arange(9), np.array([4, 5, 6, 7])], [table(20, 4)])


def test_an_id_outside_its_table_fails_where_that_is_an_error() -> None:
    bag = Bag(0, 0, 4, "sum", 0, IdExpr(1, STAR), IdExpr(0, 0))
    program = program_of(bag, Source(1), bad="error")
    sources = [np.array([0, 1]), np.array([1, 20])]
    model = model_of(program, sources, [table(20, 4)])
    case = {f"source_{i}": a for i, a in enumerate(sources)}
    assert fails(model, case)
    assert fails(model, case, library=True)


def test_a_list_may_have_any_shape() -> None:
    bag = Bag(0, 0, 4, "mean", 0, IdExpr(1, STAR), IdExpr(0, 0))
    check(program_of(bag, Source(1)), [np.array([0, 3]), np.arange(6).reshape(3, 2)], [table(20, 4)])


def test_the_loop_reads_what_stands_around_it_under_names_of_its_own() -> None:
    bags = [Bag(0, 4 * i, 4, "mean", 0, IdExpr(1, STAR), IdExpr(0, 0), padding=i) for i in range(2)]
    program = LookupProgram(1, "error", [Source(1), LIST], [Table(20, 4)], [(8,)], bags)
    body = lookup_body(program, 1, [7, 7], 20)
    outer = {name for node in body.nodes for name in node.output} | set(body.inputs)
    loops = [node for node in body.nodes if node.op_type == "Loop"]
    assert len(loops) == 2
    for loop in loops:
        graph = next(a.g for a in loop.attribute if a.name == "body")
        own = {name for node in graph.node for name in node.output} | {value.name for value in graph.input}
        assert not own & outer
        assert all(node.op_type != "Constant" for node in graph.node)
