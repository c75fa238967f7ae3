"""Hazard: a tensor is read as something that it isn't: a weight as a row, a constant as an input, one in two ways."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs
import pytest

from dpiframe.graph_passes.elementwise.lines import RefusedError
from dpiframe.graph_passes.elementwise.operands import Operands, Reader, is_embedded_number, type_of
from dpiframe.graph_passes.graphs import Node
from tests.graph_passes.elementwise.programs import floats, lower_model, refusal_of
from tests.graph_passes.harness import parse


def variable(*shape: int | str, dtype: type = np.float32) -> gs.Variable:
    return gs.Variable("t", np.dtype(dtype), list(shape))


def constant(values: object, dtype: type = np.float32) -> gs.Constant:
    return gs.Constant("c", np.array(values, dtype))


def operands(node: Node, reader: Reader | None = None, opset: int = 20) -> Operands:
    return Operands(reader or Reader(("b",)), node, opset, ())


def node(*inputs: gs.Tensor, shape: tuple[int | str, ...] = ("b", 4), **attributes: object) -> Node:
    return Node("Any", attrs=attributes, inputs=list(inputs), outputs=[variable(*shape)])


def test_types() -> None:
    assert [
        type_of(variable("b", dtype=t)) for t in (np.float32, np.float16, np.float64, np.int32, np.int64, bool)
    ] == [
        *("f32", "f16", "f64", "i32", "i64", "bool"),
    ]
    for other in (np.int8, np.uint64, np.complex64):
        with pytest.raises(RefusedError, match="aren't supported"):
            type_of(variable("b", dtype=other))
    unknown = gs.Variable("t", None, ["b"])
    with pytest.raises(RefusedError, match="None aren't supported"):
        type_of(unknown)


@pytest.mark.parametrize(
    ("values", "want"),
    [(2.0, True), ([2.0], True), ([[2.0]], True), ([1.0, 2.0], False), ([], False)],
)
def test_numbers_that_are_part_of_the_program(values: object, want: bool) -> None:
    assert is_embedded_number(constant(values)) is want


def test_a_graphs_input_of_one_element_is_no_number() -> None:
    assert not is_embedded_number(variable(1))


def test_each_tensor_is_one_input() -> None:
    reader = Reader(("b",))
    x, w = variable("b", 4), constant([1, 2, 3, 4])
    first = reader.read(x, 2)
    assert reader.read(w, 2).number == 1
    assert reader.read(x, 2) == first
    assert [t.name for t in reader.inputs] == ["t", "c"]
    assert [str(value) for value in reader.lines.values] == ["input f32 x 4", "input f32 - 4"]


def test_numbers_are_constants_and_no_inputs() -> None:
    reader = Reader(("b",))
    for values, dtype, line in (
        (0.1, np.float32, "const f32 1e-01"),
        (0.1, np.float64, "const f64 1e-01"),
        (0.1, np.float16, "const f16 1e-01"),
        (-7, np.int64, "const i64 -7"),
        (1 << 62, np.int64, f"const i64 {1 << 62}"),
        (True, np.bool_, "const bool 1"),
        (-0.0, np.float32, "const f32 -0"),
        (np.inf, np.float32, "const f32 inf"),
        (np.float32(0.1), np.float64, "const f64 1.0000000149011612e-01"),
    ):
        assert str(reader.lines.values[reader.read(constant(values, dtype), 2).number]) == line
    assert reader.inputs == []


def test_a_weight_aligned_in_two_ways_is_two_weights() -> None:
    """The same vector beside rows of rank 2 and of rank 3 is the same; a row of rank 2 is not."""
    reader = Reader(("b",))
    w, x = constant([1, 2, 3, 4]), variable("b", 4)
    assert reader.read(w, 2) == reader.read(w, 3)
    reader.read(x, 2)
    with pytest.raises(RefusedError, match="does not broadcast row by row"):
        reader.read(x, 3)


def test_a_tensor_that_is_read_with_and_without_its_row_axis() -> None:
    reader = Reader((4,))
    x = variable(4, 4)
    reader.read(x, 2)
    with pytest.raises(RefusedError, match="one tensor in two ways"):
        reader.read(x, 3)


def test_what_was_made_has_its_own_rank() -> None:
    reader = Reader(("b",))
    x, y = variable("b", 4), variable("b", 4)
    reader.make(y, -reader.read(x, 2))
    assert reader.read(y, 2) == reader.made(y)
    with pytest.raises(RefusedError, match="a batch axis against another axis"):
        reader.read(y, 3)


def test_a_constant_is_an_input_or_in_the_body() -> None:
    reader = Reader(("b",))
    c = constant([1, 2], np.int64)
    reader.embed(c)
    with pytest.raises(RefusedError, match="one constant in two ways"):
        reader.read(c, 2)
    d = constant([1, 2], np.int64)
    reader.read(d, 2)
    with pytest.raises(RefusedError, match="one constant in two ways"):
        reader.embed(d)


def test_only_small_constants_go_into_the_body() -> None:
    reader = Reader(("b",))
    assert reader.embed(constant(np.arange(16384), np.int64)).size == 16384
    for tensor in (constant(np.arange(16385), np.int64), variable(2, dtype=np.int64)):
        with pytest.raises(RefusedError, match="isn't a small constant"):
            reader.embed(tensor)


def test_rows_and_weights() -> None:
    n = operands(node(variable("b", 3, 4), constant(np.ones((1, 1, 4)))))
    assert n.is_row(0)
    assert not n.is_row(1)
    assert n.row(0).sizes == (3, 4)
    # a weight has its own shape, with ones in front
    assert n.weight(1).sizes == (1, 1, 4)
    with pytest.raises(RefusedError, match="other rows than the result"):
        n.row(1)
    with pytest.raises(RefusedError, match="is no weight"):
        n.weight(0)


def test_sizes_and_rank_of_results() -> None:
    n = operands(node(variable("b", "l", 4), shape=("b", "l", 2, 2)), Reader(("b", "l")))
    assert (n.sizes, n.rank, n.rows, n.kind) == ((2, 2), 4, 2, "f32")


def test_operands_that_are_left_out() -> None:
    n = operands(node(variable("b", 4), gs.Variable.empty(), constant([1], np.int64)))
    assert [n.has(index) for index in range(4)] == [True, False, True, False]
    assert n.constant(1) is None
    assert n.constant(3) is None
    assert n.constant(2) == [1]


@pytest.mark.parametrize(("axis", "want"), [(1, 0), (2, 1), (-1, 1), (-2, 0)])
def test_axes_are_counted_behind_the_rows(axis: int, want: int) -> None:
    assert operands(node(variable("b", 3, 4))).axis(axis) == want


@pytest.mark.parametrize("axis", [0, -3])
def test_no_axis_is_a_row_axis(axis: int) -> None:
    with pytest.raises(RefusedError, match="across rows"):
        operands(node(variable("b", 3, 4))).axis(axis)


def test_axes_of_either_operator_set() -> None:
    assert operands(node(variable("b", 3, 4), axes=[1, -1])).axes() == [0, 1]
    assert operands(node(variable("b", 3, 4), constant([2], np.int64))).axes() == [1]
    assert operands(node(variable("b", 3, 4))).axes() is None
    with pytest.raises(RefusedError, match="isn't a small constant"):
        operands(node(variable("b", 3, 4), variable(1, dtype=np.int64))).axes()


def test_broadcasting_against_the_batch() -> None:
    """[b,4] beside [b,b,4] would put the second batch beside the first one's rows."""
    model = parse("(float[b,4] x, float[b,3,4] z) => (float[b,3,4] y) { r = Relu(x) y = Add(r, z) }")
    assert refusal_of(model)


def test_operands_without_row_axes() -> None:
    model = parse(
        "(float[b,3,4] x, float[4] v, float[1,3,1] u, float s) => (float[b,3,4] y) { a = Add(x, v) m = Mul(a, u) y = Sub(m, s) }"
    )
    inputs = [str(value) for value in lower_model(model).program.inputs]
    assert inputs == ["input f32 x 3 4", "input f32 - 4", "input f32 - 3 1", "input f32 -"]


def test_two_row_axes_and_operands_with_one() -> None:
    model = parse(
        "(float[b,l,4] x, float[b,1,4] q, float[1,l,1] p) => (float[b,l,4] y) { a = Add(x, q) y = Mul(a, p) }"
    )
    inputs = [str(value) for value in lower_model(model).program.inputs]
    assert inputs == ["input f32 xx 4", "input f32 x- 4", "input f32 -x 1"]


def test_an_initializer_that_may_be_overridden_is_an_input() -> None:
    model = parse("(float[b,4] x, float[1] w) => (float[b,4] y) { y = Mul(x, w) }", w=floats(1))
    lowered = lower_model(model)
    assert [tensor.name for tensor in lowered.inputs] == ["x", "w"]
