"""Runs an optimized model on the ONNX Runtime versions that are supported, with the library and without it.

    python tests/versions.py [version ...]        by default: the oldest, some between, the newest

Each version gets a small virtual environment under build/versions, which later runs use again.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from dpiframe.custom_ops import library_path
from dpiframe.graph_passes.pipeline import optimize_model

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / "build" / "versions"
VERSIONS = ["1.20.1", "1.24.4", "1.28.*", "newest"]
FIELDS, ROWS, WIDTH = 6, 50, 8


def ctr_model() -> onnx.ModelProto:
    """Fields from columns of a matrix, their wide part, a masked mean over a sequence, and an If with lookups."""
    random = np.random.default_rng(0)
    constants = {f"column_{i}": np.array(i) for i in range(FIELDS)}
    for i in range(FIELDS):
        constants[f"table_{i}"] = random.standard_normal((ROWS, WIDTH)).astype(np.float32)
        constants[f"wide_{i}"] = random.standard_normal((ROWS, 1)).astype(np.float32)
    constants |= {"axis_1": np.array([1]), "axis_2": np.array([2]), "padding": np.array(0), "few": np.float32(1e-8)}

    nodes = [helper.make_node("Gather", ["ids", f"column_{i}"], [f"id_{i}"], axis=1) for i in range(FIELDS)]
    for i in range(FIELDS):
        nodes.append(helper.make_node("Gather", [f"table_{i}", f"id_{i}"], [f"row_{i}"]))
        nodes.append(helper.make_node("Gather", [f"wide_{i}", f"id_{i}"], [f"wide_row_{i}"]))
    nodes += [
        helper.make_node("Concat", [f"row_{i}" for i in range(FIELDS)], ["deep"], axis=1),
        helper.make_node("Concat", [f"wide_row_{i}" for i in range(FIELDS)], ["wide_rows"], axis=1),
        helper.make_node("ReduceSum", ["wide_rows", "axis_1"], ["wide"], keepdims=1),
        helper.make_node("Gather", ["table_0", "history"], ["history_rows"]),
        helper.make_node("Equal", ["history", "padding"], ["is_padding"]),
        helper.make_node("Not", ["is_padding"], ["is_item"]),
        helper.make_node("Cast", ["is_item"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "axis_2"], ["mask_3d"]),
        helper.make_node("Mul", ["history_rows", "mask_3d"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "axis_1"], ["history_sum"], keepdims=0),
        helper.make_node("ReduceSum", ["mask", "axis_1"], ["history_length"], keepdims=1),
        helper.make_node("Add", ["history_length", "few"], ["divisor"]),
        helper.make_node("Div", ["history_sum", "divisor"], ["history_mean"]),
        helper.make_node("If", ["flag"], ["branch"], then_branch=branch(0), else_branch=branch(2)),
    ]
    graph = helper.make_graph(
        nodes,
        "ctr",
        [
            helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", FIELDS]),
            helper.make_tensor_value_info("history", TensorProto.INT64, ["batch", "length"]),
            helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
        ],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width])
            for name, width in (("deep", FIELDS * WIDTH), ("wide", 1), ("history_mean", WIDTH), ("branch", 2 * WIDTH))
        ],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def branch(first: int) -> onnx.GraphProto:
    names = [f"branch_{first}_{i}" for i in range(2)]
    nodes = [helper.make_node("Gather", [f"table_{first + i}", f"id_{first + i}"], [names[i]]) for i in range(2)]
    nodes.append(helper.make_node("Concat", names, [f"branch_{first}"], axis=1))
    output = helper.make_tensor_value_info(f"branch_{first}", TensorProto.FLOAT, ["batch", 2 * WIDTH])
    return helper.make_graph(nodes, f"branch_{first}", [], [output])


# What each version's interpreter runs: it has onnxruntime and numpy alone.
CHILD = """
import ctypes
import json
import sys

import numpy as np
import onnxruntime as ort

library, path = sys.argv[1:]


def with_library():
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(library)
    return options


plain_options = ort.SessionOptions()
plain_options.log_severity_level = 4
plain = ort.InferenceSession(path, plain_options, providers=["CPUExecutionProvider"])
# Options that make sessions in another order than they were made in.
first, options, last = with_library(), with_library(), with_library()
before = ort.InferenceSession(path, last, providers=["CPUExecutionProvider"])
fused = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
after = ort.InferenceSession(path, first, providers=["CPUExecutionProvider"])
random = np.random.default_rng(1)
for rows in (0, 1, 3, 64, 3000):
    for length in (1, 7):
        for flag in (True, False):
            feeds = {
                "ids": random.integers(-50, 50, (rows, 6)),
                "history": random.integers(0, 50, (rows, length)),
                "flag": np.array(flag),
            }
            for output, a, b in zip(plain.get_outputs(), plain.run(None, feeds), fused.run(None, feeds)):
                assert a.shape == b.shape, (output.name, a.shape, b.shape)
                exact = output.name in ("deep", "branch")
                bound = 0 if exact or a.size == 0 else 1e-6 * max(1, np.abs(a).max())
                assert a.size == 0 or np.abs(a - b).max() <= bound, (output.name, np.abs(a - b).max())
feeds["ids"][5, 2] = 50
try:
    fused.run(None, feeds)
    raise SystemExit("an id outside its table raised no error")
except Exception as error:
    # the lookup of the main graph, or the one in the branch: whichever runs first
    assert "ids[2] ->" in str(error) or "id_2 ->" in str(error), error
    assert "FusedMultiGather" in str(error) and "id 50" in str(error), error
# Whose kernels are made is known by the order in which ONNX Runtime makes a session.
counts = []
for session in (before, fused, after):
    tag = session.get_session_options().get_session_config_entry("dpiframe.session")
    buffer = ctypes.create_string_buffer(1 << 14)
    needed = ctypes.CDLL(library).dpiframe_bad_ids_json(tag.encode(), buffer, len(buffer))
    assert 0 < needed <= len(buffer), needed
    counts.append(json.loads(buffer.value))
assert [bool(each) for each in counts] == [False, True, False], counts
print(f"onnxruntime {ort.__version__}: the library's answers are the body's")
"""


def interpreter(version: str) -> Path:
    folder = ENVIRONMENTS / version.replace("*", "x")
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    wanted = "onnxruntime" if version == "newest" else f"onnxruntime=={version}"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*pip, *(["--upgrade"] if version == "newest" else []), wanted, "numpy"], check=True)
    return python


def main(versions: list[str]) -> int:
    model = optimize_model(ctr_model(), provider="cpu", bad_ids="error").model
    names = sorted({function.name for function in model.functions})
    print(f"the model calls {', '.join(names)}")
    assert any(name.startswith("FusedMultiGather") for name in names)
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        for version in versions:
            command = [str(interpreter(version)), "-c", CHILD, str(library_path()), str(path)]
            if subprocess.run(command).returncode != 0:
                failed.append(version)
    if failed:
        print(f"failed on onnxruntime {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or VERSIONS))
