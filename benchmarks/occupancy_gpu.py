"""How full a GPU's multiprocessors are while a model's kernels run (beside the paper's Section V-E).

    python benchmarks/occupancy_gpu.py [--batch 2048] [--models NAME ...] [--results FOLDER]

Runs one call of each provider under NVIDIA's Nsight Compute (ncu), which must be on PATH and may read the hardware's
counters: kernels run one at a time then, so this says nothing about branches side by side. A row is a call: `occupancy`
is the share of the card's places for warps that are taken, idle multiprocessors counted in, and `active` the share of
multiprocessors that have any, both over the time of all its kernels. Writes occupancy_gpu.csv.
"""

from __future__ import annotations

import argparse
import csv
import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import RESULTS, about_gpu, python_command, write_table
from benchmarks.stream_plans import AUTO, MODELS, Call, Subject, session_of

EAGER, STOCK, OURS = "PyTorch eager", "ONNX Runtime", "dpiframe"
PROVIDERS = (EAGER, STOCK, OURS)
WARM_UP_CALLS = 5
# Stands between calls in the list of kernels: no model runs it.
MARKER = "bessel_j0"
WARPS, ACTIVE, TIME = (
    "sm__warps_active.avg.per_cycle_elapsed",
    "sm__cycles_active.avg.pct_of_peak_sustained_elapsed",
    "gpu__time_duration.sum",
)
WARPS_A_MULTIPROCESSOR = 64
"""Of compute capability 8.0, 9.0 and 10.0. Others have 48."""


def run_marked(models: Sequence[str], batch: int) -> None:
    """One profiled call of each model and provider, a marker before each."""
    mark = torch.zeros(1, device="cuda")
    for name in models:
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            subject = Subject(name, Path(folder))
            ids = subject.ids(batch)
            calls = {
                EAGER: lambda subject=subject, ids=ids: subject.module(ids),
                STOCK: Call(session_of(subject.file), ids, False),
                OURS: Call(session_of(subject.plans()[AUTO]), ids, False),
            }
            for provider in PROVIDERS:
                for _ in range(WARM_UP_CALLS):
                    calls[provider]()
                torch.cuda.synchronize()
                torch.cuda.profiler.start()
                torch.special.bessel_j0(mark)
                calls[provider]()
                torch.cuda.synchronize()
                torch.cuda.profiler.stop()


def calls_of(table: str) -> Iterator[list[dict[str, float]]]:
    """Each call's kernels, of what ncu prints: the metrics of one kernel a line, under a line of units."""
    lines = table.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith('"ID"'))
    call: list[dict[str, float]] | None = None
    for row in csv.DictReader(io.StringIO("\n".join(lines[begin:]))):
        if not row["ID"]:
            continue
        if MARKER in row["Kernel Name"]:
            if call is not None:
                yield call
            call = []
        elif call is not None:
            call.append({name: float(row[name].replace(",", "")) for name in (WARPS, ACTIVE, TIME)})
    if call is not None:
        yield call


def profile(models: Sequence[str], batch: int) -> str:
    tool = shutil.which("ncu")
    if tool is None:
        raise SystemExit("ncu isn't on PATH: it comes with CUDA's toolkit as Nsight Compute")
    command = [tool, "--csv", "--page", "raw", "--profile-from-start", "off", "--clock-control", "none"]
    command += ["--print-units", "base", "--metrics", ",".join((WARPS, ACTIVE, TIME))]
    command += python_command("benchmarks.occupancy_gpu", "--marked", "--batch", str(batch), "--models", *models)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or '"ID"' not in done.stdout:
        raise SystemExit(f"ncu failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--marked", action="store_true", help="only run what is to be profiled")
    arguments = parser.parse_args()
    if arguments.marked:
        run_marked(arguments.models, arguments.batch)
        return
    calls = list(calls_of(profile(arguments.models, arguments.batch)))
    names = [(model, provider) for model in arguments.models for provider in PROVIDERS]
    note = about_gpu()
    rows: list[dict[str, object]] = []
    for (model, provider), kernels in zip(names, calls, strict=True):
        ns = sum(kernel[TIME] for kernel in kernels)
        warps = sum(kernel[TIME] * kernel[WARPS] for kernel in kernels) / ns / WARPS_A_MULTIPROCESSOR
        active = sum(kernel[TIME] * kernel[ACTIVE] for kernel in kernels) / ns / 100
        row: dict[str, object] = {"model": model, "batch": arguments.batch, "provider": provider}
        row |= {"kernels": len(kernels), "kernels_us": round(ns / 1000, 2)}
        row |= {"occupancy": round(warps, 3), "active": round(active, 3)}
        print(*row.values(), flush=True)
        rows.append(row | note)
    write_table(arguments.results / "occupancy_gpu.csv", rows)


if __name__ == "__main__":
    main()
