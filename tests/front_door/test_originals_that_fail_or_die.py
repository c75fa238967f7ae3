"""Hazard: a model that fails or crashes on some inputs by itself stops the optimizer, or hides its mistakes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import dpiframe
from dpiframe import child
from tests.front_door.helpers import ctr_model

# A worker that dies by a real signal where the condition holds; `request` is what it was asked.
_DYING = """
import sys; sys.path[:] = sys.argv[1:]
import os, signal
import numpy as np
import dpiframe.verify_worker as w
real = w._Worker.answer
def answer(self, request):
    feeds = w._feeds(request) if "inputs" in request else {{}}
    if {condition}:
        os.kill(os.getpid(), signal.{signal})
    return real(self, request)
w._Worker.answer = answer
w.main()
"""


def die_when(monkeypatch: pytest.MonkeyPatch, condition: str, signal: str = "SIGSEGV") -> None:
    monkeypatch.setattr(child, "_START", _DYING.format(condition=condition, signal=signal))


RUNS_ORIGINAL = "request['do'] == 'run' and request['name'] == 'original'"
RUNS_FUSED = "request['do'] == 'run' and request['name'] == 'fused'"
NEGATIVE = "feeds['ids'].min(initial=0) < 0"


def test_a_case_that_kills_the_original_is_skipped_and_named(model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    die_when(monkeypatch, f"{RUNS_ORIGINAL} and {NEGATIVE}")
    result = dpiframe.verify(model_file, model_file)
    assert [(case.name, case.skipped) for case in result.skipped] == [
        ("negative ids", "the process was killed by SIGSEGV")
    ]
    assert len(result.compared) >= 8


def test_running_out_of_memory_is_told(model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    die_when(monkeypatch, f"{RUNS_ORIGINAL} and {NEGATIVE}", "SIGKILL")
    skipped = dpiframe.verify(model_file, model_file).skipped
    assert [case.skipped for case in skipped] == ["the process was killed by SIGKILL, perhaps out of memory"]


def test_a_case_that_kills_only_the_result_is_a_mismatch(model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    die_when(monkeypatch, f"{RUNS_FUSED} and {NEGATIVE}")
    named = "case 'negative ids', with the library: the original runs, .* fails: the process was killed by SIGSEGV"
    with pytest.raises(dpiframe.VerificationError, match=named):
        dpiframe.verify(model_file, model_file)


def test_too_little_memory_for_both_models_at_once_is_no_mismatch(
    model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    die_when(monkeypatch, "request['do'] == 'load' and len(self._sessions) > 0", "SIGKILL")
    result = dpiframe.verify(model_file, model_file)
    assert len(result.compared) >= 9
    assert result.latencies == []
    assert [note.split(":")[0] for note in result.notes] == ["latency wasn't measured"]


def test_an_original_that_dies_on_all_inputs_can_not_be_verified(
    model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    die_when(monkeypatch, RUNS_ORIGINAL)
    with pytest.raises(dpiframe.VerificationError, match=r"fails on all \d+ test inputs .*SIGSEGV.*--inputs FILE.npz"):
        dpiframe.optimize(model_file)
    assert list(model_file.parent.iterdir()) == [model_file]


def model_for_one_batch_size(path: Path) -> None:
    """Reshape to a fixed size inside, but a symbolic batch outside: runs at batch 7 only."""
    model = ctr_model()
    model.graph.initializer.append(numpy_helper.from_array(np.array([7, 3]), "seven"))
    join = next(n for n in model.graph.node if n.name == "join")
    join.input[-1] = "fixed"
    at = list(model.graph.node).index(join)
    model.graph.node.insert(at, helper.make_node("Reshape", ["dense", "seven"], ["fixed"], name="fix"))
    onnx.save(model, path)


def test_batch_sizes_that_the_original_refuses_are_skipped(tmp_path: Path) -> None:
    model_for_one_batch_size(tmp_path / "seven.onnx")
    result = dpiframe.verify(tmp_path / "seven.onnx", tmp_path / "seven.onnx")
    skipped = {case.name: case.skipped or "" for case in result.skipped}
    assert list(skipped) == ["random inputs, batch 1", "random inputs, batch 64", "empty batch"]
    assert all(reason.startswith("Reshape node 'fix': ") for reason in skipped.values())
    assert len(result.compared) >= 6


def model_that_only_real_inputs_satisfy(path: Path) -> None:
    """A lookup by ids that come in as lengths do: no table is seen behind them, and 1000 is added."""
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["square"], name="needs_a_square"),
        helper.make_node("Relu", ["square"], ["y"], name="relu"),
    ]
    graph = helper.make_graph(
        nodes,
        "picky",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 3])],
        [numpy_helper.from_array(np.array([3, 3]), "shape")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


def test_real_inputs_help_where_generated_ones_fail(tmp_path: Path) -> None:
    path = tmp_path / "picky.onnx"
    model_that_only_real_inputs_satisfy(path)
    with pytest.raises(dpiframe.VerificationError, match=r"--inputs FILE\.npz"):
        dpiframe.verify(path, path)
    np.savez(tmp_path / "real.npz", x=np.arange(9, dtype=np.float32))
    result = dpiframe.verify(path, path, inputs=tmp_path / "real.npz")
    assert [case.name for case in result.compared] == ["the inputs in real.npz"]
    assert [latency.batch for latency in result.latencies] == [9]


def test_dimensions_that_must_be_equal_are_found(tmp_path: Path) -> None:
    """An exporter that names one length anew in each input: generated sizes differ first, then are equal."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["y"], name="add")],
        "lengths",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", f"{n}_length"]) for n in ("a", "b")],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", None])],
    )
    path = tmp_path / "lengths.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    result = dpiframe.verify(path, path)
    assert len(result.compared) >= 6
    assert result.skipped == []


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_library_that_kills_the_process_is_reported(tmp_path: Path, model_file: Path) -> None:
    (tmp_path / "dies.c").write_text("#include <stdlib.h>\nvoid* RegisterCustomOps(void) { abort(); }\n")
    library = tmp_path / "dies.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "dies.c"], check=True)
    with pytest.raises(dpiframe.VerificationError, match=r"can't load the model itself: .* killed by SIGABRT"):
        dpiframe.optimize(model_file, custom_op_library=library)


def test_a_model_that_really_kills_onnx_runtime(tmp_path: Path) -> None:
    """ONNX Runtime's GRU ends the process for an empty batch."""
    rng = np.random.default_rng(0)
    weights = {"w": (1, 12, 3), "r": (1, 12, 4)}
    graph = helper.make_graph(
        [helper.make_node("GRU", ["x", "w", "r"], ["y"], name="gru", hidden_size=4, layout=0)],
        "recurrent",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, "batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 1, "batch", 4])],
        [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in weights.items()],
    )
    path = tmp_path / "gru.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    result = dpiframe.verify(path, path)
    assert [case.name for case in result.skipped] == ["empty batch"]
    assert "the process was killed by SIG" in str(result.skipped[0].skipped)
    assert len(result.compared) >= 7
