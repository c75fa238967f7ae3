"""Hazard: the function body, which is the op's definition, says something else than the program that the kernels
run."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from onnx import helper
from onnx.reference import ReferenceEvaluator

from dpiframe.graph_passes.lookups.body import lookup_body
from dpiframe.graph_passes.lookups.program import (
    STAR,
    IdExpr,
    LookupProgram,
    Pool,
    Row,
    Source,
    Table,
    Term,
    Weight,
    parse_program,
)
from tests.graph_passes.harness import FP16_TOLERANCE, FP32_TOLERANCE, OP, same, session, table
from tests.graph_passes.lookups.oracle import OutsideError, run
from tests.graph_passes.lookups.programs import Case, cases

SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


def model_of(
    program: LookupProgram, sources: list[np.ndarray], tables: list[np.ndarray], opset: int = 20
) -> onnx.ModelProto:
    """One FusedMultiGather node with its body; all of its inputs are graph inputs, the tables initializers."""
    kinds = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in (*sources, tables[0])]
    body = lookup_body(program, kinds[-1], kinds[:-1], opset)
    function = helper.make_function(
        "dpiframe", OP, body.inputs, body.outputs, body.nodes, [helper.make_opsetid("", opset)], ["program"]
    )
    node = helper.make_node(OP, body.inputs, body.outputs, domain="dpiframe", program=str(program))
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(f"source_{i}", kinds[i], [None] * a.ndim) for i, a in enumerate(sources)],
        [
            helper.make_tensor_value_info(name, kinds[-1], [None] * (program.rows + len(shape)))
            for name, shape in zip(body.outputs, program.outputs, strict=True)
        ],
        [onnx.numpy_helper.from_array(t, f"table_{i}") for i, t in enumerate(tables)],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("dpiframe", 1)]
    return helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=8)


def answers(
    program: LookupProgram, sources: list[np.ndarray], tables: list[np.ndarray], opset: int = 20, reference: bool = True
) -> dict[str, list[np.ndarray]]:
    model = model_of(program, sources, tables, opset)
    onnx.checker.check_model(model, full_check=True)
    case = {f"source_{i}": a for i, a in enumerate(sources)}
    found = {
        "inlined": session(model).run(None, case),
        "library": session(model, library=True).run(None, case),
    }
    if reference:
        found["onnx.reference"] = ReferenceEvaluator(model).run(None, case)
    return found


def agree_with_the_oracle(
    program: LookupProgram, sources: list[np.ndarray], tables: list[np.ndarray], opset: int = 20, reference: bool = True
) -> None:
    want = run(program, sources, tables)
    pooled = any(isinstance(block, Pool) for block in program.blocks)
    tolerance = 0.0 if not pooled else FP16_TOLERANCE if tables[0].dtype == np.float16 else FP32_TOLERANCE
    for name, got in answers(program, sources, tables, opset, reference).items():
        for index, (a, b) in enumerate(zip(got, want, strict=True)):
            same(a, b, tolerance, f"{name}, output {index}\n{program}")


def sized(case: Case) -> list[tuple[tuple[int, ...], int]]:
    return [((3,), 4), ((1,), 1), ((0,), 2)] if case.program.rows == 1 else [((2, 3), 4), ((1, 1), 1), ((2, 0), 2)]


@settings(max_examples=60, **SETTINGS)  # type: ignore[arg-type]
@given(cases())
def test_any_program(case: Case) -> None:
    for sizes, length in sized(case):
        sources = case.sources(sizes, length)
        try:
            agree_with_the_oracle(case.program, sources, case.tables, reference=sizes == (3,))
        except OutsideError:
            case.program.bad_ids = "zero"
            agree_with_the_oracle(case.program, sources, case.tables, reference=False)


@settings(max_examples=20, **SETTINGS)  # type: ignore[arg-type]
@given(cases(bad_ids="clamp"))
def test_any_program_in_the_oldest_operator_set(case: Case) -> None:
    sizes, length = sized(case)[0]
    agree_with_the_oracle(case.program, case.sources(sizes, length), case.tables, opset=11, reference=False)


def program(text: str) -> LookupProgram:
    return parse_program(text)


HEAD = "lookup 1\nrows 1\nbad zero\n"


@pytest.mark.parametrize("opset", [11, 12, 13, 17, 18, 20, 21, 23])
def test_operator_sets(opset: int) -> None:
    text = (
        HEAD
        + "source 3 row\ntable 10 4\noutput 12\n"
        + (
            "row 0 0 4 0 0:0 0\n"
            "pool 0 4 4 sum 2 0\nterm 0 0:1 0 ne 0:1 0\nterm 0 0:2 0 one\n"
            "pool 0 8 4 max 2 100\nterm 0 0:1 0 lt 2 0:1\nterm 0 0:2 0 one\n"
        )
    )
    sources = [np.array([[1, 2, 3], [0, 0, 9], [10, -1, -11]])]
    agree_with_the_oracle(program(text), sources, [table(10, 4)], opset)


@pytest.mark.parametrize("policy", ["zero", "clamp"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_ids_outside_the_table(policy: str, dtype: type) -> None:
    values = [0, 9, 10, -1, -10, -11, 2**31 - 1, -(2**31)]
    if dtype is np.int64:
        values += [2**62, -(2**63), 2**63 - 1]
    if dtype in (np.float32, np.float64):
        values += [np.nan, np.inf, -np.inf, 1e30, -1e30, 9.99, -0.99, 2.0**63, -(2.0**63)]  # type: ignore[list-item]
    source = np.array(values, dtype)[:, None]
    text = f"lookup 1\nrows 1\nbad {policy}\nsource 1 row\ntable 10 4\noutput 4\nrow 0 0 4 0 0:0 0\n"
    # the reference leaves the cast of what doesn't fit to numpy
    with np.errstate(invalid="ignore"):
        agree_with_the_oracle(program(text), [source], [table(10, 4)])


@pytest.mark.parametrize(
    "steps", ["/3", "%7", "*3", "+5", "+-5", "/3%7*2+-4", "/1000000007%11", "*4611686018427387904+3"]
)
def test_id_steps_on_extreme_ids(steps: str) -> None:
    values = np.array([0, 1, -1, 6, 7, -7, 8, -8, 2**62, -(2**62), 2**63 - 1, -(2**63)])[:, None]
    text = HEAD + f"source 1 row\ntable 12 3\noutput 3\nrow 0 0 3 0 0:0{steps} 0\n"
    agree_with_the_oracle(program(text), [values], [table(12, 3)], reference=False)


def test_a_mean_over_a_dynamic_number_of_rows_and_others() -> None:
    text = HEAD + (
        "source 1 row\nsource * row\ntable 10 4\noutput 4\npool 0 0 4 mean 2 0\nterm 0 0:0 0 one\nterm 0 1:* 0 one\n"
    )
    for length in (3, 1, 0):
        sources = [np.array([[1], [2]]), np.arange(2 * length).reshape(2, length)]
        agree_with_the_oracle(program(text), sources, [table(10, 4)])


@pytest.mark.parametrize(
    "weight", ["ne 0:0 1", "lt 1 0:0", "lt * 0:0", "lt * 1:*", "lt 2 1:*", "ne 1:* 3", "col 2 0", "col 3 *"]
)
@pytest.mark.parametrize("op", ["sum 2 0", "mean 2 0.5", "max 2 10"])
def test_weights_of_a_dynamic_number_of_rows(weight: str, op: str) -> None:
    text = HEAD + (
        "source 1 row\nsource * row\nsource 2 row\nsource * row\ntable 10 4\noutput 4\n"
        f"pool 0 0 4 {op}\nterm 0 1:* 0 {weight}\nterm 0 0:0 0 col 2 1\n"
    )
    rng = np.random.default_rng(0)
    dense, weights = rng.random((3, 2)).astype(np.float32), rng.random((3, 4)).astype(np.float32)
    sources = [np.array([[1], [2], [3]]), np.arange(12).reshape(3, 4) % 10, dense, weights]
    agree_with_the_oracle(program(text), sources, [table(10, 4)])


@pytest.mark.parametrize(
    "second", ["0:* 0 one", "0:*+5 0 one", "0:*%5*2 0 one", "0:*+5 0 ne 1:0 1", "0:*+5 0 ne 0:* 3"]
)
@pytest.mark.parametrize("first", ["0:* 0 one", "0:* 0 ne 1:0 1", "0:* 0 ne 0:* 3", "1:0 0 one"])
@pytest.mark.parametrize("op", ["sum 3 0", "mean 3 0.5", "max 3 10"])
def test_a_dynamic_number_of_rows_twice(op: str, first: str, second: str) -> None:
    """A list is all columns of its source, however often it is looked up: no column of it is its neighbour's."""
    text = HEAD + "source * row\nsource 1 row\ntable 15 4\noutput 4\n"
    text += f"pool 0 0 4 {op}\nterm 0 {first}\nterm 0 {second}\nterm 0 {second}\n"
    for length in (4, 1):
        sources = [np.arange(3 * length).reshape(3, length) % 10, np.array([[1], [2], [3]])]
        agree_with_the_oracle(program(text), sources, [table(15, 4)])


def test_constant_ids() -> None:
    text = HEAD + "source 2 row\ntable 10 4\noutput 2 3\nrow 0 0 3 0 =7 1\nrow 0 3 3 0 =2*3+1 0\n"
    for dtype in (np.int64, np.float32):
        agree_with_the_oracle(program(text), [np.zeros((3, 2), dtype)], [table(10, 4)])


def test_parts_of_rows() -> None:
    text = HEAD + "source 2 row\ntable 10 5\noutput 6\nrow 0 0 2 0 0:0 3\nrow 0 2 3 0 0:1 0\nrow 0 5 1 0 0:0 4\n"
    agree_with_the_oracle(program(text), [np.array([[1, 2], [3, 4]])], [table(10, 5)])


def test_an_output_without_a_trailing_shape() -> None:
    text = HEAD + "source 1 row\ntable 10 1\noutput\nrow 0 0 1 0 0:0 0\n"
    agree_with_the_oracle(program(text), [np.array([[1], [2]])], [table(10, 1)])


def test_a_source_of_one_axis() -> None:
    text = HEAD + "source 1 row\ntable 10 3\noutput 3\nrow 0 0 3 0 0:0 0\n"
    agree_with_the_oracle(program(text), [np.array([1, 2, 3])], [table(10, 3)])


def test_column_layout_and_row_layout_together() -> None:
    text = (
        HEAD
        + "source 2 column\nsource 1 row\ntable 10 3\noutput 3 3\nrow 0 0 3 0 0:1 0\nrow 0 3 3 0 1:0 0\nrow 0 6 3 0 0:0 0\n"
    )
    agree_with_the_oracle(program(text), [np.array([[1, 2, 3, 4], [5, 6, 7, 8]]), np.arange(4)], [table(10, 3)])


def test_neighbouring_rows_of_one_table_are_one_gather() -> None:
    many = LookupProgram(sources=[Source(40)], tables=[Table(10, 4)], outputs=[(40, 4)])
    many.blocks = [Row(0, 4 * k, 4, 0, IdExpr(0, k, add=k % 3)) for k in range(40)]
    body = lookup_body(many, onnx.TensorProto.FLOAT, [onnx.TensorProto.INT64], 20)
    assert [n.op_type for n in body.nodes if n.op_type not in ("Constant", "Reshape")] == ["Add", "Gather"]


def test_the_body_of_many_outputs_stays_linear() -> None:
    sizes = []
    for count in (100, 200):
        many = LookupProgram(sources=[Source(1)] * count, tables=[Table(10, 4)] * count, outputs=[(4,)] * count)
        many.blocks = [Row(k, 0, 4, k, IdExpr(k, 0)) for k in range(count)]
        sizes.append(len(lookup_body(many, onnx.TensorProto.FLOAT, [onnx.TensorProto.INT64] * count, 20).nodes))
    assert sizes[1] <= 2 * sizes[0]


def test_the_body_is_a_valid_function_of_its_own() -> None:
    pool = Pool(0, 0, 4, "mean", (Term(0, IdExpr(0, STAR), 0, Weight("ne", IdExpr(0, STAR), 0)),), 1e-8)
    made = LookupProgram(bad_ids="clamp", sources=[Source(STAR)], tables=[Table(10, 4)], outputs=[(4,)], blocks=[pool])
    model = model_of(made, [np.zeros((2, 3), np.int64)], [table(10, 4)])
    onnx.checker.check_model(model, full_check=True)
    written = {name for node in model.functions[0].node for name in node.output}
    read = {name for node in model.functions[0].node for name in node.input}
    assert read <= written | set(model.functions[0].input)
    assert set(model.functions[0].output) <= written
    assert set(model.functions[0].input) <= read
