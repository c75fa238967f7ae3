"""Streams and launches on a GPU: the paper's ablations (its Sections V-G and V-H), and the host's time of a run.

    python benchmarks/streams_gpu.py [--models NAME ...] [--batches N ...] [--seconds S] [--results FOLDER] [--plot]

Wall time of a call on inputs that lie on the device, the wait for its answers included, in one run: fused nodes apart,
as one region on one stream, depth-first and breadth-first on two (four) streams, rounds that begin with the explicit or
the implicit module, and what `--streams auto` chooses; each launched kernel by kernel (`direct`), as the region's own
CUDA graph, and in ONNX Runtime's graph mode. `host` rows are the time until a run returns that waits for nothing; the
one of a single node is ONNX Runtime's own.
Every plan's answers are compared first. Writes streams_gpu.csv and streams_gpu.png; --plot draws the latter again.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import RESULTS, Row, about, measure, write_csv
from benchmarks.stream_plans import APART, AUTO, BREADTH, DEPTH, MODELS, ONE, Call, Subject, session_of

BATCHES = (64, 256, 1024, 2048, 8192)
DIRECT, OWN, ORT = "direct", "own graph", "ONNX Runtime's graph"
MODES: dict[str, dict[str, bool]] = {DIRECT: {"own_graphs": False}, OWN: {}, ORT: {"ort_graphs": True}}
HOST_RUNS = 200
HOST_BATCH = 2048
TURN_SECONDS = 0.0015
BOUND = 1e-6


def providers(subject: Subject) -> dict[str, Callable[[torch.Tensor], Call]]:
    """By name: what makes a call of a batch. Sessions are made once, and the one of the ratios first."""
    made: dict[str, Callable[[torch.Tensor], Call]] = {}
    for plan, path in sorted(subject.plans().items(), key=lambda item: item[0] != ONE):
        for mode, options in MODES.items():
            if plan == APART and mode == OWN:
                continue
            session = session_of(path, **options)
            made[f"{plan}, {mode}"] = lambda ids, s=session, on=mode == ORT: Call(s, ids, on)
    return made


def host_row(case: str, batch: int, provider: str, call: Call) -> Row:
    """The host's microseconds of a run, the device idle when it begins."""
    times = []
    for _ in range(HOST_RUNS):
        start = time.perf_counter_ns()
        call.launch()
        times.append((time.perf_counter_ns() - start) / 1000)
        torch.cuda.synchronize()
    p10, median, p90 = (round(float(value), 2) for value in np.percentile(times, [10, 50, 90]))
    return Row("streams: host", case, batch, provider, median, p10, p90, 0.0, HOST_RUNS, *about())


def single_node(folder: Path, columns: int) -> Path:
    """A model of one node of ONNX Runtime's own, with the inputs of the others."""
    rows = "batch"
    graph = helper.make_graph(
        [helper.make_node("Cast", ["ids"], ["y"], to=TensorProto.FLOAT)],
        "single",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [rows, columns])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, columns])],
    )
    path = folder / "single.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


def run(names: Sequence[str], batches: Sequence[int], seconds: float) -> Iterable[Row]:
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            subject = Subject(name, Path(folder))
            made = providers(subject)
            for batch in batches:
                ids = subject.ids(batch)
                calls = {provider: make(ids) for provider, make in made.items()}
                with torch.no_grad():
                    want = subject.module(ids)
                for provider, call in calls.items():
                    for _ in range(4):
                        got = call()
                    error = float((got - want).abs().max())
                    if not error <= BOUND:
                        raise SystemExit(f"{name}, {provider}, batch {batch}: differs from PyTorch by {error}")
                settings: dict[str, Any] = {"seconds": seconds, "turn": TURN_SECONDS, "pause": 0.0}
                yield from measure("streams", name, batch, calls, **settings)
                if batch == HOST_BATCH:
                    single = Call(session_of(single_node(Path(folder), ids.shape[1])), ids, False)
                    yield host_row(name, batch, "a single node", single)
                    yield from (host_row(name, batch, provider, call) for provider, call in calls.items())


def plot(rows: Sequence[Row], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    times = {(row.case, row.provider, row.batch): row.median_us for row in rows if row.benchmark == "streams"}
    names = list(dict.fromkeys(name for name, _, _ in times))
    batches = sorted({batch for _, _, batch in times})
    figure, axes = pyplot.subplots(1, len(names), figsize=(3.2 * len(names), 3.6), layout="constrained", squeeze=False)
    handles = {}
    for axis, name in zip(axes[0], names, strict=True):
        for plan, style in ((APART, ":"), (DEPTH, "--"), (BREADTH, "-"), (AUTO, "-.")):
            for mode, colour in ((OWN, "tab:blue"), (ORT, "tab:orange")):
                own = {batch: times.get((name, f"{plan}, {mode}", batch)) for batch in batches}
                points = [(b, us / times[name, f"{ONE}, {mode}", b]) for b, us in own.items() if us is not None]
                if points:
                    (line,) = axis.plot(*zip(*points, strict=True), style, marker=".", color=colour)
                    handles[f"{plan}, {mode}"] = line
        axis.axhline(1, color="tab:grey", linewidth=0.8)
        axis.set(title=name, xlabel="batch", xscale="log", ylim=(0.5, 1.15))
        axis.set_xticks(batches, [str(batch) for batch in batches], rotation=45)
        axis.minorticks_off()
    axes[0][0].set_ylabel("time, of one stream's")
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
    figure.suptitle(f"{rows[0].machine}, {rows[0].date}", fontsize=10)
    figure.savefig(path, dpi=90)


def read_csv(path: Path) -> list[Row]:
    with path.open(newline="") as file:
        types = {field.name: {"int": int, "float": float}.get(str(field.type), str) for field in fields(Row)}
        return [Row(**{key: types[key](value) for key, value in row.items()}) for row in csv.DictReader(file)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    parser.add_argument("--seconds", type=float, default=0.6, help="measuring time a model and batch")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--plot", action="store_true", help="only draw what streams_gpu.csv holds")
    arguments = parser.parse_args()
    table = arguments.results / "streams_gpu.csv"
    if not arguments.plot:
        torch.backends.cuda.matmul.allow_tf32 = False
        rows = []
        for row in run(arguments.models, arguments.batches, arguments.seconds):
            machine = f"{torch.cuda.get_device_name()}; {row.machine}"
            rows.append(replace(row, machine=machine, versions=f"{row.versions}; torch {torch.__version__}"))
            print(f"{row.benchmark} {row.case} {row.batch} {row.provider}: {row.median_us} {row.ratio}", flush=True)
        write_csv(table, rows)
    plot(read_csv(table), table.with_suffix(".png"))


if __name__ == "__main__":
    main()
