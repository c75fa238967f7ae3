"""Every reference model by both exporters: trained a little, exported, optimized; answers and latency before and after.

    python benchmarks/reference_models.py [--seconds 5] [--models NAME ...] [--results FOLDER]

AUC and LogLoss on the generator's test rows, of PyTorch, the exported file and the optimized one. Latency on all cores.
Writes reference_models_cpu.csv.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import dpiframe
from benchmarks.harness import RESULTS, about
from dpiframe import models
from dpiframe.export import export_model
from dpiframe.models.cli import read
from dpiframe.models.demo import BATCHES, answer_all, open_sessions, score_answers, time_pair
from dpiframe.models.training import predict, train


def benchmark(name: str, seconds: float, folder: Path) -> list[dict[str, Any]]:
    quiet = Console(quiet=True)
    dataset, _ = read(name, None, None, rows=240_000, dim=16, min_count=10, buckets=None, seed=0, console=quiet)
    training, validation, test = dataset.split(0.8, 0.1, 0.1)
    schema = dataset.schema
    torch.manual_seed(0)
    model = models.create(name, schema)
    train(model, training, validation, batch_size=1024, learning_rate=2e-3, seconds=seconds, seed=0)
    example = schema.model_inputs(torch.from_numpy(test.ids[:8]), torch.from_numpy(test.dense[:8]))
    rows = []
    for exporter in ("dynamo", "torchscript"):
        original, optimized = folder / f"{name}_{exporter}.onnx", folder / f"{name}_{exporter}.opt.onnx"
        export_model(
            model, example, original, exporter=exporter, input_names=schema.input_names, output_names=model.output_names
        )
        report = dpiframe.optimize(original, optimized, provider="cpu")
        before, after = open_sessions(original, optimized, "cpu")
        scores = [
            score_answers("pytorch", predict(model, test), test),
            score_answers("original", answer_all(before, test), test),
            score_answers("optimized", answer_all(after, test), test),
        ]
        row: dict[str, Any] = {
            "model": name,
            "exporter": exporter,
            "lookups": report.lookups_before,
            "fused": report.lookups_fused,
            "nodes_before": report.nodes_before,
            "nodes_after": report.nodes_after,
        }
        for one in scores:
            row |= {f"auc_{one.name}": f"{one.auc:.6f}", f"log_loss_{one.name}": f"{one.log_loss:.6f}"}
        for batch in BATCHES:
            timing = time_pair(batch, before, after, test)
            row |= {
                f"ms_before_{batch}": f"{timing.original:.4f}",
                f"ms_after_{batch}": f"{timing.optimized:.4f}",
                f"ratio_{batch}": f"{timing.ratio:.3f}",
            }
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5, help="training time a model")
    parser.add_argument("--models", nargs="+", default=models.names(), choices=models.names(), metavar="NAME")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    machine, versions, date = about()
    arguments.results.mkdir(parents=True, exist_ok=True)
    table = arguments.results / "reference_models_cpu.csv"
    writer = None
    with tempfile.TemporaryDirectory() as folder, table.open("w", newline="") as file:
        for name in arguments.models:
            for row in benchmark(name, arguments.seconds, Path(folder)):
                row |= {"machine": machine, "versions": versions, "date": date}
                if writer is None:
                    writer = csv.DictWriter(file, list(row))
                    writer.writeheader()
                writer.writerow(row)
                file.flush()
                print(f"{name} by {row['exporter']}:", *(f"{key} {row[key]}" for key in list(row)[2:-3]), flush=True)


if __name__ == "__main__":
    main()
