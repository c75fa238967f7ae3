"""Hazard: two different things have one code, or a tensor's rows are taken for its columns."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs
import pytest

from dpiframe.graph_passes.lookups.symbols import (
    MAX_ELEMENTS,
    POSITION_BITS,
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
    constant_value,
    source_value,
)
from dpiframe.graph_passes.lookups.symbols import (
    Test as Comparison,
)


def tensor(shape: list | None, dtype: object = np.int64, kind: str = "tensor_type") -> gs.Variable:
    return gs.Variable("t", None if dtype is None else np.dtype(dtype), shape, kind)  # type: ignore[call-overload]


def test_each_atom_has_one_code_and_each_code_one_atom() -> None:
    atoms = Atoms()
    made = [
        Id(0, 0),
        Id(0, 1),
        Column(0, 0),
        Number(1),
        Number(1.0),
        Number(True),
        Number(0),
        Number(0.0),
        Id(0, 0, add=1),
    ]
    codes = [atoms.code(atom) for atom in made]
    assert len(set(codes)) == len(made)
    assert [atoms.code(atom) for atom in made] == codes
    assert [atoms.of_code(code) for code in codes] == made
    assert [type(atoms.of_code(c).value) for c in codes[3:6]] == [int, float, bool]  # type: ignore[union-attr]
    assert len(atoms) == len(made)


def test_a_code_holds_a_position() -> None:
    atoms = Atoms()
    code = atoms.code(Id(0, 0))
    assert atoms.of_code(code + 5) == Id(0, 0)
    assert code & ((1 << POSITION_BITS) - 1) == 0
    assert MAX_ELEMENTS <= 1 << POSITION_BITS


def test_tensors_are_numbered_by_identity() -> None:
    atoms = Atoms()
    a, b = tensor(["b"]), tensor(["b"])
    assert [atoms.source(t) for t in (a, b, a)] == [0, 1, 0]
    assert [atoms.table(t) for t in (tensor([2, 2]), tensor([2, 2]))] == [0, 1]


@pytest.mark.parametrize(
    ("shape", "axes", "sizes"),
    [
        (["b"], (0,), (1,)),
        (["b", 3], (0,), (1, 3)),
        (["b", 3, 2], (0,), (1, 3, 2)),
        ([3, "b"], (1,), (3, 1)),
        (["b", "l"], (0, 1), (1, 1)),
        (["b", "l", 4], (0, 1), (1, 1, 4)),
        ([5], (0,), (1,)),
        ([5, 3], (0,), (1, 3)),
        ([1, 3], (0,), (1, 3)),
    ],
)
def test_rows_and_columns(shape: list, axes: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    atoms = Atoms()
    value = source_value(tensor(shape), atoms)
    assert value is not None
    assert (value.axes, value.codes.shape) == (axes, sizes)
    assert value.shape == shape
    assert [atoms.of_code(c) for c in value.codes.ravel()] == [Id(0, k) for k in range(value.codes.size)]


@pytest.mark.parametrize(
    "shape",
    [
        None,
        [],
        ["b", "l", "m"],
        [3, "b", 2],
        [3, 2, "b"],
        ["b", 2, "l"],
        ["b", 0],
        [2, "b", "l"],
        ["b", MAX_ELEMENTS + 1],
    ],
)
def test_shapes_that_do_not_tell_rows_from_columns(shape: list | None) -> None:
    assert source_value(tensor(shape), Atoms()) is None


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers_are_ids(dtype: type) -> None:
    atoms = Atoms()
    value = source_value(tensor(["b"], dtype), atoms)
    assert value is not None
    assert atoms.kinds(value) == {Id}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_are_columns(dtype: type) -> None:
    atoms = Atoms()
    value = source_value(tensor(["b"], dtype), atoms)
    assert value is not None
    assert atoms.kinds(value) == {Column}


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint64, bool, object, None])
def test_other_types_are_nothing(dtype: object) -> None:
    assert source_value(tensor(["b"], dtype), Atoms()) is None


def test_types_without_numpy_type_and_sequences_are_nothing() -> None:
    odd = gs.Variable("t", 16, ["b"])
    assert source_value(odd, Atoms()) is None
    assert source_value(tensor(["b"], np.float32, "sequence_type"), Atoms()) is None


def test_unnamed_sizes_are_equal_to_themselves_only() -> None:
    atoms = Atoms()
    a, b = gs.Variable("a", np.dtype(np.int64), [None]), gs.Variable("b", np.dtype(np.int64), [None])
    first, again, other = source_value(a, atoms), source_value(a, atoms), source_value(b, atoms)
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.dims == again.dims != other.dims


def test_constants() -> None:
    atoms = Atoms()
    value = constant_value(np.array([[1, 2], [2, 1]]), atoms)
    assert value is not None
    assert (value.axes, value.dims, value.shape) == ((), (), [2, 2])
    assert [atoms.of_code(c) for c in value.codes.ravel()] == [Number(1), Number(2), Number(2), Number(1)]
    assert constant_value(np.array(["a"]), atoms) is None
    assert constant_value(np.array([1j]), atoms) is None
    flags = constant_value(np.array([True]), atoms)
    assert flags is not None
    assert atoms.of_code(flags.codes[0]) == Number(True)


def test_the_atoms_of_a_value() -> None:
    atoms = Atoms()
    first, second = atoms.code(Id(0, 0)), atoms.code(Id(0, 1))
    value = Value(np.array([[second, second + 1, first]]), (0,), ("b",))
    assert value.atoms == [first >> POSITION_BITS, second >> POSITION_BITS]


def test_the_sources_of_every_kind_of_atom() -> None:
    atoms = Atoms()
    row = TableRow(0, Id(3, 0), 4)
    mask = Mask(Comparison("ne", Id(5, 0), 0))
    wanted = {
        Number(1): set(),
        Column(2, 1): {2},
        Id(3, 0): {3},
        Comparison("lt", Id(4, 0), 2): {4},
        mask: {5},
        Complement(mask, 2.0): {5},
        Complement(Column(6, 0), 2.0): {6},
        WeightSum((mask, Column(7, 0)), 0.0): {5, 7},
        row: {3},
        Pooled("sum", ((row, None), (TableRow(1, Id(8, 0), 4), mask))): {3, 5, 8},
        Penalized(row, Column(9, 0), 1.0): {3, 9},
    }
    for atom, sources in wanted.items():
        value = Value(np.array([atoms.code(atom)]), (0,), ("b",))  # type: ignore[arg-type]
        assert atoms.sources_of(value) == sources, atom


def test_a_test_negated_twice() -> None:
    for kind in ("ne", "eq", "lt", "ge"):
        test = Comparison(kind, Id(0, 0), 3)
        assert test.negated().negated() == test
        assert test.negated() != test
