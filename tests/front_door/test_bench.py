"""Hazard: `dpiframe bench` measures something else than was asked for, or leaves files behind."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from dpiframe import latency
from dpiframe.bench import bench
from dpiframe.errors import DPIFrameError, UsageError
from dpiframe.verification import Verifier
from tests.front_door.helpers import (
    TABLE_ROWS,
    Finished,
    ctr_model,
    fingerprint,
    model_without_lookups,
    save_with_external_data,
)


@pytest.mark.usefixtures("without_latency")
def test_every_batch_size_is_measured(model_file: Path) -> None:
    before = fingerprint(model_file.parent)
    result = bench(model_file, provider="cpu", batches=(1, 5))
    assert [one.batch for one in result.latencies] == [1, 5]
    assert all(one.original_ms > 0 and one.optimized_ms > 0 for one in result.latencies)
    assert (result.provider, result.notes) == ("cpu", [])
    assert fingerprint(model_file.parent) == before


@pytest.mark.usefixtures("without_latency")
def test_external_data_is_neither_copied_nor_left_linked(tmp_path: Path) -> None:
    model = save_with_external_data(ctr_model(), tmp_path / "model.onnx")
    before = fingerprint(tmp_path)
    assert bench(model, provider="cpu", batches=(2,)).latencies
    assert fingerprint(tmp_path) == before
    assert (tmp_path / "tables.bin").stat().st_nlink == 1


@pytest.mark.parametrize("external", [True, False])
@pytest.mark.usefixtures("without_latency")
def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, external: bool) -> None:
    model = tmp_path / "model.onnx"
    if external:
        save_with_external_data(ctr_model(), model)
    else:
        onnx.save(ctr_model(), model)
    real = os.mkdir

    def mkdir(path: str | Path, *rest: Any, **options: Any) -> None:
        if Path(path).parent == tmp_path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        real(path, *rest, **options)

    monkeypatch.setattr(os, "mkdir", mkdir)
    if not external:
        assert bench(model, provider="cpu", batches=(2,)).latencies
        return
    says = (
        r"model\.onnx: no temporary folder can be made in .* \(Permission denied\).*; copy model and data to a folder"
    )
    with pytest.raises(UsageError, match=says):
        bench(model, provider="cpu", batches=(2,))


@pytest.mark.usefixtures("without_latency")
def test_real_rows_are_repeated_to_the_batch_size(model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpiframe.child import Child

    rows = 3
    ids = np.stack([np.arange(rows) % size for size in TABLE_ROWS], axis=1)
    dense = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    given = model_file.with_name("real.npz")
    np.savez(given, ids=ids, dense=dense)
    timed = []

    def time(self: Child, names: tuple[str, str], batch: int, feeds: dict[str, np.ndarray]) -> latency.Latency:
        timed.append(feeds)
        return latency.Latency(batch, 1, 1, 1, 1)

    monkeypatch.setattr(Child, "time", time)
    bench(model_file, provider="cpu", batches=(2, 7), inputs=given)
    for feeds, batch in zip(timed, (2, 7), strict=True):
        np.testing.assert_array_equal(feeds["ids"], ids[np.arange(batch) % rows])
        np.testing.assert_array_equal(feeds["dense"], dense[np.arange(batch) % rows])


def test_no_rows_are_refused(model_file: Path) -> None:
    given = model_file.with_name("none.npz")
    np.savez(given, ids=np.zeros((0, len(TABLE_ROWS)), np.int64), dense=np.zeros((0, 3), np.float32))
    with pytest.raises(UsageError, match="'ids' has no rows; give at least one"):
        bench(model_file, provider="cpu", batches=(2,), inputs=given)


def test_a_batch_below_one_is_refused(model_file: Path) -> None:
    with pytest.raises(UsageError, match="batch sizes 4, 0: give numbers from 1 on"):
        bench(model_file, batches=(4, 0))


@pytest.mark.usefixtures("without_latency")
def test_a_model_of_one_size(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(ctr_model(batch=7), path)
    with pytest.raises(UsageError, match="takes batches of 7 only; leave --batch out"):
        bench(path, batches=(7, 9))
    assert [one.batch for one in bench(path, provider="cpu").latencies] == [7]


@pytest.mark.usefixtures("without_latency")
@pytest.mark.parametrize("model", [ctr_model(), model_without_lookups()], ids=["fused", "nothing to fuse"])
def test_without_a_gpu_cuda_is_measured_on_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: onnx.ModelProto
) -> None:
    monkeypatch.setattr(Verifier, "_cuda_works", lambda _: False)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    result = bench(path, provider="cuda", batches=(3,))
    assert (result.provider, [one.batch for one in result.latencies]) == ("cpu", [3])
    assert result.notes[-1] == "no CUDA here (onnxruntime-gpu or a GPU is missing): both forms were measured on the CPU"


@pytest.mark.usefixtures("without_latency")
def test_nothing_measured_is_an_error(model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpiframe.child import Child, Failure

    monkeypatch.setattr(Child, "time", lambda *_: Failure("out of memory"))
    with pytest.raises(DPIFrameError, match="no batch size could be measured: batch 9: out of memory"):
        bench(model_file, provider="cpu", batches=(9,))


def test_the_command_prints_and_draws(model_file: Path, run_command: Callable[..., Finished]) -> None:
    done = run_command("dpiframe", "bench", model_file, "-b", "3", "-b", "40", "--plot", "latency.svg")
    assert done.code == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["batch", "3", "40"]
    assert "<svg" in model_file.with_name("latency.svg").read_text()


def test_the_command_speaks_json(model_file: Path, run_command: Callable[..., Finished]) -> None:
    done = run_command("dpiframe", "bench", model_file, "-b", "2", "--json")
    found = json.loads(done.stdout)
    assert (found["ok"], [one["batch"] for one in found["latency"]]) == (True, [2])


@pytest.mark.parametrize(
    ("plot", "says"),
    [
        ("x.txt", "give a file that ends in .png, .svg, .pdf"),
        ("no/x.png", "the folder no doesn't exist; make it first"),
    ],
)
def test_a_plot_that_cannot_be_written_is_said_first(
    model_file: Path, run_command: Callable[..., Finished], plot: str, says: str
) -> None:
    done = run_command("dpiframe", "bench", model_file, "--plot", plot)
    assert done.code == 2
    assert says in done.error()


def test_bench_says_what_its_inputs_are_for(run_command: Callable[..., Finished]) -> None:
    shown = " ".join(run_command("dpiframe", "bench", "--help").stdout.replace("│", " ").split())
    assert "Real inputs, whose rows are repeated to each batch size, to measure on" in shown
