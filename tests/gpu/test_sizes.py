"""Hazard: sizes at which a count of threads, a 32-bit number or the kernel's parameters overflow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.custom_ops import models, reference
from tests.gpu import device
from tests.gpu.device import CudaLookupProgram, whole_session


@pytest.mark.parametrize("batch", [0, 1, 2, 3, 5, 31, 33, 255, 257, 1023, 2048, 4099, 65537])
@pytest.mark.parametrize("dim", [1, 6, 16])
def test_batches(batch: int, dim: int) -> None:
    random = np.random.default_rng(batch)
    tables = [random.standard_normal((500, dim)).astype(np.float32) for _ in range(5)]
    program = "lookup 1\nrows 1\nbad error\nsource 5 row\n" + f"table 500 {dim}\n" * 5 + f"output {5 * dim}\n"
    program += "".join(f"row 0 {dim * i} {dim} {i} 0:{i} 0\n" for i in range(5))
    ids = random.integers(-500, 500, (batch, 5))
    session = whole_session(
        models.lookup_model(program, {"ids": ("int64", ["B", 5])}, {f"t{i}": t for i, t in enumerate(tables)})
    )
    expected = np.concatenate([tables[i][ids[:, i]] for i in range(5)], axis=1)
    np.testing.assert_array_equal(session.run(None, {"ids": ids})[0], expected)


@pytest.mark.parametrize("fields", [1, 2, 39, 300, 383, 384, 1000])
@pytest.mark.parametrize("separate", [False, True])
def test_fields(fields: int, separate: bool) -> None:
    """With 384 inputs and outputs the addresses no longer fit the kernel's parameters."""
    random = np.random.default_rng(fields)
    tables = {f"t{i}": random.standard_normal((20, 1 + i % 9)).astype(np.float32) for i in range(fields)}
    dims = [table.shape[1] for table in tables.values()]
    starts = np.cumsum([0, *dims])
    program = "lookup 1\nrows 1\nbad error\n"
    program += "source 1 row\n" * fields if separate else f"source {fields} row\n"
    program += "".join(f"table 20 {dim}\n" for dim in dims) + f"output {starts[-1]}\n"
    program += "".join(
        f"row 0 {starts[i]} {dims[i]} {i} {f'{i}:0' if separate else f'0:{i}'} 0\n" for i in range(fields)
    )
    ids = random.integers(0, 20, (77, fields))
    names = [f"i{i}" for i in range(fields)]
    sources = {name: ("int64", ["B"]) for name in names} if separate else {"ids": ("int64", ["B", fields])}
    session = whole_session(models.lookup_model(program, sources, tables))
    feeds = {name: ids[:, i].copy() for i, name in enumerate(names)} if separate else {"ids": ids}
    expected = np.concatenate([table[ids[:, i]] for i, table in enumerate(tables.values())], axis=1)
    for _ in range(3):
        np.testing.assert_array_equal(session.run(None, feeds)[0], expected)


def test_more_segments_than_a_launch_takes() -> None:
    random = np.random.default_rng(0)
    dims = [1, 2, 4, 8] * 6
    program = "lookup 1\nrows 1\nbad error\nsource 1 row\n" + "".join(f"table 9 {dim}\n" for dim in dims)
    program += "".join(f"output {2 * dim}\n" for dim in dims)
    program += "".join(
        f"row {i} 0 {dim} {i} 0:0 0\npool {i} {dim} {dim} sum 1 0\nterm {i} 0:0 0 one\n" for i, dim in enumerate(dims)
    )
    tables = [random.standard_normal((9, dim)).astype(np.float32) for dim in dims]
    ids = random.integers(0, 9, (50, 1))
    for values, table in zip(CudaLookupProgram(program).run([ids], tables), tables, strict=True):
        np.testing.assert_array_equal(values, np.tile(table[ids[:, 0]], (1, 2)))


@pytest.mark.parametrize("dim", [512, 1000, 4096])
def test_wide_rows(dim: int) -> None:
    random = np.random.default_rng(dim)
    table = random.standard_normal((30, dim)).astype(np.float32)
    program = f"lookup 1\nrows 1\nbad error\nsource 2 row\ntable 30 {dim}\noutput {2 * dim}\n"
    program += f"row 0 0 {dim} 0 0:0 0\npool 0 {dim} {dim} sum 1 0\nterm 0 0:1 0 one\n"
    ids = random.integers(0, 30, (65, 2))
    (values,) = CudaLookupProgram(program).run([ids], [table])
    np.testing.assert_array_equal(values, np.concatenate([table[ids[:, 0]], table[ids[:, 1]]], axis=1))


def test_long_bags() -> None:
    random = np.random.default_rng(1)
    program = "lookup 1\nrows 1\nbad error\nsource * row\ntable 100 4\noutput 5\n"
    program += "pool 0 0 4 mean 1 1e-8\nterm 0 0:* 0 ne 0:* 0\npool 0 4 1 max 1 0\nterm 0 0:* 1 one\n"
    table = random.standard_normal((100, 4)).astype(np.float32)
    ids = random.integers(0, 100, (3, 5000))
    expected = reference.run(program, [ids], [table]).outputs[0]
    assert reference.same_bits(CudaLookupProgram(program).run([ids], [table])[0], expected)


def test_a_table_of_more_than_2_31_elements() -> None:
    """Each call brings the table, 8.6 GB that no model file has to hold."""
    torch = pytest.importorskip("torch")
    if torch.cuda.mem_get_info()[0] < 12 << 30:
        pytest.skip("12 GB of free device memory are needed")
    rows, dim = (1 << 27) + 12, 16
    table = torch.full((rows, dim), -1.0, device="cuda")
    ids = np.array([0, 1, rows - 1, (1 << 27) - 1, 1 << 27, -1, -rows, 1 << 26, rows, -rows - 1], np.int64)
    marks = torch.arange(1, 9, device="cuda", dtype=torch.float32)
    for number, id in enumerate(ids[:8].tolist()):
        table[id] = marks[number] * 100 + torch.arange(dim, device="cuda")
    expected = [table[id].cpu().numpy() for id in ids[:8].tolist()] + [np.zeros(dim, np.float32)] * 2
    program = f"lookup 1\nrows 1\nbad error\nsource 1 row\ntable {rows} {dim}\noutput {2 * dim}\n"
    program += f"row 0 0 {dim} 0 0:0 0\npool 0 {dim} {dim} sum 1 0\nterm 0 0:0 0 one\n"
    model = models.model_of(
        [models.lookup_node(program, ["ids", "table"], ["y"])],
        [models.value("ids", "int64", ["B"]), models.value("table", "float32", [rows, dim])],
        [models.value("y", "float32", None)],
        {},
    )
    session = device.whole_session(model)
    binding = session.io_binding()
    torch.cuda.synchronize()
    binding.bind_cpu_input("ids", ids)
    binding.bind_input("table", "cuda", 0, np.float32, [rows, dim], table.data_ptr())
    binding.bind_output("y", "cuda")
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], np.tile(np.stack(expected), (1, 2)))
