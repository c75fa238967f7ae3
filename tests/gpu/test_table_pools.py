"""Pools of a few elements over rows of many tables, as a wide part sums them: bit for bit what the reference gives."""

from __future__ import annotations

import numpy as np
import pytest

from tests.custom_ops import models, reference
from tests.gpu.device import CANARY, CudaLookupProgram, DeviceArray, kernels, whole_session

ROWS = 20  # of each table


def tables_of(dims: list[int], dtype: str = "float32") -> list[np.ndarray]:
    random = np.random.default_rng(len(dims))
    return [random.standard_normal((ROWS, dim)).astype(dtype) for dim in dims]


def head_of(dims: list[int], sources: str, bad: str = "zero") -> str:
    return f"lookup 1\nrows 1\nbad {bad}\n{sources}\n" + "".join(f"table {ROWS} {dim}\n" for dim in dims)


def pool_over(fields: int, width: int = 1, op: str = "sum 0", place: str = "0 0") -> str:
    rule, x = op.split()
    lines = "".join(f"term {i} 0:{i} 0 one\n" for i in range(fields))
    return f"pool {place} {width} {rule} {fields} {x}\n" + lines


def check(program: str, sources: list[np.ndarray], tables: list[np.ndarray]) -> None:
    """With 4 rows a thread, with as many as suit the size, and with one; then with tables that a call may change."""
    expected = reference.run(program, sources, tables)
    for odd, threads in ((False, 0), (False, 1), (False, 2), (True, 0)):
        lookup = CudaLookupProgram(program, odd)
        for actual, wanted in zip(lookup.run(sources, tables, threads), expected.outputs, strict=True):
            assert reference.same_bits(actual, wanted)
        assert lookup.bad_id_counts == expected.counts


@pytest.mark.parametrize("fields", [2, 3, 5, 31, 32, 33, 39, 64, 128, 255, 256, 257, 600])
@pytest.mark.parametrize("batch", [1, 2, 7, 24, 65])
def test_fields_and_batches(fields: int, batch: int) -> None:
    """More fields than a block has threads are looked up in turns."""
    tables = tables_of([1] * fields)
    program = head_of([1] * fields, f"source {fields} row") + "output 1\n" + pool_over(fields)
    check(program, [np.random.default_rng(batch).integers(0, ROWS, (batch, fields))], tables)


@pytest.mark.parametrize("batch", [0, 1, 1023, 4099, 33_000])
def test_batches_beside_rows(batch: int) -> None:
    dims = [1] * 39 + [16] * 39
    tables = tables_of(dims)
    program = head_of(dims, "source 39 row") + "output 1\noutput 624\n" + pool_over(39)
    program += "".join(f"row 1 {16 * i} 16 {39 + i} 0:{i} 0\n" for i in range(39))
    ids = np.random.default_rng(batch).integers(0, ROWS, (batch, 39))
    total = np.zeros((batch, 1), np.float32)
    for i in range(39):
        total += tables[i][ids[:, i]]
    rows = np.concatenate([tables[39 + i][ids[:, i]] for i in range(39)], axis=1)
    for threads in (0, 1, 2):
        actual = CudaLookupProgram(program).run([ids], tables, threads)
        np.testing.assert_array_equal(actual[0], total)
        np.testing.assert_array_equal(actual[1], rows)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("op", ["sum 0", "mean 0.5", "max 0"])
def test_widths_and_rules(dtype: str, width: int, op: str) -> None:
    """Parts of rows of several dims, joined with a row and copied columns."""
    dims = [width + i % 4 * 4 for i in range(7)]
    tables = tables_of(dims, dtype)
    tables[3][4] = np.nan
    tables[5][6] = -0.0
    program = head_of(dims, "source 7 row\nsource 4 row") + f"output {width + 8}\n"
    program += pool_over(7, width, op, "0 4") + f"copy 0 0 4 1 0\nrow 0 {width + 4} 4 3 0:2 0\n"
    program = program.replace("term 6 0:6 0", f"term 6 0:6 {dims[6] - width}")
    random = np.random.default_rng(width)
    check(program, [random.integers(0, ROWS, (50, 7)), random.standard_normal((50, 4)).astype(dtype)], tables)


@pytest.mark.parametrize("bad", ["error", "zero", "clamp"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_ids_outside_in_any_lane(bad: str, dtype: str) -> None:
    """Ids are also counted from the end. A pool of two elements counts them once."""
    fields = 40
    tables = tables_of([2] * fields)
    program = head_of([2] * fields, f"source {fields} row", bad) + "output 2\n" + pool_over(fields, 2)
    ids = np.random.default_rng(0).integers(-ROWS, ROWS, (90, fields))
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    for row in range(80):
        ids[row, row % fields] = [ROWS, -ROWS - 1, least, most][row % 4]
    check(program, [ids.astype(dtype)], tables)


@pytest.mark.parametrize("layout", ["row", "column", "separate"])
def test_layouts_and_numbers_added(layout: str) -> None:
    """One table that holds all fields', and a table for each."""
    fields = 33
    table = np.random.default_rng(1).standard_normal((ROWS * fields, 3)).astype(np.float32)
    ids = np.random.default_rng(2).integers(-2, ROWS, (70, fields))
    source = "source 1 row\n" * fields if layout == "separate" else f"source {fields} {layout}\n"
    place = (lambda i: f"{i}:0") if layout == "separate" else (lambda i: f"0:{i}")
    program = f"lookup 1\nrows 1\nbad zero\n{source}table {len(table)} 3\noutput 6\n"
    for part in range(2):
        program += f"pool 0 {3 * part} 3 sum {fields} 0\n"
        program += "".join(f"term 0 {place(i)}+{ROWS * i} 0 one\n" for i in range(fields))
    sources = [ids[:, i].copy() for i in range(fields)] if layout == "separate" else [ids]
    check(program, [ids.T.copy()] if layout == "column" else sources, [table])


def test_more_pools_than_a_launch_has_room_for() -> None:
    tables = tables_of([3] * 5)
    program = head_of([3] * 5, "source 5 row") + "output 30\n"
    program += "".join(pool_over(5, 3, "sum 0", f"0 {3 * i}") for i in range(10))
    check(program, [np.random.default_rng(3).integers(0, ROWS, (41, 5))], tables)


def test_beside_pools_of_one_table_and_of_weights() -> None:
    tables = tables_of([1] * 6 + [16])
    program = head_of([1] * 6 + [16], "source 6 row\nsource 9 row") + "output 1\noutput {}\n" + pool_over(6)
    program += "pool 1 0 16 sum 9 0\n" + "".join(f"term 6 1:{i} 0 one\n" for i in range(9))
    random = np.random.default_rng(4)
    sources = [random.integers(-25, 25, (60, 6)), random.integers(0, ROWS, (60, 9))]
    check(program.format(16), sources, tables)
    program += "pool 1 16 16 mean 9 0\n" + "".join(f"term 6 1:{i} 0 lt {i} 1:0\n" for i in range(9))
    check(program.format(32), sources, tables)


def test_more_addresses_than_parameters_hold() -> None:
    fields = 400
    tables = tables_of([4] * fields)
    program = head_of([4] * fields, "source 1 row\n" * (fields - 1) + "source 1 row") + "output 4\n"
    program += f"pool 0 0 4 sum {fields} 0\n" + "".join(f"term {i} {i}:0 0 one\n" for i in range(fields))
    ids = np.random.default_rng(5).integers(-21, 21, (9, fields))
    check(program, [ids[:, i].copy() for i in range(fields)], tables)


@pytest.mark.parametrize("of_tables", [False, True])
def test_addresses_that_suit_single_elements_only(of_tables: bool) -> None:
    dims = [4] * 9
    tables = tables_of(dims)
    program = head_of(dims, "source 9 row") + "output 4\n" + pool_over(9, 4)
    ids = np.random.default_rng(6).integers(-25, 25, (77, 9))
    expected = reference.run(program, [ids], tables)
    on_device = [DeviceArray(table, 4 if of_tables else 0) for table in tables]
    addresses = [table.address for table in on_device]
    source = DeviceArray(ids)
    output = DeviceArray(np.full((77, 16), CANARY, np.uint8).view(np.float32), 0 if of_tables else 4)
    lookup = kernels().CudaLookup(program, ["int64"], "float32", addresses)
    lookup.launch(77, [source.address], [9], addresses, [output.address], stream=0)
    assert reference.same_bits(output.read(), expected.outputs[0])
    assert lookup.bad_id_counts == expected.counts


def test_a_session() -> None:
    tables = tables_of([1] * 39)
    program = head_of([1] * 39, "source 39 row") + "output 1\n" + pool_over(39)
    names = {f"t{i}": table for i, table in enumerate(tables)}
    session = whole_session(models.lookup_model(program, {"ids": ("int64", ["B", 39])}, names))
    for batch in (0, 3, 2048):
        ids = np.random.default_rng(batch).integers(-ROWS, ROWS, (batch, 39))
        total = np.zeros((batch, 1), np.float32)
        for i, table in enumerate(tables):
            total += table[ids[:, i]]
        np.testing.assert_array_equal(session.run(None, {"ids": ids})[0], total)
