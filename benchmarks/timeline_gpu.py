"""What runs when on a GPU: a picture of one call, kernel by kernel and stream by stream, and how busy the card is.

    python benchmarks/timeline_gpu.py [--batch 2048] [--results FOLDER] [--pictures FOLDER] [--plot]

Kernels' times come from CUPTI (PyTorch's profiler), of runs on inputs that lie on the device; regions launch directly.
`busy` is the share of a call's wall time, measured without the profiler, in which at least one kernel or copy runs (the
paper's Section V-E). Writes timeline_gpu.csv (a row a kernel, of the call of median length), utilization_gpu.csv and
timeline_gpu.png; --plot draws the latter again.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import RESULTS, about_gpu, measure, write_table
from benchmarks.stream_plans import BREADTH, MODELS, ONE, Call, Subject, session_of

PICTURES = Path(__file__).resolve().parents[1] / "docs"
EAGER, STOCK, OURS_ONE, OURS_TWO = "PyTorch eager", "ONNX Runtime", "one stream", "breadth-first, two streams"
CALLS = 30
KINDS = {"lookup": "tab:green", "product": "tab:blue", "elementwise": "tab:orange"}
Kernel = dict[str, str | float]


def kind_of(kernel: str) -> str:
    lower = kernel.lower()
    if "lookup" in lower:
        return "lookup"
    return "product" if "gemm" in lower else "elementwise"


def trace(run: Callable[[], object]) -> list[list[Kernel]]:
    """Kernels and copies of each of CALLS calls: stream, name, start and duration in µs from the call's first start.
    run: returns when its work is done."""
    for _ in range(5):
        run()
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(CALLS):
            with torch.profiler.record_function("one call"):
                run()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        profile.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    calls = sorted(
        (float(e["ts"]), float(e["ts"]) + float(e["dur"]))
        for e in events
        if e.get("name") == "one call" and e.get("cat") == "user_annotation"
    )
    found: list[list[Kernel]] = [[] for _ in calls]
    for event in events:
        if event.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        start = float(event["ts"])
        place = next((i for i, (begin, end) in enumerate(calls) if begin <= start <= end), None)
        if place is None:
            continue
        stream = str(event["args"]["stream"])
        found[place].append({"stream": stream, "kernel": event["name"], "start": start, "us": float(event["dur"])})
    for kernels in found:
        kernels.sort(key=lambda kernel: float(kernel["start"]))
        zero = float(kernels[0]["start"])
        for kernel in kernels:
            kernel["start"] = round(float(kernel["start"]) - zero, 3)
    return found


def length(kernels: Sequence[Kernel]) -> float:
    return max(float(kernel["start"]) + float(kernel["us"]) for kernel in kernels)


def covered(kernels: Sequence[Kernel]) -> float:
    """Microseconds in which at least one of them runs."""
    total = end = 0.0
    for kernel in kernels:
        start, stop = float(kernel["start"]), float(kernel["start"]) + float(kernel["us"])
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


def of_median_length(calls: Sequence[list[Kernel]]) -> list[Kernel]:
    return sorted(calls, key=length)[len(calls) // 2]


def providers(subject: Subject, ids: torch.Tensor) -> dict[str, Callable[[], object]]:
    plans = subject.plans()

    def eager() -> None:
        with torch.no_grad():
            subject.module(ids)
        torch.cuda.synchronize()

    made: dict[str, Callable[[], object]] = {
        EAGER: eager,
        STOCK: Call(session_of(subject.file), ids, False),
        OURS_ONE: Call(session_of(plans[ONE], own_graphs=False), ids, False),
        "dpiframe, own graph": Call(session_of(plans[ONE]), ids, False),
        "dpiframe, ONNX Runtime's graph": Call(session_of(plans[ONE], ort_graphs=True), ids, True),
    }
    if BREADTH in plans:
        made[OURS_TWO] = Call(session_of(plans[BREADTH], own_graphs=False), ids, False)
    return made


def plot(rows: Sequence[Mapping[str, str]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import patches, pyplot

    names = list(dict.fromkeys(row["model"] for row in rows))
    plans = (OURS_ONE, OURS_TWO)
    figure, axes = pyplot.subplots(
        len(names), 2, figsize=(11, 1.3 * len(names) + 0.8), layout="constrained", squeeze=False
    )
    for line, name in zip(axes, names, strict=True):
        mine = [row for row in rows if row["model"] == name and row["provider"] in plans]
        end = max(float(row["start_us"]) + float(row["us"]) for row in mine)
        for axis, plan in zip(line, plans, strict=True):
            own = [row for row in mine if row["provider"] == plan]
            if not own:
                axis.axis("off")
                continue
            streams = list(dict.fromkeys(row["stream"] for row in own))
            for row in own:
                place = streams.index(row["stream"])
                span = [(float(row["start_us"]), float(row["us"]))]
                axis.broken_barh(span, (place - 0.4, 0.8), color=KINDS[row["kind"]], edgecolor="white")
            axis.set(title=f"{name}, {plan}", xlim=(0, end * 1.02), ylim=(len(streams) - 0.4, -0.6))
            axis.set_yticks(range(len(streams)), [f"stream {i}" for i in range(len(streams))])
    for axis in axes[-1]:
        axis.set_xlabel("µs")
    figure.legend(
        handles=[patches.Patch(color=colour, label=kind) for kind, colour in KINDS.items()],
        ncols=3,
        loc="outside lower center",
    )
    figure.suptitle(f"One call, batch {rows[0]['batch']}, {rows[0]['card']}, {rows[0]['date']}", fontsize=10)
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--pictures", type=Path, default=PICTURES)
    parser.add_argument("--plot", action="store_true", help="only draw what timeline_gpu.csv holds")
    arguments = parser.parse_args()
    table = arguments.results / "timeline_gpu.csv"
    if not arguments.plot:
        kernels: list[dict[str, object]] = []
        shares: list[dict[str, object]] = []
        note = about_gpu()
        for name in arguments.models:
            with tempfile.TemporaryDirectory() as folder:
                subject = Subject(name, Path(folder))
                runs = providers(subject, subject.ids(arguments.batch))
                traces = {provider: trace(run) for provider, run in runs.items()}
                walls = measure("", "", 0, runs, seconds=0.4, turn=0.005, pause=0.0)
            base: dict[str, object] = {"model": name, "batch": arguments.batch}
            for row in walls:
                call = of_median_length(traces[row.provider])
                busy = sorted(covered(kernels) for kernels in traces[row.provider])[CALLS // 2]
                share = {"kernels": len(call), "busy_us": round(busy, 2), "wall_us": float(row.median_us)}
                shares.append(
                    base | {"provider": row.provider, **share, "busy": round(busy / float(row.median_us), 3), **note}
                )
                print(shares[-1], flush=True)
                if row.provider in (OURS_ONE, OURS_TWO):
                    for kernel in call:
                        values = {"stream": kernel["stream"], "kind": kind_of(str(kernel["kernel"]))}
                        times = {"start_us": kernel["start"], "us": kernel["us"]}
                        kernels.append(base | {"provider": row.provider, **values, **times, **note})
        write_table(table, kernels)
        write_table(table.with_name("utilization_gpu.csv"), shares)
    with table.open(newline="") as file:
        plot(list(csv.DictReader(file)), arguments.pictures / "timeline_gpu.png")


if __name__ == "__main__":
    main()
