"""Hazard: the report says something else than what happened, or --json prints more than JSON."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import dpiframe
from dpiframe.graph_passes.report import PassReport, Refusal
from dpiframe.latency import Latency
from dpiframe.report import print_optimized
from dpiframe.verify_result import VerifyResult
from tests.front_door.helpers import TABLE_ROWS, Finished, ctr_model, script

Run = Callable[..., Finished]


def test_the_report_tells_what_changed_and_how_to_run_it(model_file: Path, run_command: Run) -> None:
    done = run_command("optimize", model_file)
    assert done.code == 0
    assert done.stderr == ""
    lookups = len(TABLE_ROWS)
    for part in (
        "executed nodes",
        f"{lookups} of {lookups}",
        "latency, batch 1 ",
        "latency, batch 32 ",
        "latency, batch 256 ",
        "Verified on 11 cases (CPU): largest difference ",
        f"Wrote {model_file.with_name('model.opt.onnx')}. To run it:",
    ):
        assert part in done.stdout
    example = "\n".join(line.strip() for line in done.stdout.splitlines()[-3:])
    code = f"import onnxruntime, dpiframe\n{example}\nprint(session.get_outputs()[0].name)"
    python = Path(script("python"))
    ran = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "click\n"


def test_json_is_one_object_and_nothing_else(model_file: Path, run_command: Run) -> None:
    np.savez(model_file.with_name("real.npz"), ids=np.zeros((2, 3), np.int64), dense=np.zeros((2, 3), np.float32))
    done = run_command("optimize", model_file, "--json", "--inputs", "real.npz")
    assert done.code == 0
    assert done.stderr == ""
    report = json.loads(done.stdout)
    assert report["ok"] is True
    assert report["fused"] is True
    assert report["provider"] == "cpu"
    assert report["lookups"] == {"total": 3, "fused": 3}
    assert report["nodes"]["after"] < report["nodes"]["before"]
    assert report["verification"]["cases"] == 12
    assert report["verification"]["largest_difference"] <= 1e-6
    assert [entry["batch"] for entry in report["verification"]["latency"]] == [1, 32, 256]


def test_verify_reports_as_well(model_file: Path, run_command: Run) -> None:
    text = run_command("dpiframe", "verify", model_file, model_file)
    assert (text.code, text.stderr) == (0, "")
    assert "latency, batch 256" in text.stdout
    assert "Verified on 11 cases (CPU): largest difference 0." in text.stdout
    report = json.loads(run_command("dpiframe", "verify", model_file, model_file, "--json").stdout)
    assert (report["ok"], report["cases"], report["mismatch"]) == (True, 11, None)


def test_inspect_shows_without_writing(model_file: Path, run_command: Run) -> None:
    text = run_command("dpiframe", "inspect", model_file)
    assert (text.code, text.stderr) == (0, "")
    assert "optimize would fuse 3 of 3 lookups" in text.stdout
    report = json.loads(run_command("dpiframe", "inspect", model_file, "--json").stdout)
    assert report["ok"] is True
    assert [table["rows"] for table in report["tables"]] == list(TABLE_ROWS)
    assert list(model_file.parent.iterdir()) == [model_file]


def test_quiet_prints_nothing(model_file: Path, run_command: Run) -> None:
    done = run_command("dpiframe", "optimize", model_file, "--quiet")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    assert model_file.with_name("model.opt.onnx").exists()


def test_refusals_are_collapsed_by_reason(capsys: pytest.CaptureFixture[str]) -> None:
    reports = [
        PassReport("first", refusals=[Refusal("only", "the table's shape is [unknown]")]),
        PassReport("second", refusals=[Refusal(f"node_{i}", "ids come from a [MASK]") for i in range(5)]),
    ]
    result = dpiframe.OptimizeResult(
        Path("in.onnx"), Path("out.onnx"), "cpu", "cpu", True, 9, 4, lookups_before=6, lookups_fused=1, reports=reports
    )
    print_optimized(result)
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("Left alone:")
    assert lines[at + 1] == "  ids come from a [MASK]: node_0, node_1, node_2, and 2 more"
    assert lines[at + 2] == "  the table's shape is [unknown]: only"


def test_latencies_say_where_they_are_of(capsys: pytest.CaptureFixture[str]) -> None:
    """A file for CUDA that was made on a machine without: its latencies here are no sign of those there."""
    verification = VerifyResult("cpu", latencies=[Latency(1, 0.5, 1.0, 0.5, 40)])
    labels: dict[Literal["cpu", "cuda"], str] = {
        "cpu": "latency, batch 1 ",
        "cuda": "latency on the CPU here, batch 1 ",
    }
    for provider, label in labels.items():
        result = dpiframe.OptimizeResult(
            Path("in.onnx"), Path("out.onnx"), provider, "cpu", True, 9, 4, 6, 6, [], verification=verification
        )
        print_optimized(result)
        assert label in capsys.readouterr().out


def test_a_terminal_sees_progress_and_then_the_report(model_file: Path) -> None:
    parent, child = pty.openpty()
    with subprocess.Popen([script("optimize"), model_file], stdout=child, stderr=child) as process:
        os.close(child)
        seen = b""
        # Linux: reading fails when the other end is gone.
        try:
            while part := os.read(parent, 65536):
                seen += part
        except OSError:
            pass
    os.close(parent)
    assert process.returncode == 0
    assert b"Verifying" in seen
    assert seen.rindex(b"Verified on 11 cases") > seen.rindex(b"Verifying")


def test_a_skipped_case_is_named_in_the_report(tmp_path: Path, run_command: Run) -> None:
    model = ctr_model()
    model.graph.initializer.append(numpy_helper.from_array(np.array([0, -1]), "rows"))
    layer = next(n for n in model.graph.node if n.name == "layer")
    at = list(model.graph.node).index(layer)
    # ONNX Runtime can't infer -1 for no elements.
    model.graph.node.insert(at, onnx.helper.make_node("Reshape", ["joined", "rows"], ["flat"], name="flatten"))
    layer = next(n for n in model.graph.node if n.name == "layer")
    layer.input[0] = "flat"
    onnx.save(model, tmp_path / "model.onnx")
    done = run_command("optimize", "model.onnx")
    assert done.code == 0, done.stderr
    assert "Verified on 10 cases" in done.stdout
    assert "Skipped 'empty batch': the original fails: Reshape node 'flatten': " in done.stdout


@pytest.mark.usefixtures("without_latency")
def test_inspect_shows_an_optimized_file(model_file: Path, run_command: Run) -> None:
    output = dpiframe.optimize(model_file, provider="cuda").output
    done = run_command("dpiframe", "inspect", output)
    assert done.code == 0, done.stderr
    assert "fused already: 1 FusedMultiGather, " in done.stdout.replace("1 ParallelRegion, ", "")
    found = json.loads(run_command("dpiframe", "inspect", output, "--json").stdout)
    assert (found["ok"], found["fused"]["FusedMultiGather"], len(found["tables"])) == (True, 1, 3)


def test_a_name_that_the_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    model = ctr_model()
    model.graph.input[1].name = "größe"
    next(n for n in model.graph.node if n.name == "join").input[-1] = "größe"
    path = tmp_path / "é" / "a b.onnx"
    path.parent.mkdir()
    onnx.save(model, path)
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    for command, shown in (
        (["optimize", path], rb"\xe9/a b.opt.onnx"),
        (["dpiframe", "inspect", path], rb"gr\xf6\xdfe float32"),
    ):
        started = [script(str(command[0])), *command[1:]]
        done = subprocess.run(started, env=environment, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        assert shown in done.stdout
