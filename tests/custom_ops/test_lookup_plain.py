"""Hazard: a copied row that is off by a row, an element or a bit, at any width, type of id and layout."""

from __future__ import annotations

import numpy as np
import pytest

from dpiframe.custom_ops._kernels import LookupProgram
from tests.custom_ops import reference

WIDTHS = [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 128, 200, 256, 300, 1000]


def check(program: str, sources: list[np.ndarray], tables: list[np.ndarray]) -> list[np.ndarray]:
    expected = reference.run(program, sources, tables).outputs
    for baseline in (False, True):
        actual = LookupProgram(program, baseline).run(sources, tables)
        assert [array.dtype for array in actual] == [array.dtype for array in expected]
        for one, other in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(one.view(np.uint8), other.view(np.uint8))
    return expected


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_any_width_in_a_row_of_several_tables(width: int, dtype: str) -> None:
    random = np.random.default_rng(width)
    tables = [random.standard_normal((rows, width)).astype(dtype) for rows in (3, 50, 7)]
    ids = random.integers(0, [3, 50, 7], (37, 3))
    program = (
        f"lookup 1\nrows 1\nbad error\nsource 3 row\ntable 3 {width}\ntable 50 {width}\ntable 7 {width}\n"
        f"output 3 {width}\nrow 0 0 {width} 0 0:0 0\nrow 0 {width} {width} 1 0:1 0\nrow 0 {2 * width} {width} 2 0:2 0\n"
    )
    (joined,) = check(program, [ids], tables)
    assert joined.shape == (37, 3, width)


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 100, 1025])
def test_any_number_of_rows(rows: int) -> None:
    random = np.random.default_rng(rows)
    tables = [random.standard_normal((100, 16)).astype(np.float32) for _ in range(5)]
    blocks = "".join(f"row 0 {16 * i} 16 {i} 0:{i} 0\n" for i in range(5))
    program = "lookup 1\nrows 1\nbad error\nsource 5 row\n" + "table 100 16\n" * 5 + "output 80\n" + blocks
    check(program, [random.integers(-100, 100, (rows, 5))], tables)


def test_mixed_widths_shared_tables_parts_of_rows_and_outputs() -> None:
    random = np.random.default_rng(0)
    tables = [random.standard_normal((40, 24)).astype(np.float32), random.standard_normal((9, 5)).astype(np.float32)]
    program = (
        "lookup 1\nrows 1\nbad error\nsource 2 row\nsource 1 row\ntable 40 24\ntable 9 5\noutput 34\noutput 2 4\n"
        "row 1 4 4 0 0:0 20\nrow 0 29 5 1 1:0 0\nrow 0 0 24 0 0:0 0\nrow 1 0 4 0 0:1 3\nrow 0 24 5 1 0:1+-1 0\n"
    )
    ids = random.integers(1, 9, (21, 2)).astype(np.int32)
    check(program, [ids, random.integers(0, 9, (21,))], tables)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("layout", ["row", "column"])
def test_every_type_of_id_and_layout(dtype: str, layout: str) -> None:
    random = np.random.default_rng(1)
    table = random.standard_normal((100, 8)).astype(np.float32)
    ids = random.integers(0, 100, (4, 50) if layout == "column" else (50, 4)).astype(dtype)
    if dtype.startswith("float"):
        ids += random.random(ids.shape).astype(dtype) * dtype_fraction(dtype)
    blocks = "".join(f"row 0 {8 * i} 8 0 0:{i} 0\n" for i in range(4))
    check(f"lookup 1\nrows 1\nbad error\nsource 4 {layout}\ntable 100 8\noutput 32\n{blocks}", [ids], [table])


def dtype_fraction(dtype: str) -> np.floating:
    """A fraction that truncation drops."""
    return np.dtype(dtype).type(0.99)


@pytest.mark.parametrize(
    "steps", ["/7", "/-7", "%13", "%-13", "*3", "+5", "+-5", "/3%5", "/2*2+1", "%8*4", "/5%7*3+-10", "/-1", "%-1"]
)
def test_arithmetic_on_ids(steps: str) -> None:
    random = np.random.default_rng(2)
    table = random.standard_normal((2000, 4)).astype(np.float32)
    ids = random.integers(-300, 300, (64, 1))
    check(
        f"lookup 1\nrows 1\nbad error\nsource 1 row\ntable 2000 4\noutput 4\nrow 0 0 4 0 0:0{steps} 0\n", [ids], [table]
    )


def test_arithmetic_wraps_at_64_bits() -> None:
    table = np.arange(10, dtype=np.float32).reshape(10, 1)
    ids = np.array([[2**63 - 1], [-(2**63)]])
    program = "lookup 1\nrows 1\nbad error\nsource 1 row\ntable 10 1\noutput 3\n"
    program += f"row 0 0 1 0 0:0*2+3 0\nrow 0 1 1 0 0:0/-1%7 0\nrow 0 2 1 0 0:0%5+{2**63 - 1} 0\n"
    zero = program.replace("bad error", "bad zero")
    (values,) = check(zero, [ids], [table])
    # 2 * (2^63 - 1) + 3 = 1 and 2 * -2^63 + 3 = 3; -2^63 / -1 stays -2^63, whose remainder by 7 is 6.
    np.testing.assert_array_equal(values[:, 0], [1, 3])
    np.testing.assert_array_equal(values[1, 1], -(2**63) % 7)


def test_constant_ids() -> None:
    table = np.arange(12, dtype=np.float32).reshape(6, 2)
    program = (
        "lookup 1\nrows 1\nbad error\nsource 1 row\ntable 6 2\noutput 4\nrow 0 0 2 0 =4 0\nrow 0 2 2 0 =-1*2+1 0\n"
    )
    (values,) = check(program, [np.zeros((3, 1), np.int64)], [table])
    np.testing.assert_array_equal(values, np.tile([8, 9, 10, 11], (3, 1)))


def test_two_row_axes() -> None:
    random = np.random.default_rng(3)
    table = random.standard_normal((30, 6)).astype(np.float32)
    program = "lookup 1\nrows 2\nbad error\nsource 1 row\nsource 2 row\ntable 30 6\noutput 2 6\n"
    program += "row 0 0 6 0 0:0 0\nrow 0 6 6 0 1:1 0\n"
    sources = [random.integers(0, 30, (4, 9)), random.integers(0, 30, (4, 9, 2)).astype(np.int32)]
    (values,) = check(program, sources, [table])
    assert values.shape == (4, 9, 2, 6)


@pytest.mark.parametrize("layout", ["row", "column"])
def test_dense_columns_are_copied(layout: str) -> None:
    random = np.random.default_rng(4)
    table = random.standard_normal((5, 3)).astype(np.float32)
    dense = random.standard_normal((13, 20)).astype(np.float32)
    program = f"lookup 1\nrows 1\nbad error\nsource 1 row\nsource 13 {layout}\ntable 5 3\noutput 15\n"
    program += "row 0 2 3 0 0:0 0\ncopy 0 0 2 1 11\ncopy 0 5 9 1 1\ncopy 0 14 1 1 10\n"
    source = dense if layout == "column" else np.ascontiguousarray(dense.T)
    check(program, [random.integers(0, 5, (20, 1)), source], [table])


def test_bits_of_nan_and_signed_zero_survive() -> None:
    bits = np.array([[0x7FC00001, 0xFFC12345, 0x7F800001, 0x80000000]], np.uint32)
    program = "lookup 1\nrows 1\nbad error\nsource 1 row\nsource 4 row\ntable 1 4\noutput 8\n"
    program += "row 0 0 4 0 0:0 0\ncopy 0 4 4 1 0\n"
    run = LookupProgram(program).run([np.zeros((1, 1), np.int64), bits.view(np.float32)], [bits.view(np.float32)])
    np.testing.assert_array_equal(run[0].view(np.uint32), np.tile(bits, (1, 2)))


def test_many_fields() -> None:
    random = np.random.default_rng(5)
    fields = 1000
    tables = [random.standard_normal((20, 3)).astype(np.float32) for _ in range(fields)]
    blocks = "".join(f"row 0 {3 * i} 3 {i} 0:{i} 0\n" for i in range(fields))
    program = f"lookup 1\nrows 1\nbad error\nsource {fields} row\n" + "table 20 3\n" * fields
    program += f"output {3 * fields}\n{blocks}"
    check(program, [random.integers(0, 20, (17, fields))], tables)


def test_wrong_types_shapes_and_counts_are_refused() -> None:
    program = LookupProgram(
        "lookup 1\nrows 1\nbad zero\nsource 2 row\nsource 1 row\ntable 5 3\noutput 4\n"
        "row 0 0 3 0 0:1 0\ncopy 0 3 1 1 0\n"
    )
    ids, dense, table = np.zeros((6, 2), np.int64), np.zeros((6, 1), np.float32), np.zeros((5, 3), np.float32)
    program.run([ids, dense], [table])
    with pytest.raises(ValueError, match="the program lists 2 sources and 1 tables"):
        program.run([ids], [table])
    with pytest.raises(ValueError, match="is copied, so it must be float32"):
        program.run([ids, dense.astype(np.int64)], [table])
    with pytest.raises(ValueError, match="is float16, but is read as ids"):
        program.run([ids.astype(np.float16), dense], [table])
    with pytest.raises(ValueError, match="source 1 has the wrong number of elements"):
        program.run([ids, dense[:-1].copy()], [table])
    with pytest.raises(ValueError, match="table 0 has another shape"):
        program.run([ids, dense], [np.zeros((3, 5), np.float32)])
    with pytest.raises(ValueError, match="table 0 must be float32 or float16"):
        program.run([ids, dense], [table.astype(np.float64)])
