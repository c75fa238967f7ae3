"""Hazard: a program is written for a node whose shape, type or operands are not what they seem."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from dpiframe.graph_passes.elementwise.lines import RefusedError
from dpiframe.graph_passes.elementwise.lower import Lowering
from dpiframe.graph_passes.elementwise.rules import ELEMENTWISE, WITHIN_ROWS
from dpiframe.graph_passes.elementwise.views import VIEWS
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.elementwise.programs import floats, lines_of, lower_model, refusal_of
from tests.graph_passes.harness import parse


def lowering_of(model: onnx.ModelProto, batch: int | None = None) -> tuple[Lowering, Workbench]:
    bench = Workbench(model)
    bench.infer_shapes()
    return Lowering(bench.opset, batch, 0, bench.output_ids()), bench


def telling(model: onnx.ModelProto) -> bool:
    """Whether the refusal of the model's last node is one to report."""
    lowering, bench = lowering_of(model)
    with pytest.raises(RefusedError) as refused:
        lowering.alone(bench.graph.nodes[-1])
    return refused.value.telling


def test_every_rule_is_for_an_operator_of_onnx() -> None:
    for op in (*ELEMENTWISE, *WITHIN_ROWS, *VIEWS):
        if op not in ("Swish", "RMSNormalization"):
            assert onnx.defs.get_schema(op, 22).name == op


def test_a_whole_model_as_one_program() -> None:
    """The second order of a factorization machine, as text."""
    model = parse(
        """(float[b,26,16] e) => (float[b,1] y) {
            s = ReduceSum<keepdims=0>(e, one) s2 = Pow(s, two) e2 = Pow(e, two) q = ReduceSum<keepdims=0>(e2, one)
            d = Sub(s2, q) t = ReduceSum(d, one) y = Mul(t, half)
        }""",
        one=np.array([1]),
        two=np.float32(2),
        half=np.float32(0.5),
    )
    lowered = lower_model(model)
    assert str(lowered.program) == (
        "elementwise 1\n"
        "rows 1\n"
        "input f32 x 26 16\n"
        "sum f32 16 : 0 0\n"
        "mul f32 16 : 1 1\n"
        "mul f32 26 16 : 0 0\n"
        "sum f32 16 : 3 0\n"
        "sub f32 16 : 2 4\n"
        "sum f32 1 : 5 0\n"
        "const f32 5e-01\n"
        "mul f32 1 : 6 7\n"
        "output 8\n"
    )
    lines_of(model, {"e": floats(5, 26, 16)})


def test_row_axes_of_nodes() -> None:
    lowering, bench = lowering_of(
        parse("(float[b,4] x, float[b,l] s) => (float[b,4] y, float[b,l] t) { y = Relu(x) t = Relu(s) }")
    )
    assert [lowering.alone(node)[0] for node in bench.graph.nodes] == [("b",), ("b", "l")]


def test_a_fixed_batch() -> None:
    model = parse("(float[8,4] x) => (float[8,4] y) { y = Relu(x) }")
    lowering, bench = lowering_of(model, batch=8)
    assert lowering.alone(bench.graph.nodes[0])[0] == (8,)
    lines_of(model, {"x": floats(8, 4)})


def test_nodes_of_unknown_shape() -> None:
    model = parse("(float[b,4] x, int64[n] s) => (float[b,4] y) { r = Reshape(x, s) y = Relu(r) }")
    assert refusal_of(model) == "the shape of its result isn't known"
    assert telling(parse("(float[b,4] x, int64[n] s) => (float[b,4] y) { r = Reshape(x, s) y = Relu(r) }"))


@pytest.mark.parametrize("shape", ["4,b,6", "b,l,m,6", "b,4,l"])
def test_rows_that_do_not_lie_one_behind_another(shape: str) -> None:
    model = parse(f"(float[{shape}] x) => (float[{shape}] y) {{ y = Relu(x) }}")
    assert refusal_of(model) == "the axes of its result without a fixed size aren't one or two in front"
    assert telling(model)


def test_shape_arithmetic_is_not_worth_a_word() -> None:
    model = parse(
        "(float[b,4] x) => (int64[1] n) { s = Shape(x) t = Gather(s, zero) n = Mul(t, t) }", zero=np.array([0])
    )
    assert not telling(model)


def test_constants_are_left_to_folding() -> None:
    model = parse("(float[8,4] x) => (float[8,4] y) { y = Exp(w) }", w=floats(8, 4))
    lowering, bench = lowering_of(model, batch=8)
    with pytest.raises(RefusedError, match="constants only"):
        lowering.alone(bench.graph.nodes[0])


def test_other_domains_and_operators() -> None:
    lowering, bench = lowering_of(
        parse(
            "(float[b,4] x) => (float[b,4] y) { a = other.Relu(x) c = CumSum(x, axis) y = Add(a, c) }",
            imports=', "other": 1',
            axis=np.array(1),
        )
    )
    assert [lowering.knows(node) for node in bench.graph.nodes] == [False, False, True]


def test_malformed_nodes_are_boundaries() -> None:
    model = parse("(float[b,4] x) => (float[b,4] y) { y = Relu(x) }")
    del model.graph.node[0].input[:]
    lowering, bench = Lowering(20, None, 0, ()), Workbench(model)
    assert not lowering.knows(bench.graph.nodes[0])


def test_types_that_do_not_meet() -> None:
    model = parse("(float[b,4] x, double[b,4] z) => (float[b,4] y) { y = Add(x, z) }")
    assert refusal_of(model) == "add of f32 and f64"


def test_dimensions_of_another_name() -> None:
    model = parse("(float[b,4] x, float[c,4] z) => (float[n,4] y) { y = Add(x, z) }")
    assert refusal_of(model)


def test_operands_the_program_does_not_read_must_be_constant() -> None:
    model = parse("(float[b,4] x, float r) => (float[b,4] y) { y = Dropout(x, r) }")
    assert refusal_of(model) == "its operand 'r' isn't constant"


def test_equal_values_of_different_nodes_are_one() -> None:
    model = parse(
        "(float[b,4] x) => (float[b,4] y) { a = Sigmoid(x) c = Sigmoid(x) y = Mul(a, c) }",
    )
    assert lines_of(model, {"x": floats(3, 4)}) == ["sigmoid f32 4 : 0", "mul f32 4 : 1 1"]


def test_optional_outputs_that_are_left_out() -> None:
    model = parse('(float[b,4] x) => (float[b,4] y) { y, "" = Dropout(x) }')
    assert lines_of(model, {"x": floats(3, 4)}) == []


def test_inputs_are_in_order_of_their_first_use() -> None:
    model = parse("(float[b,4] x, float[b,4] z) => (float[b,4] y) { a = Mul(z, w) y = Add(a, x) }", w=floats(4))
    assert [tensor.name for tensor in lower_model(model).inputs] == ["z", "w", "x"]
