"""Hazard: a tensor is taken to follow a rule that it doesn't follow, or two sizes for equal that aren't."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpiframe.graph_passes.canonicalize.progressions import Fill, Listed, Progressions, Ramp
from dpiframe.graph_passes.canonicalize.sizes import Size, divided, number, plus, product, solved, times
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import parse

N, M = Size(1, ("n",)), Size(1, ("m",))


def tensors(
    nodes: str, inputs: str = "int64[n, 3] x, int64[k] flat", **initializers: np.ndarray
) -> dict[str, gs.Tensor]:
    """Every tensor of a graph, by name, after shape inference."""
    last = nodes.strip().splitlines()[-1].split("=")[0].split(",")[0].strip()
    bench = Workbench(parse(f"({inputs}) => (int64[] {last}) {{ {nodes} }}", **initializers))
    bench.infer_shapes()
    found = bench.graph.tensors()
    # `tensors` reads the names; constants keep their objects
    return dict(found)


CONSTANTS = {
    "zero": np.array(0),
    "one": np.array(1),
    "two": np.array(2),
    "three": np.array(3),
    "minus_one": np.array([-1]),
    "zero_1d": np.array([0]),
    "one_1d": np.array([1]),
    "end": np.array([np.iinfo(np.int64).max]),
}


def rule(nodes: str, name: str, **initializers: np.ndarray) -> object:
    return Progressions().rule(tensors(nodes, **{**CONSTANTS, **initializers})[name])


SHAPE = "shape = Shape (x)\nrows = Gather <axis = 0> (shape, zero)\n"


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("y = Range (zero, rows, one)", Ramp(0, number(1), N)),
        ("end_ = Mul (rows, three)\ny = Range (zero, end_, three)", Ramp(0, number(3), N)),
        ("all = ReduceProd <keepdims = 0> (shape)\ny = Range (zero, all, three)", Ramp(0, number(3), N)),
        ("steps = Range (zero, rows, one)\ny = Mul (steps, three)", Ramp(0, number(3), N)),
        ("steps = Range (zero, rows, one)\ny = Mul (three, steps)", Ramp(0, number(3), N)),
        ("y = Range (one, rows, one)", None),
        ("y = Range (zero, rows, two)", None),
        ("y = Range (zero, rows, rows)", Ramp(0, N, number(1))),
        ("length = Reshape (rows, minus_one)\ny = Expand (two, length)", Fill(number(2), (N,))),
        ("length = Reshape (rows, minus_one)\ny = ConstantOfShape (length)", None),
        (
            "length = Reshape (rows, minus_one)\ny = ConstantOfShape <value = int64[1] {4}> (length)",
            Fill(number(4), (N,)),
        ),
    ],
)
def test_what_a_batch_gives(nodes: str, expected: object) -> None:
    assert rule(SHAPE + nodes, "y") == expected


LENGTHS = SHAPE + (
    "all = Mul (rows, three)\nlength = Reshape (all, minus_one)\nones = Expand (two, length)\n"
    "matrix = Reshape (ones, three_rows)\n"
)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("y = Identity (matrix)", Fill(number(2), (number(3), N))),
        ("y = ReduceSum <keepdims = 0> (matrix, one_1d)", Fill(Size(2, ("n",)), (number(3),))),
        ("y = ReduceSum <keepdims = 1> (matrix, one_1d)", None),
        ("y = CumSum (matrix, one)", Ramp(1, number(2), N, 1)),
        ("y = CumSum <exclusive = 1> (matrix, one)", Ramp(0, number(2), N, 1)),
        ("y = CumSum <reverse = 1> (matrix, one)", None),
        ("y = CumSum (matrix, zero)", None),
        ("sums = CumSum (matrix, one)\ny = Concat <axis = 1> (zeros, sums)", Ramp(0, number(2), Size(1, ("n",), 1), 1)),
        ("sums = CumSum (matrix, one)\ny = Concat <axis = 1> (sums, zeros)", None),
        ("sums = CumSum (matrix, one)\ny = Concat <axis = 1> (ones_column, sums)", None),
        (
            "sums = CumSum (matrix, one)\nwhole = Concat <axis = -1> (zeros, sums)\n"
            "row = Slice (whole, one_1d, two_1d, zero_1d)\ny = Squeeze (row, zero_1d)",
            Ramp(0, number(2), Size(1, ("n",), 1)),
        ),
        (
            "sums = CumSum (matrix, one)\nwhole = Concat <axis = -1> (zeros, sums)\ny = Gather <axis = 0> (whole, two)",
            Ramp(0, number(2), Size(1, ("n",), 1)),
        ),
        ("sums = CumSum (matrix, one)\ny = Slice (sums, zero_1d, one_1d, one_1d)", None),
        ("sums = CumSum (matrix, one)\ny = Gather <axis = 1> (sums, one)", None),
    ],
)
def test_offsets_from_lengths(nodes: str, expected: object) -> None:
    constants = {
        "three_rows": np.array([3, -1]),
        "zeros": np.zeros((3, 1), np.int64),
        "ones_column": np.ones((3, 1), np.int64),
        "two_1d": np.array([2]),
    }
    assert rule(LENGTHS + nodes, "y", **constants) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([0, 3, 6, 9]), Ramp(0, number(3), number(4))),
        (np.arange(100) * 7, Ramp(0, number(7), number(100))),
        (np.array([0, 3, 6, 8]), None),
        (np.array([1, 2, 3]), None),
        (np.array([0]), None),
        (np.arange(100) ** 2, None),
        (np.array([0.0, 1.0]), None),
    ],
)
def test_constant_offsets(values: np.ndarray, expected: object) -> None:
    assert Progressions().ramp(gs.Constant("c", values)) == expected


def test_lengths_of_what_is_flat_cut_and_joined() -> None:
    nodes = SHAPE + (
        "y = Reshape (x, minus_one)\nones_y = Mul (y, y)\nlonger = Concat <axis = 0> (flat, one_1d)\n"
        "shorter = Slice (longer, one_1d, end, zero_1d, one_1d)\npart = Slice (flat, zero_1d, one_1d, zero_1d)\n"
        "head = Slice (longer, zero_1d, minus_one, zero_1d)\nmiddle = Slice (longer, one_1d, minus_one, zero_1d)\n"
        "all = Concat <axis = 0> (shorter, part, ones_y, head, middle)\n"
    )
    found, named = Progressions(), tensors(nodes, **CONSTANTS)
    assert found.length(named["y"]) == Size(3, ("n",))
    assert found.length(named["longer"]) == Size(1, ("k",), 1)
    assert found.length(named["shorter"]) == Size(1, ("k",))
    for name in ("part", "head", "middle"):
        length = found.length(named[name])
        assert length is not None
        assert "k" not in length.symbols
    assert found.length(named["x"]) is None


def test_a_dimension_that_nothing_tells_is_a_symbol_of_its_own() -> None:
    nodes = "a = NonZero (x)\nb = NonZero (a)\n"
    found, named = Progressions(), tensors(nodes + "y = Concat <axis = 0> (a, b)", **CONSTANTS)
    assert found.dims(named["a"])[1] != found.dims(named["b"])[1]  # type: ignore[index]


def test_a_tensor_that_depends_on_itself_ends() -> None:
    tensor = gs.Variable("loop", np.dtype(np.int64), [3])
    from dpiframe.graph_passes.graphs import Node

    Node("Identity", inputs=[tensor], outputs=[tensor])
    assert Progressions().rule(tensor) is None


SIZES = st.builds(Size, st.integers(0, 4), st.sampled_from([("n",), ("m",), ("m", "n")]), st.integers(-3, 3)).map(
    lambda s: number(s.add) if s.factor == 0 else s
)


def at(size: Size, n: int, m: int) -> int:
    return size.factor * int(np.prod([{"n": n, "m": m}[s] for s in size.symbols])) + size.add


@settings(max_examples=300, deadline=None)
@given(SIZES, SIZES, st.integers(1, 9), st.integers(1, 9))
def test_arithmetic_on_sizes_holds_for_every_value_of_the_symbols(a: Size, b: Size, n: int, m: int) -> None:
    for result, wanted in ((plus(a, b), at(a, n, m) + at(b, n, m)), (times(a, b), at(a, n, m) * at(b, n, m))):
        assert result is None or at(result, n, m) == wanted
    if at(b, n, m):
        quotient = divided(a, b)
        assert quotient is None or at(quotient, n, m) * at(b, n, m) == at(a, n, m)


def test_a_reshape_is_solved_as_far_as_it_divides() -> None:
    assert product((number(8), N)) == Size(8, ("n",))
    assert solved((Size(8, ("n",)),), (number(8), number(-1))) == (number(8), N)
    assert solved((Size(8, ("n",)),), (number(3), number(-1))) is None
    assert solved((N, M), (number(-1),)) == (Size(1, ("m", "n")),)
    assert solved((N, M), (N, number(-1))) == (N, M)
    assert solved((N,), (number(-1), number(-1))) is None


@pytest.mark.parametrize("n", [1, 4])
def test_ramps_and_fills_are_what_the_runtime_computes(n: int) -> None:
    nodes = LENGTHS + (
        "sums = CumSum (matrix, one)\nwhole = Concat <axis = 1> (zeros, sums)\npicked = Gather <axis = 0> (whole, two)\n"
        "steps = Range (zero, rows, one)\noffsets = Mul (steps, three)\ny = Concat <axis = 0> (picked, offsets)\n"
    )
    constants = {**CONSTANTS, "three_rows": np.array([3, -1]), "zeros": np.zeros((3, 1), np.int64)}
    found, named = Progressions(), tensors(nodes, **constants)
    model = parse(f"(int64[n, 3] x, int64[k] flat) => (int64[p] picked, int64[q] offsets) {{ {nodes} }}", **constants)
    runner = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    answers = runner.run(None, {"x": np.zeros((n, 3), np.int64), "flat": np.zeros(2, np.int64)})
    for name, values in zip(("picked", "offsets"), answers, strict=True):
        ramp = found.ramp(named[name])
        assert ramp is not None
        expected = [at(ramp.step, n, 0) * (ramp.first + i) for i in range(at(ramp.count, n, 0))]
        np.testing.assert_array_equal(values, expected)


def test_listed_shapes() -> None:
    nodes = SHAPE + "tail = Slice (shape, one_1d, end, zero_1d)\ny = Concat <axis = 0> (minus_one, tail, shape)"
    assert rule(nodes, "y") == Listed((number(-1), number(3), N, number(3)))
    assert rule("y = Shape <start = 1> (x)", "y") == Listed((number(3),))
    assert rule("y = Size (x)", "y") == Listed((Size(3, ("n",)),))
