"""Whole models on a CPU with and without the pass `fuse_elementwise`, and the part of them that is neither lookups nor
products with weights. One thread, random weights, 26 fields x dim 16.

    python benchmarks/elementwise_models_cpu.py [--seconds 2] [--only NAME] [--results FOLDER]

A model's part without products is the sum of its other nodes' median times in ONNX Runtime's profile; the two sides run
in turns, call by call. Writes elementwise_models_cpu.csv.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import RESULTS, Row, about, measure, print_table, session_options, write_csv
from dpiframe import models
from dpiframe.export import export_model
from dpiframe.graph_passes import pipeline
from dpiframe.graph_passes.elementwise.fuse import FuseElementwise
from dpiframe.models.schema import FeatureSchema, SparseField

FIELDS, DIM, ROWS = 26, 16, 10_000
BATCHES = (32, 256)
PROFILED = 60
APART = ("Gemm", "MatMul", "Conv", "FusedConv", "FusedMatMul", "FusedGemm", "FusedMultiGather")
Feeds = list[dict[str, np.ndarray]]


class WithDeepPart(nn.Module):
    """An explicit part, which gives logits of the embeddings, beside an MLP."""

    def __init__(self, explicit: nn.Module) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(ROWS, DIM) for _ in range(FIELDS))
        self.explicit = explicit
        self.deep = nn.Sequential(
            nn.Linear(FIELDS * DIM, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        embedded = torch.stack([table(ids[:, i]) for i, table in enumerate(self.tables)], 1)
        return torch.sigmoid(self.explicit(embedded) + self.deep(embedded.flatten(1)))


class AutoInt(nn.Module):
    """Three layers of self-attention, two heads. batch_first: as PyTorch's module is used."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.layers = nn.ModuleList(nn.MultiheadAttention(DIM, 2, batch_first=batch_first) for _ in range(3))
        self.head = nn.Linear(FIELDS * DIM, 1)

    def forward(self, embedded: torch.Tensor) -> torch.Tensor:
        x = embedded if self.batch_first else embedded.transpose(0, 1)
        for layer in self.layers:
            x = torch.relu(layer(x, x, x)[0] + x)
        x = x if self.batch_first else x.transpose(0, 1)
        return self.head(x.flatten(1))


class StackedHeads(nn.Module):
    """The same with heads that are split off and stacked in front."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList(nn.Linear(DIM, DIM, bias=False) for _ in range(4)) for _ in range(3))
        self.head = nn.Linear(FIELDS * DIM, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            q, k, v = (torch.stack(torch.split(linear(x), DIM // 2, dim=2)) for linear in layer[:3])
            weights = torch.softmax(torch.einsum("hbik,hbjk->hbij", q, k) / (DIM // 2) ** 0.5, -1)
            mixed = torch.squeeze(torch.cat(torch.split(torch.matmul(weights, v), 1), -1), 0)
            x = torch.relu(mixed + layer[3](x))
        return self.head(x.flatten(1))


class Compressed(nn.Module):
    """xDeepFM's interactions: outer products of the fields with the layer before, compressed by a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv1d(FIELDS * FIELDS, 64, 1), nn.Conv1d(FIELDS * 32, 64, 1)])
        self.head = nn.Linear(96, 1)

    def forward(self, embedded: torch.Tensor) -> torch.Tensor:
        pairs = torch.einsum("bhd,bmd->bhmd", embedded, embedded).reshape(-1, FIELDS * FIELDS, DIM)
        kept, first = torch.split(torch.relu(self.layers[0](pairs)), [32, 32], 1)
        pairs = torch.einsum("bhd,bmd->bhmd", kept, embedded).reshape(-1, 32 * FIELDS, DIM)
        second = torch.relu(self.layers[1](pairs))
        return self.head(torch.cat([first, second], 1).sum(-1))


SCHEMA = FeatureSchema(
    sparse=tuple(SparseField(f"field{i}", ROWS, DIM) for i in range(FIELDS)),
    dense=tuple(f"dense{i}" for i in range(13)),
)
MODELS: dict[str, Callable[[], nn.Module]] = {
    **{name: lambda name=name: models.create(name, SCHEMA) for name in ("dcn", "dcnv2", "deepfm", "dlrm", "wide_deep")},
    "AutoInt, batch first": lambda: WithDeepPart(AutoInt(True)),
    "AutoInt, sequence first": lambda: WithDeepPart(AutoInt(False)),
    "AutoInt, heads stacked": lambda: WithDeepPart(StackedHeads()),
    "xDeepFM": lambda: WithDeepPart(Compressed()),
}


def inputs(rng: np.random.Generator, batch: int, dense: bool) -> dict[str, np.ndarray]:
    made: dict[str, np.ndarray] = {"ids": rng.integers(0, ROWS, (batch, FIELDS))}
    if dense:
        made["dense"] = rng.standard_normal((batch, 13)).astype(np.float32)
    return made


def exported(model: nn.Module, dense: bool) -> onnx.ModelProto:
    example = [torch.from_numpy(array) for array in inputs(np.random.default_rng(0), 8, dense).values()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        names = ["ids", "dense"] if dense else ["ids"]
        export_model(model.eval(), example, path, exporter="torchscript", input_names=names)
        return onnx.load(path)


def open_session(model: onnx.ModelProto, profile: str = "") -> ort.InferenceSession:
    options = session_options(threads=1)
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def runner(model: onnx.ModelProto, feeds: Feeds) -> Callable[[], object]:
    session, turn = open_session(model), itertools.cycle(feeds)
    return lambda: session.run(None, next(turn))


def without_products(sides: dict[str, onnx.ModelProto], feeds: Feeds) -> dict[str, float]:
    """Microseconds of each side's nodes that are neither lookups nor products with weights."""
    with tempfile.TemporaryDirectory() as folder:
        sessions = {name: open_session(model, f"{folder}/{name}") for name, model in sides.items()}
        for run in range(PROFILED):
            for session in sessions.values():
                session.run(None, feeds[run % len(feeds)])
        return {name: _apart(Path(session.end_profiling())) for name, session in sessions.items()}


def _apart(profile: Path) -> float:
    times = defaultdict(list)
    for event in json.loads(profile.read_text()):
        is_kernel = event.get("cat") == "Node" and event["name"].endswith("_kernel_time")
        if is_kernel and event["args"]["op_name"].split("_")[0] not in APART:
            times[event["name"]].append(event["dur"])
    return sum(float(np.median(taken)) for taken in times.values())


def benchmark(name: str, seconds: float) -> list[Row]:
    torch.manual_seed(0)
    dense = name in models.names()
    model = exported(MODELS[name](), dense)
    passes = [kind for kind in pipeline.PASSES if kind is not FuseElementwise]
    sides = {
        "without": pipeline.optimize_model(model, provider="cpu", passes=passes).model,
        "fuse_elementwise": pipeline.optimize_model(model, provider="cpu").model,
    }
    rows: list[Row] = []
    for batch in BATCHES:
        rng = np.random.default_rng(0)
        feeds = [inputs(rng, batch, dense) for _ in range(8)]
        before, after = (open_session(side).run(None, feeds[0])[0] for side in sides.values())
        assert np.abs(before - after).max() <= 1e-6, name
        rows += measure("elementwise_models_cpu", name, batch, {k: runner(m, feeds) for k, m in sides.items()}, seconds)
        apart = without_products(sides, feeds)
        for side, us in apart.items():
            ratio = round(apart["without"] / us, 3)
            times = (round(us, 2), round(us, 2), round(us, 2), ratio, PROFILED)
            rows.append(Row("elementwise_models_cpu", f"{name}: no products", batch, side, *times, *about()))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each model and batch")
    parser.add_argument("--only", default="", help="models whose name holds this")
    parser.add_argument("--results", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    rows = [row for name in MODELS if chosen.only in name for row in benchmark(name, chosen.seconds)]
    write_csv(chosen.results / "elementwise_models_cpu.csv", rows)
    print_table(rows)


if __name__ == "__main__":
    main()
