"""The four models trained for real: AUC and LogLoss of PyTorch, of the exported file and of ours (the paper's Table I).

    python benchmarks/accuracy.py [--provider cpu|cuda] [--criteo FILE] [--avazu FILE] [--folder FOLDER]

Data: MovieLens-100K, Criteo and Avazu where their files are given, and generated clicks. What is trained goes to the
folder, and what lies there isn't trained again: so it may be trained on one machine and measured on others. PyTorch
runs on the same provider, and differences are from its probabilities. Writes accuracy_cpu.csv or accuracy_cuda.csv.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import onnxruntime as ort
import torch
from rich.console import Console

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.configurations import MODELS
from benchmarks.harness import RESULTS, about, session_options
from benchmarks.model_rows import OURS
from dpiframe import models
from dpiframe.export import export_model
from dpiframe.graph_passes.model_io import load, save
from dpiframe.graph_passes.pipeline import optimize_model
from dpiframe.models.cli import Format, read
from dpiframe.models.data import Dataset

TEST_BATCH = 2048
GENERATED_ROWS = 400_000
MOST_ROWS = 2_000_000


@dataclass
class Row:
    """One way of running one trained model over all test rows; differences are of probabilities, from PyTorch's."""

    dataset: str
    model: str
    test_rows: int
    provider: str
    precision: str
    auc: str
    log_loss: str
    largest_difference: float
    mean_difference: float
    machine: str
    versions: str
    date: str


def trained(folder: Path, dataset: Format, file: Path | None, seconds: float) -> Iterator[tuple[str, models.CTRModel]]:
    """Names and models; DATASET.npz in the folder has the test rows. Trains what isn't there yet."""
    missing = [name for name in MODELS if not (folder / f"{dataset}_{name}.pt").exists()]
    if missing:
        rows = GENERATED_ROWS if dataset == "generated" else MOST_ROWS
        options = {"rows": rows, "dim": 16, "min_count": 10, "buckets": None, "seed": 0}
        data, encoder = read(MODELS[0], file, dataset, **options, console=Console(quiet=True))
        training, validation, test = data.split(0.8, 0.1, 0.1)
        np.savez_compressed(folder / f"{dataset}.npz", ids=test.ids, dense=test.dense, labels=test.labels)
        for name in missing:
            torch.manual_seed(0)
            model = models.create(name, data.schema)
            models.train(model, training, validation, batch_size=1024, learning_rate=2e-3, seconds=seconds)
            models.save_checkpoint(folder / f"{dataset}_{name}.pt", models.Checkpoint(model, encoder))
    for name in MODELS:
        yield name, models.load_checkpoint(folder / f"{dataset}_{name}.pt").model


Run = Callable[[list[np.ndarray]], np.ndarray]


def runs_of(model: models.CTRModel, test: Dataset, provider: str, folder: Path) -> Iterator[tuple[str, str, Run]]:
    """Name, precision, and what answers a batch."""
    device = torch.device(provider)
    model.to(device)

    def pytorch(inputs: list[np.ndarray]) -> np.ndarray:
        with torch.no_grad():
            return model(*(torch.from_numpy(one).to(device) for one in inputs)).cpu().numpy()

    yield "PyTorch", "fp32", pytorch
    model.to("cpu")
    file = folder / f"{model.name}.onnx"
    example = [torch.from_numpy(one) for one in test.schema.model_inputs(test.ids[:8], test.dense[:8])]
    export_model(model, example, file, exporter="torchscript", input_names=test.schema.input_names)
    yield "ONNX Runtime", "fp32", session_run(file, provider, ours=False)
    for precision in ("fp32",) if provider == "cpu" else ("fp32", "tf32", "fp16"):
        optimized = folder / f"{model.name}.{precision}.onnx"
        save(optimize_model(load(file), provider=provider, precision=precision).model, optimized)
        yield OURS, precision, session_run(optimized, provider, ours=True)


def session_run(path: Path, provider: str, *, ours: bool) -> Run:
    cuda = ("CUDAExecutionProvider", {"use_tf32": "0"})
    providers = [cuda] if provider == "cuda" else ["CPUExecutionProvider"]
    session = ort.InferenceSession(path, session_options(ours=ours), providers=providers)
    names = [given.name for given in session.get_inputs()]

    def run(inputs: list[np.ndarray]) -> np.ndarray:
        return session.run(None, dict(zip(names, inputs, strict=True)))[0]

    return run


def answers(run: Run, test: Dataset) -> np.ndarray:
    parts = []
    for start in range(0, len(test), TEST_BATCH):
        rows = slice(start, start + TEST_BATCH)
        parts.append(
            run([np.ascontiguousarray(one) for one in test.schema.model_inputs(test.ids[rows], test.dense[rows])])
        )
    return np.concatenate(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--criteo", type=Path, help="train.txt of the Criteo display advertising challenge")
    parser.add_argument("--avazu", type=Path, help="train of the Avazu click-through challenge")
    parser.add_argument("--seconds", type=float, default=60, help="training time a model")
    parser.add_argument("--folder", type=Path, help="where trained models and test rows are, or go")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    machine, versions, date = about()
    if arguments.provider == "cuda":
        machine = torch.cuda.get_device_name()
    versions += f"; torch {torch.__version__}"
    files = {"movielens": None, "generated": None, "criteo": arguments.criteo, "avazu": arguments.avazu}
    arguments.results.mkdir(parents=True, exist_ok=True)
    path = arguments.results / f"accuracy_{arguments.provider}.csv"
    with tempfile.TemporaryDirectory() as work, path.open("w", newline="") as out:
        writer = csv.DictWriter(out, [field.name for field in fields(Row)])
        writer.writeheader()
        folder = arguments.folder or Path(work)
        folder.mkdir(parents=True, exist_ok=True)
        for dataset, file in files.items():
            if dataset in ("criteo", "avazu") and file is None:
                continue
            for name, model in trained(folder, dataset, file, arguments.seconds):
                test = Dataset(model.schema, **np.load(folder / f"{dataset}.npz"))
                expected = None
                for provider, precision, run in runs_of(model, test, arguments.provider, Path(work)):
                    given = answers(run, test)
                    expected = given if expected is None else expected
                    apart = np.abs(given.astype(np.float64) - expected)
                    scores = (models.auc(test.labels, given), models.log_loss(test.labels, given))
                    row = Row(
                        *(dataset, name, len(test), provider, precision, *(f"{score:.6f}" for score in scores)),
                        *(float(f"{apart.max():.3g}"), float(f"{apart.mean():.3g}"), machine, versions, date),
                    )
                    writer.writerow(asdict(row))
                    print(*asdict(row).values(), flush=True)
                out.flush()


if __name__ == "__main__":
    main()
