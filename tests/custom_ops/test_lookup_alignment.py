"""Hazard: tensors that start anywhere: external data may be mapped at any 4-byte offset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import external_data_helper

from dpiframe.custom_ops._kernels import LookupProgram
from tests.custom_ops import models, reference


def at_offset(values: np.ndarray, offset: int) -> np.ndarray:
    """A copy that starts `offset` bytes after a multiple of 64."""
    room = np.zeros(values.nbytes + 128, np.uint8)
    start = -room.ctypes.data % 64 + offset
    result = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    result[...] = values
    assert result.ctypes.data % 64 == offset
    return result


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("dim", [1, 3, 8, 16, 33, 64])
def test_any_offset_of_tables_and_sources(dtype: str, dim: int) -> None:
    random = np.random.default_rng(dim)
    size = np.dtype(dtype).itemsize
    table = random.standard_normal((20, dim)).astype(dtype)
    ids = random.integers(0, 20, (35, 2))
    dense = random.standard_normal((35, 5)).astype(dtype)
    program = (
        f"lookup 1\nrows 1\nbad error\nsource 2 row\nsource 5 row\nsource * row\ntable 20 {dim}\noutput {2 * dim + 5}\n"
        f"row 0 0 {dim} 0 0:1 0\ncopy 0 {dim} 5 1 0\npool 0 {dim + 5} {dim} sum 1 0\nterm 0 2:* 0 one\n"
    )
    expected = reference.run(program, [ids, dense, ids], [table]).outputs[0]
    for offset in (size, 2 * size, 28, 60, 64 - size):
        for baseline in (False, True):
            sources = [at_offset(ids, 8), at_offset(dense, offset), at_offset(ids.astype(np.float64), 40)]
            (values,) = LookupProgram(program, baseline).run(sources, [at_offset(table, offset)])
            assert reference.same_bits(values, expected)


@pytest.mark.parametrize("offset", [4, 12, 4100])
def test_a_table_mapped_from_a_file_at_an_odd_offset(tmp_path: Path, offset: int) -> None:
    table = np.random.default_rng(0).standard_normal((500, 16)).astype(np.float32)
    program = "lookup 1\nrows 1\nbad error\nsource 1 row\ntable 500 16\noutput 16\nrow 0 0 16 0 0:0 0\n"
    model = models.lookup_model(program, {"ids": ("int64", ["B"])}, {"table": table})
    (tmp_path / "tables.bin").write_bytes(b"x" * offset + table.tobytes())
    tensor = model.graph.initializer[0]
    external_data_helper.set_external_data(tensor, "tables.bin", offset, table.nbytes)
    tensor.ClearField("raw_data")
    onnx.save(model, tmp_path / "model.onnx")
    session = ort.InferenceSession(tmp_path / "model.onnx", models.options(), providers=["CPUExecutionProvider"])
    ids = np.array([0, 499, -1, 250])
    np.testing.assert_array_equal(session.run(None, {"ids": ids})[0], table[ids])
