"""Whole models on a GPU: four models, dims, hidden sizes, two datasets' fields (the paper's Fig. 7 and 8, Table II).

    python benchmarks/end_to_end_gpu.py [--quick] [--compile] [--ablation] [--batch 2048] [--out FILE.csv]

Each row is the wall time of one call on inputs that lie on the device, its wait for the result included. Every provider
has the same weights and inputs, in float32 without TF32 unless its name says otherwise. `error` is the largest
difference of a probability from PyTorch's in float64. A provider that can't run a configuration has its reason instead.
"""

from __future__ import annotations

import argparse
import copy
import csv
import functools
import itertools
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch

sys.path.append(str(Path(__file__).resolve().parents[1]))

import dpiframe
from benchmarks.harness import RESULTS, about, measure
from dpiframe import models
from dpiframe.export import export_model
from dpiframe.graph_passes.canonicalize import Canonicalize
from dpiframe.graph_passes.cleanup import Cleanup
from dpiframe.graph_passes.elementwise.fuse import FuseElementwise
from dpiframe.graph_passes.gemm.fuse import FuseGemm
from dpiframe.graph_passes.lookups.fuse import FuseLookups
from dpiframe.graph_passes.pass_base import Pass
from dpiframe.graph_passes.pipeline import PASSES, optimize_model
from dpiframe.graph_passes.streams.assign import AssignStreams

MODELS = ("dcn", "dcnv2", "wide_deep", "deepfm")
DIMS = (16, 32)
HIDDEN = (256, 512, 1024)
OURS = "dpiframe"
MAX_CONCAT = 32
"""Inputs of a Concat that ONNX Runtime can capture."""
ABLATION: dict[str, tuple[type[Pass], ...]] = {
    "lookups": (Canonicalize, FuseLookups, Cleanup),
    "+ elementwise": (Canonicalize, FuseLookups, FuseElementwise, Cleanup),
    "+ GEMM": (Canonicalize, FuseLookups, FuseGemm, FuseElementwise, Cleanup),
    "+ streams": (Canonicalize, FuseLookups, FuseGemm, FuseElementwise, AssignStreams, Cleanup),
}
"""Component by component, as in the paper's Fig. 8."""

# Rows of each field's table after rare values are dropped, rounded: as published preprocessings of the two have them.
DATASETS = {
    "criteo": (
        *(1500, 600, 200, 100, 250_000, 25_000, 8000, 100, 9000, 6000, 12_000, 2000, 150),  # the 13 counts, in buckets
        *(1460, 580, 400_000, 250_000, 305, 24, 12_500, 633, 4, 93_000, 5600, 350_000, 3200),
        *(27, 14_900, 300_000, 11, 5600, 2170, 4, 320_000, 18, 16, 61_000, 105, 46_000),
    ),
    "avazu": (
        240,
        8,
        8,
        4700,
        7700,
        26,
        8500,
        560,
        36,
        270_000,
        1_000_000,
        8300,
        5,
        5,
        2600,
        9,
        10,
        440,
        4,
        68,
        170,
        60,
        25,
        32,
    ),
}

Call = Callable[[], torch.Tensor]


@dataclass
class Row:
    """One provider's time for one configuration, in microseconds. ratio: the fastest peer's time over this one's."""

    model: str
    dataset: str
    dim: int
    hidden: int
    batch: int
    provider: str
    precision: str
    median_us: float | None
    p10_us: float | None
    p90_us: float | None
    ratio_to_best_peer: float | None
    error: float | None
    refusal: str
    card: str
    versions: str
    date: str


def schema_of(dataset: str, dim: int) -> models.FeatureSchema:
    """Every field looked up, as the paper has it, ids in one matrix."""
    return models.FeatureSchema(
        sparse=tuple(models.SparseField(f"f{i}", rows, dim) for i, rows in enumerate(DATASETS[dataset]))
    )


class Configuration:
    """A model with its weights and inputs, and one call for each provider, made when it is asked for."""

    def __init__(self, name: str, dataset: str, dim: int, hidden: int, batch: int, folder: Path) -> None:
        self.schema = schema_of(dataset, dim)
        torch.manual_seed(0)
        module = models.create(name, self.schema, hidden=(hidden,) * 3)
        self.ids = torch.from_numpy(self.schema.random_batch(batch, seed=1)[0]).cuda()
        self.file = folder / "model.onnx"
        example = [torch.from_numpy(self.schema.random_batch(8)[0])]
        export_model(module, example, self.file, exporter="torchscript", input_names=self.schema.input_names)
        self.module = module.cuda().eval()
        with torch.no_grad():
            self.exact = copy.deepcopy(self.module).double()(self.ids).cpu().numpy()
        self.folder = folder

    def providers(self, compiled: bool, ablation: bool) -> Iterator[tuple[str, str, Callable[[], Call]]]:
        """Name, precision, and what sets the provider up."""
        if ablation:
            yield "PyTorch eager", "fp32", lambda: self._module
            yield "ONNX Runtime", "fp32", lambda: self._session(self.file, graph=False)
            for what, passes in ABLATION.items():
                for graph in (False, True):
                    name = f"{OURS}: {what}{', CUDA graph' * graph}"
                    file = self._optimized("fp32", what, passes)
                    yield name, "fp32", lambda file=file, graph=graph: self._session(file, graph=graph)
            return
        yield "PyTorch eager", "fp32", lambda: self._module
        yield "PyTorch CUDA graph", "fp32", lambda: captured(self._module)
        if compiled:
            yield "torch.compile reduce-overhead", "fp32", lambda: self._compiled("reduce-overhead")
            yield "torch.compile max-autotune", "fp32", lambda: self._compiled("max-autotune")
        yield "ONNX Runtime", "fp32", lambda: self._session(self.file, graph=False)
        yield "ONNX Runtime, CUDA graph", "fp32", lambda: self._stock_graph()
        yield OURS, "fp32", lambda: self._session(self._optimized("fp32"), graph=False)
        for precision in ("fp32", "tf32", "fp16"):
            yield (
                f"{OURS}, CUDA graph",
                precision,
                lambda precision=precision: self._session(self._optimized(precision), graph=True),
            )

    def _module(self) -> torch.Tensor:
        with torch.no_grad():
            result: torch.Tensor = self.module(self.ids)
        return result

    def _compiled(self, mode: str) -> Call:
        compiled = torch.compile(self.module, mode=mode)

        def call() -> torch.Tensor:
            with torch.no_grad():
                result: torch.Tensor = compiled(self.ids)
            return result

        return call

    def _optimized(self, precision: str, what: str = "", passes: tuple[type[Pass], ...] = PASSES) -> Path:
        path = self.folder / f"model.{precision}.{what.replace(' ', '_')}.onnx"
        if not path.exists():
            model = onnx.load(self.file)
            result = optimize_model(model, provider="cuda", precision=precision, passes=passes).model
            print(f"  {precision} {what}: {Counter(node.op_type for node in result.graph.node)}", flush=True)
            onnx.save(result, path)
        return path

    def _stock_graph(self) -> Call:
        """What refuses a capture leaves its stream capturing, and nothing else on the device ever finishes: so the
        first attempt is another process's."""
        wide = any(len(node.input) > MAX_CONCAT for node in onnx.load(self.file).graph.node if node.op_type == "Concat")
        if wide:
            raise RuntimeError(refusal_of_wide_concat())
        return self._session(self.file, graph=True)

    def _session(self, path: Path, *, graph: bool) -> Call:
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.register_custom_ops_library(str(dpiframe.library_path()))
        cuda = ("CUDAExecutionProvider", {"use_tf32": "0", "enable_cuda_graph": str(int(graph))})
        session = ort.InferenceSession(path, options, providers=[cuda])
        output = torch.empty((len(self.ids), 1), device="cuda")
        binding = session.io_binding()
        (given,) = session.get_inputs()
        (taken,) = session.get_outputs()
        binding.bind_input(given.name, "cuda", 0, np.int64, list(self.ids.shape), self.ids.data_ptr())
        binding.bind_output(taken.name, "cuda", 0, np.float32, list(output.shape), output.data_ptr())

        def call() -> torch.Tensor:
            session.run_with_iobinding(binding)
            return output

        return call


@functools.cache
def refusal_of_wide_concat() -> str:
    """ONNX Runtime's own words for a Concat of more inputs than it captures."""
    code = textwrap.dedent(f"""
        import numpy as np, onnx, onnxruntime as ort
        names = [f"x{{i}}" for i in range({MAX_CONCAT + 1})]
        value = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph([onnx.helper.make_node("Concat", names, ["y"], axis=1)], "wide",
            [value(name, 1, [8, 4]) for name in names], [value("y", 1, [8, 4 * len(names)])])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
        session = ort.InferenceSession(model.SerializeToString(),
            providers=[("CUDAExecutionProvider", {{"enable_cuda_graph": "1"}})])
        binding = session.io_binding()
        for name in names:
            binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(np.zeros((8, 4), np.float32), "cuda", 0))
        binding.bind_output("y", "cuda")
        try:
            for _ in range(3):
                session.run_with_iobinding(binding)
        except Exception as error:
            print("refused:", " ".join(str(error).split()))
        import os; os._exit(0)
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    refusals = [line for line in done.stdout.splitlines() if line.startswith("refused: ")]
    return refusals[0] if refusals else f"a Concat of {MAX_CONCAT + 1} inputs was captured, unexpectedly"


def captured(work: Call) -> Call:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()

    def call() -> torch.Tensor:
        graph.replay()
        return result

    return call


def finished(call: Call) -> Callable[[], None]:
    """The call and the wait for its result."""

    def run() -> None:
        call()
        torch.cuda.synchronize()

    return run


def benchmark(configuration: Configuration, compiled: bool, ablation: bool, seconds: float) -> list[dict[str, Any]]:
    """A dictionary a provider: name, precision, times, error, refusal."""
    calls: dict[tuple[str, str], Call] = {}
    results: dict[tuple[str, str], dict[str, Any]] = {}
    for name, precision, set_up in configuration.providers(compiled, ablation):
        key = (name, precision)
        results[key] = {"provider": name, "precision": precision, "refusal": ""}
        try:
            call = set_up()
            for _ in range(3):
                answer = call()
            torch.cuda.synchronize()
        except Exception as error:  # what a peer can't do is a result
            results[key]["refusal"] = " ".join(str(error).split())[:300]
            continue
        results[key]["error"] = float(np.abs(answer.cpu().numpy() - configuration.exact).max())
        calls[key] = call
    names = {f"{name} {precision}": (name, precision) for name, precision in calls}
    runs = {label: finished(calls[key]) for label, key in names.items()}
    for row in measure("end to end", "", 0, runs, seconds=seconds, turn=0.01, min_rounds=8):
        results[names[row.provider]] |= {"median_us": row.median_us, "p10_us": row.p10_us, "p90_us": row.p90_us}
    peers = [r["median_us"] for (name, _), r in results.items() if not name.startswith(OURS) and "median_us" in r]
    for result in results.values():
        if "median_us" in result:
            result["ratio_to_best_peer"] = round(min(peers) / result["median_us"], 3)
    return list(results.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="Criteo, dim 16, hidden 256 alone")
    parser.add_argument("--compile", action="store_true", help="torch.compile too, which takes minutes")
    parser.add_argument("--ablation", action="store_true", help="what each pass adds, instead of the peers")
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--seconds", type=float, default=0.6, help="measuring time a configuration")
    parser.add_argument("--out", type=Path, default=RESULTS / "end_to_end_gpu.csv")
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    _, versions, date = about()
    versions = f"{versions}; torch {torch.__version__}; CUDA {torch.version.cuda}"
    spaces = (("criteo",), (16,), (256,)) if arguments.quick else (tuple(DATASETS), DIMS, HIDDEN)
    known = {field.name for field in fields(Row)}
    with arguments.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)])
        writer.writeheader()
        for dataset, dim, hidden, name in itertools.product(*spaces, MODELS):
            with tempfile.TemporaryDirectory() as folder:
                configuration = Configuration(name, dataset, dim, hidden, arguments.batch, Path(folder))
                results = benchmark(configuration, arguments.compile, arguments.ablation, arguments.seconds)
            for result in results:
                values = {"model": name, "dataset": dataset, "dim": dim, "hidden": hidden, "batch": arguments.batch}
                empty = dict.fromkeys(("median_us", "p10_us", "p90_us", "ratio_to_best_peer", "error"))
                about_it = {"card": torch.cuda.get_device_name(), "versions": versions, "date": date}
                row = Row(**{key: value for key, value in (values | empty | result | about_it).items() if key in known})
                writer.writerow(asdict(row))
            file.flush()
            times = ", ".join(f"{r['provider']} {r['precision']} {r.get('median_us', 'refused')}" for r in results)
            print(f"{name} {dataset} {dim} {hidden}: {times}", flush=True)


if __name__ == "__main__":
    main()
