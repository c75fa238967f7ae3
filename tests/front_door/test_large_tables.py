"""Hazard: memory and time that grow with the tables, which may take more than a machine has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from dpiframe.input_specs import InputSpec
from dpiframe.inputs import BATCHES, CaseMaker

FIELDS = 39
DIM = 16
ROWS = 20 * 10**9 // (FIELDS * DIM * 4)

OPTIMIZE = """
import re, resource, sys
import dpiframe
result = dpiframe.optimize(sys.argv[1], provider="cpu")
cases = [case.name for case in result.verification.cases if case.skipped is None]
bytes_read = int(open("/proc/self/io").read().split()[1])
peak = re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]  # ru_maxrss has the parent's, too
print(result.lookups_fused, len(cases), bytes_read, peak, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def sparse_model(folder: Path) -> Path:
    """Lookups in tables of 20 GB in total, all zeros, in a file that takes no space: joined, and one layer."""
    size = ROWS * DIM * 4
    with (folder / "tables.bin").open("wb") as file:
        file.truncate(size * FIELDS)
    fields = range(FIELDS)
    graph = helper.make_graph(
        [
            *(helper.make_node("Gather", [f"table_{k}", f"id_{k}"], [f"row_{k}"]) for k in fields),
            helper.make_node("Concat", [f"row_{k}" for k in fields], ["joined"], axis=1),
            helper.make_node("Sigmoid", ["joined"], ["y"]),
        ],
        "large",
        [helper.make_tensor_value_info(f"id_{k}", TensorProto.INT64, ["batch"]) for k in fields],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", FIELDS * DIM])],
    )
    for k in fields:
        table = graph.initializer.add(
            name=f"table_{k}", data_type=TensorProto.FLOAT, dims=[ROWS, DIM], data_location=TensorProto.EXTERNAL
        )
        for key, value in (("location", "tables.bin"), ("offset", str(k * size)), ("length", str(size))):
            table.external_data.add(key=key, value=value)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), folder / "m.onnx")
    return folder / "m.onnx"


def test_twenty_gigabytes_of_tables_take_less_than_one_of_memory(tmp_path: Path) -> None:
    path = sparse_model(tmp_path)
    assert (tmp_path / "tables.bin").stat().st_size > 19.9e9
    done = subprocess.run(
        [sys.executable, "-c", OPTIMIZE, str(path)], capture_output=True, text=True, check=True, timeout=300
    )
    fused, cases, bytes_read, peak, peak_of_child = map(int, done.stdout.split())
    assert fused == FIELDS
    assert cases >= 8
    assert bytes_read < 100e6
    assert (peak + peak_of_child) * 1024 < 0.5e9
    assert (tmp_path / "m.opt.onnx").stat().st_size < 1e6


def test_ids_of_a_large_table_lie_in_few_places() -> None:
    rows = 10**9
    maker = CaseMaker([InputSpec("ids", np.dtype(np.int64), ("batch", 1))], {"ids": [range(rows)]})
    ids = np.concatenate([*(case.feeds["ids"] for case in maker.cases()), maker.random(1000)["ids"]]) % rows
    places = np.unique(ids // 1000)
    assert 8 <= len(places) < 30
    assert ids.min() == 0
    assert ids.max() == rows - 1
    assert len(np.unique(ids)) > 300


def test_ids_of_a_table_that_is_not_large_lie_anywhere() -> None:
    maker = CaseMaker([InputSpec("ids", np.dtype(np.int64), ("batch", 1))], {"ids": [range(60_000)]})
    assert len(np.unique(maker.random(BATCHES[-1])["ids"] // 100)) > 50
