"""Small CTR models, and what a command left behind."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TABLE_ROWS = (5, 11, 7)
WIDTH = 4
DENSE = 3


def ctr_model(*, batch: str | int = "batch", seed: int = 0, dtype: type[np.floating] = np.float32) -> onnx.ModelProto:
    """Three fields, a column each of ids [batch, 3] int64, and dense [batch, 3]: lookups, join, one layer, sigmoid."""
    rng = np.random.default_rng(seed)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    joined = WIDTH * len(TABLE_ROWS) + DENSE
    constants = {
        "weight": rng.standard_normal((joined, 1)).astype(dtype),
        **{f"table_{i}": rng.standard_normal((v, WIDTH)).astype(dtype) for i, v in enumerate(TABLE_ROWS)},
        **{f"column_{i}": np.array(i) for i in range(len(TABLE_ROWS))},
    }
    nodes = []
    for i in range(len(TABLE_ROWS)):
        nodes.append(helper.make_node("Gather", ["ids", f"column_{i}"], [f"id_{i}"], name=f"pick_{i}", axis=1))
        nodes.append(helper.make_node("Gather", [f"table_{i}", f"id_{i}"], [f"row_{i}"], name=f"lookup_{i}"))
    rows = [f"row_{i}" for i in range(len(TABLE_ROWS))]
    nodes += [
        helper.make_node("Concat", [*rows, "dense"], ["joined"], name="join", axis=1),
        helper.make_node("MatMul", ["joined", "weight"], ["logit"], name="layer"),
        helper.make_node("Sigmoid", ["logit"], ["click"], name="head"),
    ]
    graph = helper.make_graph(
        nodes,
        "ctr",
        [
            helper.make_tensor_value_info("ids", TensorProto.INT64, [batch, len(TABLE_ROWS)]),
            helper.make_tensor_value_info("dense", kind, [batch, DENSE]),
        ],
        [helper.make_tensor_value_info("click", kind, [batch, 1])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def model_without_lookups() -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], name="only")],
        "plain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def save_with_external_data(model: onnx.ModelProto, path: Path, location: str = "tables.bin") -> Path:
    """Write the tables and weights to `location` beside the model."""
    onnx.save_model(model, path, save_as_external_data=True, location=location, size_threshold=16)
    return path


def fingerprint(folder: Path) -> dict[str, tuple[str, int]]:
    """File (relative) -> hash and time of last change, of everything below the folder."""
    return {
        str(file.relative_to(folder)): (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


@dataclass
class Finished:
    code: int
    stdout: str
    stderr: str

    def error(self) -> str:
        """The one line on stderr."""
        lines = self.stderr.splitlines()
        assert len(lines) == 1, self.stderr
        assert lines[0].startswith("error: ")
        return lines[0].removeprefix("error: ")


def script(name: str) -> str:
    """The installed console script beside this Python."""
    return str(Path(sys.executable).with_name(name))
