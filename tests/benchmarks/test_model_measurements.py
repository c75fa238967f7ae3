"""Hazard: a table or ratio that says something else than was measured, or a file that is not its module."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
import torch

from benchmarks import report
from benchmarks.configurations import Configuration, paper
from benchmarks.gpu_floor import work_of
from benchmarks.gpu_providers import export_whole
from benchmarks.gpu_workers import Task, run_waves
from benchmarks.harness import time_in_turns
from benchmarks.model_rows import OURS, write_rows

GRAPH = f"{OURS}, CUDA graph"


def result(provider: str, us: float | None, precision: str = "fp32", **more: object) -> dict[str, object]:
    return {"provider": provider, "precision": precision, "median_us": us, "error": 1e-7, **more}


def test_the_ratio_is_to_the_fastest_float32_peer(tmp_path: Path) -> None:
    results = [
        result("PyTorch eager", 90.0),
        result("PyTorch CUDA graph", 30.0),
        result("PyTorch CUDA graph", 5.0, "tf32"),
        result("floor: bytes", 1.0, ""),
        result("ONNX Runtime", None, refusal="no"),
        result(OURS, 10.0),
    ]
    with write_rows(tmp_path / "x.csv", "a card", "torch 1") as rows:
        rows.add("paper", Configuration("dcn"), results)
    with (tmp_path / "x.csv").open() as file:
        written = list(csv.DictReader(file))
    assert [row["ratio_to_best_peer"] for row in written] == ["0.333", "1.0", "6.0", "30.0", "", "3.0"]
    assert {row["card"] for row in written} == {"a card"}
    assert written[4]["refusal"] == "no"


def test_the_paper_has_48_configurations() -> None:
    assert len(set(paper())) == 48


def test_the_report_fills_in_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with write_rows(tmp_path / "end_to_end_gpu.csv", "a card") as rows:
        for hidden, us in ((256, 40.0), (512, 60.0)):
            results = [
                result("PyTorch eager", us),
                result(GRAPH, 20.0),
                result("ONNX Runtime", None, refusal="too wide"),
            ]
            rows.add("paper", Configuration("dcn", hidden=hidden), results)
    with write_rows(tmp_path / "compile_gpu.csv", "a card") as rows:
        rows.add("compile", Configuration("dcn"), [result("torch.compile", 15.0), result(GRAPH, 10.0)])
    document, other = tmp_path / "performance.md", tmp_path / "performance-cpu.md"
    other.write_text("<!-- begin end_to_end_cpu -->\nmeasured elsewhere\n<!-- end end_to_end_cpu -->\n")
    document.write_text(
        "before\n<!-- begin end_to_end_gpu -->\nold\n<!-- end end_to_end_gpu -->\n<!-- begin other -->\n"
    )
    monkeypatch.setattr(sys, "argv", ["report", "--results", str(tmp_path), "--docs", str(tmp_path)])
    report.main()
    text = document.read_text()
    assert text.startswith("before\n<!-- begin end_to_end_gpu -->\n![end_to_end_gpu](end_to_end_gpu.png)\n")
    assert text.endswith("<!-- end end_to_end_gpu -->\n<!-- begin other -->\n")
    assert "| PyTorch eager | 2.50 (2.00 to 3.00) | - | - | - | 2.45 |" in text
    # of another run, whose own time of ours counts
    assert "| torch.compile | 1.50 | - | - | - | 1.50 |" in text
    assert "| **the fastest of them** | 2.25 (1.50 to 3.00) |" in text
    assert "ONNX Runtime refuses 2 configurations: too wide" in text
    assert "old" not in text
    assert (tmp_path / "end_to_end_gpu.png").exists()
    report.main()
    assert document.read_text() == text
    assert "measured elsewhere" in other.read_text()


def test_modes_stand_beside_ours_of_their_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with write_rows(tmp_path / "modes_gpu.csv", "a card") as rows:
        for mode, theirs, ours in (("a", 90.0, 10.0), ("b", 80.0, 20.0)):
            rows.add("modes", Configuration("dcn"), [result(mode, theirs), result(GRAPH, ours)])
        rows.add("modes", Configuration("deepfm"), [result("b", None, refusal="too wide"), result(GRAPH, 30.0)])
        rows.add("modes", Configuration("dcnv2"), [result("all", None, refusal="took too long")])
    document = tmp_path / "performance.md"
    document.write_text("<!-- begin modes_gpu -->\n<!-- end modes_gpu -->\n")
    monkeypatch.setattr(sys, "argv", ["report", "--results", str(tmp_path), "--docs", str(tmp_path)])
    report.main()
    text = document.read_text()
    assert "| a | 90 (10) | refused | refused | refused |" in text
    assert "| b | 80 (20) | refused | refused | refused |" in text
    assert "b refuses 1 configurations: too wide" in text
    assert "took too long" in text


@pytest.mark.parametrize("model", ["dcn", "dcnv2", "wide_deep", "deepfm"])
def test_the_file_has_the_modules_whole_tables(tmp_path: Path, model: str) -> None:
    configuration = Configuration(model, "5x300", hidden=16, batch=64)
    module = configuration.module()
    export_whole(configuration, module, tmp_path / "model.onnx")
    ids = configuration.ids()
    with torch.no_grad():
        expected = module(ids).numpy()
    given = ort.InferenceSession(tmp_path / "model.onnx").run(None, {"ids": ids.numpy()})[0]
    assert int(ids.max()) > 250
    np.testing.assert_allclose(given, expected, atol=1e-6)


def test_the_floor_counts_each_byte_and_product_once() -> None:
    moved, flop = work_of(Configuration("dcn", "3x100", dim=4, hidden=8, batch=10))
    width, cross, deep = 12, 3 * (12 + 12), 12 * 8 + 8 + 2 * (8 * 8 + 8)
    assert moved == 10 * (3 * 8 + width * 4 + 4) + 4 * (cross + deep + width + 8 + 1)
    assert flop == 2 * 10 * (3 * width + 12 * 8 + 2 * 8 * 8 + width + 8)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the providers run here")
def test_a_configuration_that_fails_costs_only_itself() -> None:
    tasks = [Task(Configuration(model, "2x10", hidden=8, batch=2), ("EAGER",), 0.01) for model in ("dcn", "no_model")]
    outcomes = dict(zip(tasks, (outcome for _, outcome in run_waves(tasks, 2)), strict=True))
    assert all(isinstance(reason, str) for reason in outcomes.values())
    assert "no_model" in outcomes[tasks[1]]


def test_every_provider_has_its_turns() -> None:
    calls: list[str] = []
    times = time_in_turns({name: lambda name=name: calls.append(name) for name in "ab"}, 0, 0, 3)
    assert [taken.rounds for taken in times.values()] == [3, 3]
    assert calls == [*"aaaaabbbbb", *"ababab"]
