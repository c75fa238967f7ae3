"""Hazard: a rule of symbolic arithmetic says something that does not hold for every id."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs
import pytest

from dpiframe.graph_passes.graphs import Node
from dpiframe.graph_passes.lookups import arithmetic
from dpiframe.graph_passes.lookups.arithmetic import MAX_ADDED_TERMS, combine, convert, matmul, reduce, reduction_axes
from dpiframe.graph_passes.lookups.program import STAR
from dpiframe.graph_passes.lookups.symbols import (
    Atoms,
    Column,
    Complement,
    Id,
    Mask,
    Number,
    Penalized,
    Pooled,
    TableRow,
    Value,
    WeightSum,
    source_value,
)
from dpiframe.graph_passes.lookups.symbols import (
    Test as Comparison,
)

A, B = TableRow(0, Id(0, 0), 4), TableRow(0, Id(0, 1), 4)
M, N = Mask(Comparison("ne", Id(0, 0), 0)), Mask(Comparison("ne", Id(0, 1), 0))


def id_value(expr: Id, column: int) -> int:
    value = abs(column) // expr.div * (1 if column >= 0 else -1)
    value = value % expr.mod if expr.mod else value
    return value * expr.mul + expr.add


def holds(test: Comparison, column: int) -> bool:
    value = id_value(test.id, column)
    return {
        "ne": value != test.number,
        "eq": value == test.number,
        "lt": test.number < value,
        "ge": test.number >= value,
    }[test.kind]


NUMPY = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: int(a / b),
    "remainder": lambda a, b: a % b,
    "equal": lambda a, b: a == b,
    "less": lambda a, b: a < b,
    "less_or_equal": lambda a, b: a <= b,
}
EXPRS = [
    Id(0, 0),
    Id(0, 0, div=3),
    Id(0, 0, mod=5),
    Id(0, 0, mul=4),
    Id(0, 0, add=-2),
    Id(0, 0, 3, 5, 4, -2),
    Id(0, 0, 2, 0, 3, 1),
]


@pytest.mark.parametrize("name", NUMPY)
def test_what_a_rule_says_of_an_id_and_a_number_holds(name: str) -> None:
    rule = getattr(arithmetic, name)
    said = 0
    for expr, number, flip in itertools.product(EXPRS, (-7, -1, 0, 1, 2, 6), (False, True)):
        atom = rule(Number(number), expr) if flip else rule(expr, Number(number))
        if atom is None:
            continue
        said += 1
        for column in range(-20, 21):
            have = id_value(expr, column)
            want = NUMPY[name](number, have) if flip else NUMPY[name](have, number)
            got = holds(atom, column) if isinstance(atom, Comparison) else id_value(atom, column)
            assert got == want, (expr, number, flip, atom, column)
    assert said


@pytest.mark.parametrize("rule", [*list(arithmetic.PAIRS.values()), arithmetic.add, arithmetic.subtract])
def test_rules_keep_to_what_64_bits_hold(rule: Any) -> None:
    edges = [2**62, -(2**62), 2**63 - 1, -(2**63), 2**61]
    exprs = [Id(0, 0, add=e) for e in edges if abs(e) < 2**62] + [Id(0, 0, mul=2**61), Id(0, 0)]
    for expr, number in itertools.product(exprs, edges):
        for atom in (rule(expr, Number(number)), rule(Number(number), expr)):
            if isinstance(atom, Id):
                assert all(-(2**63) <= v < 2**63 for v in (atom.div, atom.mod, atom.mul, atom.add))
            if isinstance(atom, Comparison):
                assert -(2**63) <= atom.number < 2**63


def test_greater_is_less_turned_round() -> None:
    assert arithmetic.PAIRS["Greater"](Id(0, 0), Number(3)) == Comparison("lt", Id(0, 0), 3)
    assert arithmetic.PAIRS["GreaterOrEqual"](Id(0, 0), Number(3)) == Comparison("lt", Id(0, 0), 2)
    assert arithmetic.PAIRS["GreaterOrEqual"](Id(0, 0), Number(0)) == Comparison("lt", Id(0, 0), -1)
    assert arithmetic.PAIRS["Less"](Id(0, 0), Number(3)) == Comparison("ge", Id(0, 0), 2)
    assert arithmetic.PAIRS["LessOrEqual"](Number(3), Id(0, 0)) == Comparison("lt", Id(0, 0), 2)


@pytest.mark.parametrize(
    ("rule", "a", "b", "want"),
    [
        ("multiply", A, M, Pooled("sum", ((A, M),))),
        ("multiply", M, A, Pooled("sum", ((A, M),))),
        ("multiply", A, Column(1, 0), Pooled("sum", ((A, Column(1, 0)),))),
        ("multiply", A, Number(1.0), A),
        ("multiply", A, Number(2.0), None),
        ("multiply", A, B, None),
        ("multiply", Pooled("sum", ((A, None),)), M, None),
        ("add", A, B, Pooled("sum", ((A, None), (B, None)))),
        ("add", A, A, None),
        ("add", A, Number(1.0), None),
        ("add", Pooled("mean", ((A, None),)), B, None),
        ("add", Pooled("sum", ((A, M),)), B, Pooled("sum", ((A, M), (B, None)))),
        ("add", Id(0, 0), Id(0, 1), None),
        ("subtract", A, B, None),
        ("subtract", Number(1.0), M, Complement(M, 1.0)),
        ("subtract", Number(1), M, Complement(M, 1.0)),
        ("subtract", Number(2.0), M, None),
        ("subtract", M, Number(1.0), None),
        ("multiply", Complement(M, 1.0), Number(1e9), Complement(M, float(np.float32(1e9)))),
        ("subtract", A, Complement(M, 3.0), Penalized(A, M, 3.0)),
        ("add", A, Complement(M, -3.0), Penalized(A, M, 3.0)),
        ("add", Complement(M, -3.0), A, Penalized(A, M, 3.0)),
        ("subtract", Complement(M, 3.0), A, None),
        ("divide", Pooled("sum", ((A, M), (B, N))), WeightSum((M, N), 0.5), Pooled("mean", ((A, M), (B, N)), 0.5)),
        ("divide", Pooled("sum", ((A, M), (B, N))), WeightSum((N, M), 0.0), None),
        ("divide", Pooled("sum", ((A, M), (B, N))), WeightSum((M,), 0.0), None),
        ("divide", Pooled("sum", ((A, None), (B, None))), Number(2.0), Pooled("mean", ((A, None), (B, None)))),
        ("divide", Pooled("sum", ((A, None), (B, None))), Number(3.0), None),
        ("divide", Pooled("sum", ((A, M), (B, None))), Number(2.0), None),
        ("divide", Pooled("max", ((A, None), (B, None))), Number(2.0), None),
        ("add", WeightSum((M,), 0.0), Number(1e-8), WeightSum((M,), float(np.float32(1e-8)))),
        ("add", WeightSum((M,), 0.5), Number(1e-8), None),
        ("equal", Column(0, 0), Number(0), None),
        ("less", Column(0, 0), Number(0), None),
        ("equal", Id(0, 0), Number(1.5), None),
        ("divide", Column(0, 0), Number(2), None),
        ("remainder", Id(0, 0), Number(-5), None),
        ("remainder", Id(0, 0), Number(0), None),
        ("divide", Id(0, 0), Number(0), None),
        ("divide", Id(0, 0), Number(-3), None),
        ("multiply", Id(0, 0), Number(-2), None),
        ("multiply", Id(0, 0), Number(0), None),
    ],
)
def test_rules(rule: str, a: Any, b: Any, want: Any) -> None:
    assert getattr(arithmetic, rule)(a, b) == want


def test_casts() -> None:
    assert arithmetic.to_int(Column(0, 1)) == Id(0, 1)
    assert arithmetic.to_int(Id(0, 1, add=3)) == Id(0, 1, add=3)
    assert arithmetic.to_int(Number(2.9)) == Number(2)
    assert arithmetic.to_int(Number(-2.9)) == Number(-2)
    assert arithmetic.to_int(Number(float("nan"))) is None
    assert arithmetic.to_int(Number(float("inf"))) is None
    assert arithmetic.to_int(Comparison("ne", Id(0, 0), 0)) is None
    assert arithmetic.to_int(A) is None
    assert arithmetic.to_float(Comparison("ne", Id(0, 0), 0)) == M
    assert arithmetic.to_float(Comparison("eq", Id(0, 0), 0)) is None
    assert arithmetic.to_float(Comparison("ge", Id(0, 0), 0)) is None
    assert arithmetic.to_float(Number(3)) == Number(3.0)
    assert arithmetic.to_float(Id(0, 0)) is None
    assert arithmetic.to_float(A) is None


def test_sums_means_and_maxima() -> None:
    assert arithmetic.total([A, B]) == Pooled("sum", ((A, None), (B, None)))
    assert arithmetic.total([A]) == A
    assert arithmetic.total([A, A]) is None
    assert arithmetic.total([M, N]) == WeightSum((M, N), 0.0)
    assert arithmetic.total([M, A]) is None
    assert arithmetic.total([Number(1.0), A]) is None
    star = TableRow(0, Id(0, STAR), 4)
    assert arithmetic.total([star]) == Pooled("sum", ((star, None),))
    assert arithmetic.average([A, B]) == Pooled("mean", ((A, None), (B, None)))
    assert arithmetic.average([A, Pooled("sum", ((B, M),))]) is None
    assert arithmetic.largest([A, Penalized(B, M, 9.0)]) == Pooled("max", ((A, None), (B, M)), 9.0)
    assert arithmetic.largest([Penalized(A, N, 8.0), Penalized(B, M, 9.0)]) is None
    assert arithmetic.largest([Pooled("sum", ((A, M),))]) is None


def test_a_chain_of_adds_ends() -> None:
    total: Any = TableRow(0, Id(0, 0), 4)
    for k in range(1, MAX_ADDED_TERMS):
        total = arithmetic.add(total, TableRow(0, Id(0, k), 4))
    assert len(total.terms) == MAX_ADDED_TERMS
    assert arithmetic.add(total, TableRow(0, Id(0, MAX_ADDED_TERMS), 4)) is None


def value(codes: Any, axes: tuple[int, ...] = (0,), dims: tuple = ("b",)) -> Value:
    return Value(np.array(codes, np.int64), axes, dims)


class TestCombine:
    """combine applies a rule under broadcasting."""

    def setup_method(self) -> None:
        self.atoms = Atoms()

    def ids(self, *shape: int, axes: tuple[int, ...] = (0,), dims: tuple = ("b",)) -> Value:
        codes = [self.atoms.code(Id(0, k)) for k in range(int(np.prod(shape)))]
        return value(np.array(codes).reshape(shape), axes, dims)

    def numbers(self, values: Any) -> Value:
        array = np.array(values)
        return value(
            np.array([self.atoms.code(Number(v)) for v in array.ravel().tolist()]).reshape(array.shape), (), ()
        )

    def atoms_of(self, result: Value | None) -> list:
        assert result is not None
        return [self.atoms.of_code(c) for c in result.codes.ravel()]

    def test_a_row_of_offsets(self) -> None:
        result = combine(arithmetic.add, self.ids(1, 3), self.numbers([[0, 10, 20]]), self.atoms)
        assert self.atoms_of(result) == [Id(0, 0), Id(0, 1, add=10), Id(0, 2, add=20)]
        assert result is not None
        assert (result.axes, result.dims) == ((0,), ("b",))

    def test_ranks_are_aligned_at_the_end(self) -> None:
        result = combine(arithmetic.add, self.numbers([[[5]]]), self.ids(1, 2), self.atoms)
        assert result is not None
        assert (result.codes.shape, result.axes) == ((1, 1, 2), (1,))

    def test_batches_that_lie_on_other_axes_do_not_meet(self) -> None:
        a, b = self.ids(1, 1), self.ids(1)
        assert combine(arithmetic.add, a, b, self.atoms) is None

    def test_batches_of_other_sizes_do_not_meet(self) -> None:
        codes = np.array([[self.atoms.code(A)]])
        other = np.array([[self.atoms.code(Column(1, 0))]])
        assert combine(arithmetic.multiply, value(codes), value(other, dims=("n",)), self.atoms) is None
        assert combine(arithmetic.multiply, value(codes), value(other), self.atoms) is not None

    def test_a_constant_that_would_stretch_the_batch(self) -> None:
        assert combine(arithmetic.add, self.ids(1, 2), self.numbers([[1], [2]]), self.atoms) is None

    def test_shapes_that_do_not_fit(self) -> None:
        assert combine(arithmetic.add, self.ids(1, 2), self.numbers([1, 2, 3]), self.atoms) is None

    def test_rows_keep_their_positions(self) -> None:
        row = self.atoms.code(A)
        weight = self.atoms.code(M)
        result = combine(arithmetic.multiply, value([[row, row + 1, row + 2]]), value([[weight]]), self.atoms)
        assert result is not None
        assert (result.codes & 1023).tolist() == [[0, 1, 2]]

    def test_rows_must_meet_at_the_same_positions(self) -> None:
        a, b = self.atoms.code(A), self.atoms.code(B)
        assert combine(arithmetic.add, value([[a, a + 1]]), value([[b + 1, b]]), self.atoms) is None
        assert combine(arithmetic.add, value([[a, a + 1]]), value([[b, b + 1]]), self.atoms) is not None

    def test_many_atoms(self) -> None:
        result = combine(arithmetic.add, self.ids(1, 500), self.numbers([list(range(500))]), self.atoms)
        assert self.atoms_of(result) == [Id(0, k, add=k) for k in range(500)]


def test_convert_keeps_positions_and_shape() -> None:
    atoms = Atoms()
    column = atoms.code(Column(0, 1))
    result = convert(arithmetic.to_int, value([[column], [column]]), atoms)
    assert result is not None
    assert [atoms.of_code(c) for c in result.codes.ravel()] == [Id(0, 1), Id(0, 1)]
    assert convert(arithmetic.to_int, value([[atoms.code(A)]]), atoms) is None


def test_reduce() -> None:
    atoms = Atoms()
    a, b = atoms.code(A), atoms.code(B)
    both = value([[[a, a + 1], [b, b + 1]]])
    for keep, shape in ((True, (1, 1, 2)), (False, (1, 2))):
        result = reduce(arithmetic.total, both, (1,), keep, atoms)
        assert result is not None
        assert (result.codes.shape, result.axes) == (shape, (0,))
        assert {atoms.of_code(c) for c in result.codes.ravel()} == {Pooled("sum", ((A, None), (B, None)))}
        assert (result.codes & 1023).ravel().tolist() == [0, 1]
    # along a row, elements of different positions would meet
    assert reduce(arithmetic.total, both, (2,), True, atoms) is None
    assert reduce(arithmetic.total, both, (0,), True, atoms) is None
    assert reduce(arithmetic.total, both, (), True, atoms) is None


def test_reduce_over_a_dynamic_length() -> None:
    atoms = Atoms()
    ids = gs.Variable("ids", np.dtype(np.int64), ["b", "l"])
    source_value(ids, atoms)
    row = TableRow(0, Id(0, 0), 2)
    code = atoms.code(row)
    sequence = value([[[code, code + 1]]], (0, 1), ("b", "l"))
    result = reduce(arithmetic.total, sequence, (1,), False, atoms)
    assert result is not None
    assert (result.axes, result.dims, result.codes.shape) == ((0,), ("b",), (1, 2))
    assert atoms.of_code(result.codes[0, 0]) == Pooled("sum", ((TableRow(0, Id(0, STAR), 2), None),))
    assert reduce(arithmetic.total, sequence, (0,), False, atoms) is None
    assert reduce(arithmetic.total, sequence, (0, 1), False, atoms) is None


def test_matmul_pools_rows() -> None:
    atoms = Atoms()
    a, b = atoms.code(A), atoms.code(B)
    weights = value([[[atoms.code(Column(1, 0)), atoms.code(Column(1, 1))]]])
    rows = value([[[a, a + 1], [b, b + 1]]])
    result = matmul(weights, rows, atoms)
    assert result is not None
    assert result.codes.shape == (1, 1, 2)
    assert atoms.of_code(result.codes[0, 0, 0]) == Pooled("sum", ((A, Column(1, 0)), (B, Column(1, 1))))
    assert matmul(rows, weights, atoms) is None
    assert matmul(weights, value([[[a, a + 1]]]), atoms) is None
    assert matmul(value([[atoms.code(M)]]), value([[a]]), atoms) is None
    assert matmul(weights, value([[[a, a + 1], [b, b + 1]]], dims=("n",)), atoms) is None


@pytest.mark.parametrize(
    ("attrs", "operand", "rank", "want"),
    [
        ({"axes": [-1]}, None, 3, (2,)),
        ({}, np.array([1, -1]), 3, (1, 2)),
        ({}, None, 3, ()),
        ({}, np.array([0, 0]), 2, (0,)),
    ],
)
def test_reduction_axes(attrs: dict, operand: np.ndarray | None, rank: int, want: tuple[int, ...]) -> None:
    assert reduction_axes(Node("ReduceSum", attrs=attrs), operand, rank) == want
