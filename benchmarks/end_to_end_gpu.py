"""Whole models on a GPU: the paper's 48 configurations, components one by one, and sizes (its Fig. 7 and 8, Table II).

    python benchmarks/end_to_end_gpu.py [--study NAME] [--results FOLDER] [--jobs N]

Studies: paper, the 48 beside all peers but torch.compile; compile, the 48 beside torch.compile, which takes minutes;
modes, torch.compile's modes on one configuration of each model; quick, four configurations beside all; ablation;
scaling. Each row is the wall time of one call on inputs that lie on the device, its wait for the result included. A
provider that can't run a configuration has its reason instead. Writes end_to_end_gpu.csv, or STUDY_gpu.csv.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.configurations import MODELS, Configuration, paper
from benchmarks.gpu_floor import floors
from benchmarks.gpu_workers import Result, Task, run_waves
from benchmarks.harness import RESULTS, peers_versions
from benchmarks.model_rows import write_rows


def tasks_of(study: str, seconds: float) -> Iterator[Task]:
    """The slowest to set up come first, so that they don't stand alone in the last wave."""
    if study == "paper":
        yield from (Task(configuration, ("PEERS", "ALL_OURS"), seconds) for configuration in paper())
    elif study == "compile":
        yield from (
            Task(configuration, ("COMPILED", "OUR_SESSION", "OUR_GRAPH"), seconds / 2) for configuration in paper()
        )
    elif study == "modes":
        # A mode a wave: autotuning takes minutes, and what was measured before it is written before it.
        for mode in ("REDUCE_OVERHEAD", "COMPILED", "MAX_AUTOTUNE_GRAPH", "MAX_AUTOTUNE"):
            yield from (Task(Configuration(model), (mode, "OUR_GRAPH"), seconds) for model in MODELS)
    elif study == "quick":
        providers = ("PEERS", "COMPILED", "ALL_OURS")
        yield from (Task(Configuration(model, dataset), providers, seconds) for model, dataset in QUICK)
    elif study == "ablation":
        yield from (Task(Configuration(model), ("ABLATION",), seconds) for model in MODELS)
    else:
        for rows in (2_560_000, 1_000_000, 256_000, 25_600):
            yield Task(Configuration("dcn", f"39x{rows}"), SCALING, seconds)
        for fields in (1000, 512, 256, 128, 64, 39, 16, 8):
            yield Task(Configuration("dcn", f"{fields}x10000"), SCALING, seconds)
        for batch in (65536, 16384, 4096, 2048, 1024, 256, 64, 16, 1):
            yield Task(Configuration("dcn", batch=batch), SCALING, seconds)


QUICK = (("dcn", "criteo"), ("dcnv2", "criteo"), ("wide_deep", "avazu"), ("deepfm", "criteo"))
SCALING = ("EAGER", "TORCH_GRAPH", "STOCK", "OUR_SESSION", "OUR_GRAPH")
STUDIES = ("paper", "compile", "modes", "quick", "ablation", "scaling")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", choices=STUDIES, default="paper")
    parser.add_argument("--seconds", type=float, default=1.0, help="measuring time a configuration")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--jobs", type=int, default=min(16, os.cpu_count() or 1), help="set up at the same time")
    arguments = parser.parse_args()
    # Read when PyTorch's compiler is imported. The processes are parallel already.
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "4" if arguments.study == "modes" else "1"
    os.environ["OMP_NUM_THREADS"] = "1"
    name = "end_to_end" if arguments.study == "paper" else arguments.study
    jobs = min(arguments.jobs, len(MODELS)) if arguments.study == "modes" else arguments.jobs
    path = arguments.results / f"{name}_gpu.csv"
    with write_rows(path, gpu_name(), peers_versions()) as rows:
        for task, results in run_waves(tasks_of(arguments.study, arguments.seconds), jobs):
            configuration = task.configuration
            if isinstance(results, str):
                results = [{"provider": "all", "precision": "", "refusal": results}]
            elif arguments.study == "scaling":
                results += floors(configuration)
            rows.add(arguments.study, configuration, results)
            print(configuration, *map(line, results), sep="\n  ", flush=True)


def line(result: Result) -> str:
    took = result.get("median_us", result.get("refusal"))
    set_up = f", set up in {result['set_up_s']:.1f} s" if "set_up_s" in result else ""
    return f"{result['provider']} {result['precision']}: {took}{set_up}, error {result.get('error', 0):.2g}"


def gpu_name() -> str:
    """Found out in a process of its own: a fork of one that uses CUDA can't use it."""
    code = "import torch; print(torch.cuda.get_device_name())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


if __name__ == "__main__":
    main()
