"""Hazard: a tuned model that isn't the fastest measured, has other answers, or a file harmed by a run that failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import dpiframe
from dpiframe.child import Child, Loadable
from dpiframe.errors import DPIFrameError, UsageError, VerificationError
from dpiframe.graph_passes.pipeline import optimize_model
from dpiframe.inputs import Feeds
from dpiframe.progress import silent
from dpiframe.sessions import library_path
from dpiframe.tuner import Plan, Timer, TuneResult, _tune
from dpiframe.tuning_report import print_tuned
from tests.custom_ops.regions import rows, towers
from tests.front_door.helpers import Finished, ctr_model, fingerprint
from tests.graph_passes.harness import parse, table

PLANS = [
    Plan(1, "breadth"),
    *(Plan(streams, order) for streams in (2, 3, 4) for order in ("breadth", "depth")),
]


class FakeTimer:
    """Milliseconds by plan; remembers what it was asked."""

    def __init__(self, ms: Mapping[str, float]) -> None:
        self.ms = ms
        self.asked: list[tuple[tuple[str, ...], int]] = []

    def __call__(self, files: Mapping[str, Path], feeds: Feeds) -> Mapping[str, float]:
        assert all(onnx.load(file).graph.node for file in files.values())
        self.asked.append((tuple(files), len(next(iter(feeds.values())))))
        return {name: self.ms.get(name, 1.0) for name in files}


def tune_with(timer: Timer | None, path: Path, output: Path | None = None, batches: Sequence[int] = ()) -> TuneResult:
    return _tune(path, output, batches, None, silent, timer=timer)


@pytest.fixture
def optimized(tmp_path: Path) -> Path:
    path = tmp_path / "model.opt.onnx"
    onnx.save(optimize_model(towers(4, 2), provider="cuda").model, path)
    return path


def streams_of(path: Path) -> str:
    (region,) = [node for node in onnx.load(path).graph.node if node.op_type == "ParallelRegion"]
    return region.attribute[0].s.decode().splitlines()[2]


@pytest.mark.usefixtures("without_latency")
def test_the_fastest_is_written_into_the_file(optimized: Path) -> None:
    before = onnx.load(optimized)
    timer = FakeTimer({"3 streams, depth-first": 0.8, "2 streams, breadth-first": 0.9})
    result = tune_with(timer, optimized, batches=(32, 8, 32))
    assert result.best == Plan(3, "depth")
    assert streams_of(optimized) == "streams 3"
    assert [tried.plan for tried in result.tried] == PLANS
    assert timer.asked == [(("one stream", str(plan)), batch) for plan in PLANS[1:] for batch in (32, 8)]
    assert result.tried[0].ms == {32: 1.0, 8: 1.0}
    assert result.tried[4].ratio == {32: 1.25, 8: 1.25}
    assert [*optimized.parent.iterdir()] == [optimized]
    options = dpiframe.session_options()
    want = ort.InferenceSession(before.SerializeToString(), options).run(None, rows(5))
    got = ort.InferenceSession(str(optimized), options).run(None, rows(5))
    np.testing.assert_allclose(got[0], want[0], rtol=1e-6)


@pytest.mark.usefixtures("without_latency")
@pytest.mark.parametrize("ms", [1.0, 0.985])
def test_what_may_be_noise_is_one_stream(optimized: Path, ms: float) -> None:
    result = tune_with(FakeTimer({str(plan): ms for plan in PLANS[1:]}), optimized, batches=(4,))
    assert result.best == Plan(1, "breadth")
    assert streams_of(optimized) == "streams 1"


@pytest.mark.usefixtures("without_latency")
def test_another_output(optimized: Path, tmp_path: Path) -> None:
    before = fingerprint(tmp_path)
    target = tmp_path / "tuned.onnx"
    result = tune_with(FakeTimer({"2 streams, breadth-first": 0.5}), optimized, target, batches=(4,))
    assert result.output == target
    assert streams_of(target) == "streams 2"
    target.unlink()
    assert fingerprint(tmp_path) == before


@pytest.mark.usefixtures("without_latency")
def test_a_link_stays_a_link(optimized: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.onnx"
    link.symlink_to(optimized.name)
    tune_with(FakeTimer({"2 streams, breadth-first": 0.5}), link, batches=(4,))
    assert link.is_symlink()
    assert streams_of(optimized) == "streams 2"


@pytest.mark.usefixtures("without_latency")
def test_without_branches_nothing_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "chain.onnx"
    onnx.save(optimize_model(towers(1, 3), provider="cuda").model, path)
    timer = FakeTimer({})
    result = tune_with(timer, path)
    assert timer.asked == []
    print_tuned(result)
    said = capsys.readouterr().out
    assert said.startswith("Nothing was measured: the model has no branches")
    assert said.endswith("with one stream.\n")


@pytest.mark.usefixtures("without_latency")
def test_a_batch_that_the_model_fixes(tmp_path: Path) -> None:
    weights = {name: table(8, 8, seed=i) for i, name in enumerate("UVWT")}
    text = "(float[6,8] x) => (float[6,8] y) { p = MatMul(x, U) q = MatMul(p, V) r = MatMul(x, W) y = Add(q, r) }"
    path = tmp_path / "fixed.onnx"
    onnx.save(optimize_model(parse(text, **weights), provider="cuda").model, path)
    timer = FakeTimer({})
    tune_with(timer, path)
    assert {batch for _, batch in timer.asked} == {6}
    with pytest.raises(UsageError, match="batch 7: the model takes batches of 6 alone"):
        tune_with(timer, path, batches=(7,))


def refused(
    path: Path, kind: type[DPIFrameError], why: str, *, batches: Sequence[int] = (), timer: Timer | None = None
) -> None:
    before = fingerprint(path.parent)
    with pytest.raises(kind, match=why):
        tune_with(timer, path, batches=batches)
    assert fingerprint(path.parent) == before


def test_what_is_not_optimized(model_file: Path) -> None:
    refused(model_file, UsageError, "is not optimized; run `optimize --provider cuda` first")


def test_what_is_for_cpus(tmp_path: Path) -> None:
    path = tmp_path / "cpu.onnx"
    onnx.save(optimize_model(ctr_model(), provider="cpu").model, path)
    refused(path, UsageError, "is optimized for CPUs")


def test_no_batch(optimized: Path) -> None:
    refused(optimized, UsageError, "batch 0: give 1 or more", batches=(0,))


def test_a_run_that_fails(optimized: Path) -> None:
    def fails(files: Mapping[str, Path], feeds: Feeds) -> Mapping[str, float]:
        raise DPIFrameError("the card has no memory left")

    refused(optimized, DPIFrameError, "the card has no memory left", timer=fails)


def test_other_answers(optimized: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = towers(4, 2)
    for weight in other.graph.initializer:
        values = onnx.numpy_helper.to_array(weight)
        weight.CopyFrom(onnx.numpy_helper.from_array(values * np.float32(1.001), weight.name))
    wrong = optimize_model(other, provider="cuda").model
    monkeypatch.setattr("dpiframe.graph_passes.streams.replan.replan", lambda *_: wrong)
    refused(
        optimized,
        VerificationError,
        "with one stream, the answers differ: .*; nothing was written",
        timer=FakeTimer({}),
    )


@pytest.mark.skipif("CUDAExecutionProvider" in ort.get_available_providers(), reason="there may be a GPU here")
def test_no_gpu(optimized: Path, run_command: Callable[..., Finished]) -> None:
    before = fingerprint(optimized.parent)
    done = run_command("dpiframe", "tune", optimized, "--batch", "16")
    assert done.code == 1
    assert "tuning measures on a GPU, and ONNX Runtime finds none here" in done.error()
    assert fingerprint(optimized.parent) == before


def test_models_race_in_a_child(optimized: Path) -> None:
    with Child() as child:
        for name in ("a", "b"):
            child.add(name, Loadable(optimized, False, [Path(library_path())]))
        times = child.race(["a", "b"], rows(64))
    assert isinstance(times, dict)
    assert list(times) == ["a", "b"]
    assert all(0 < ms < 1000 for ms in times.values())


def test_the_table(capsys: pytest.CaptureFixture[str], optimized: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpiframe.verification.Verifier._measure", lambda *_: None)
    result: TuneResult = tune_with(FakeTimer({"2 streams, depth-first": 0.8}), optimized, batches=(64, 256))
    print_tuned(result)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["a", "run", "batch", "64", "batch", "256", "all"]
    assert lines[1].split() == ["one", "stream", "1.0000", "ms", "1.0000", "ms"]
    assert " ".join(lines[3].split()) == "2 streams, depth-first 0.8000 ms 1.25x 0.8000 ms 1.25x 1.25x"
    assert lines[-1] == f"Wrote {optimized} with 2 streams, depth-first."
    assert result.to_json()["best"] == {"streams": 2, "order": "depth"}
