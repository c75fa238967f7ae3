"""Whole models on a CPU: PyTorch, torch.compile, ONNX Runtime, OpenVINO and ours, all in one process, in turns.

    python benchmarks/end_to_end_cpu.py [--models NAME ...] [--batches N ...] [--threads 2] [--results FOLDER]

Criteo's 39 fields x dim 16, hidden layers of 256, ids in one matrix, float32 throughout (OpenVINO's own choice would be
bfloat16 on some processors). What isn't installed is left out. Writes end_to_end_cpu.csv.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import torch

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.configurations import MODELS, Configuration
from benchmarks.harness import RESULTS, session_options, time_in_turns
from benchmarks.model_rows import OURS, write_rows
from dpiframe.export import export_model
from dpiframe.graph_passes.model_io import load, save
from dpiframe.graph_passes.pipeline import optimize_model

BATCHES = (1, 16, 64, 512, 2048)

Answer = Callable[[np.ndarray], np.ndarray]


def providers(module: torch.nn.Module, file: Path, threads: int) -> Iterator[tuple[str, Answer]]:
    """Name and what answers a batch of ids, int64 [batch, fields], with probabilities, [batch, 1]."""
    yield "PyTorch eager", torch_answer(module)
    # one compilation for all batch sizes but 1
    yield "torch.compile", torch_answer(torch.compile(module, dynamic=True))
    yield "ONNX Runtime", session_answer(file, threads, ours=False)
    if importlib.util.find_spec("openvino") is not None:
        yield "OpenVINO", openvino_answer(file, threads)
    optimized = file.with_name("optimized.onnx")
    save(optimize_model(load(file), provider="cpu").model, optimized)
    yield OURS, session_answer(optimized, threads, ours=True)


def torch_answer(module: Callable[[torch.Tensor], torch.Tensor]) -> Answer:
    def answer(ids: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return module(torch.from_numpy(ids)).numpy()

    return answer


def session_answer(path: Path, threads: int, *, ours: bool) -> Answer:
    options = session_options(ours=ours, threads=threads)
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda ids: session.run(None, {"ids": ids})[0]


def openvino_answer(path: Path, threads: int) -> Answer:
    import openvino

    settings = {
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": str(threads),
    }
    request = openvino.Core().compile_model(path, "CPU", settings).create_infer_request()
    return lambda ids: request.infer({"ids": ids}, share_inputs=True, share_outputs=True)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS, metavar="NAME")
    parser.add_argument("--batches", nargs="+", type=int, default=BATCHES, metavar="N")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=5, help="measuring time a model and batch")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    versions = f"torch {torch.__version__}; {arguments.threads} threads"
    if importlib.util.find_spec("openvino") is not None:
        versions += f"; openvino {importlib.metadata.version('openvino')}"
    with (
        tempfile.TemporaryDirectory() as folder,
        write_rows(arguments.results / "end_to_end_cpu.csv", more_versions=versions) as rows,
    ):
        for name in arguments.models:
            base = Configuration(name)
            module, file = base.module(), Path(folder) / "model.onnx"
            example = [torch.from_numpy(base.schema().random_batch(8)[0])]
            export_model(module, example, file, exporter="torchscript", input_names=base.schema().input_names)
            answers = dict(providers(module, file, arguments.threads))
            exact = base.module().double()
            for batch in arguments.batches:
                configuration = dataclasses.replace(base, batch=batch)
                ids = configuration.ids()
                with torch.no_grad():
                    expected = exact(ids).numpy()
                results = measured(answers, ids.numpy(), expected, arguments.seconds)
                rows.add("cpu", configuration, results)
                print(name, batch, *(f"{r['provider']} {r['median_us']:.0f}" for r in results), sep="  ", flush=True)


def measured(answers: dict[str, Answer], ids: np.ndarray, expected: np.ndarray, seconds: float) -> list[dict[str, Any]]:
    """A dictionary a provider, in the order of `answers`."""
    errors = {name: float(np.abs(answer(ids) - expected).max()) for name, answer in answers.items()}
    times = time_in_turns({name: lambda answer=answer: answer(ids) for name, answer in answers.items()}, seconds)
    return [
        {
            "provider": name,
            "precision": "fp32",
            "error": errors[name],
            "median_us": taken.median_us,
            "p10_us": taken.p10_us,
            "p90_us": taken.p90_us,
        }
        for name, taken in times.items()
    ]


if __name__ == "__main__":
    main()
