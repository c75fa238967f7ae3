"""The whole way in about two minutes: train DeepFM, export it, optimize the file, and compare answers and speed.

python -m dpiframe.models.demo [CRITEO_FILE]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from .cli import read, require_torch, wait_passively
from .metrics import auc, log_loss

if TYPE_CHECKING:
    from dpiframe import OptimizeResult

    from .data import Dataset

BATCHES = (1, 32, 256, 2048)
LATENCY_ROUNDS = 9
TEST_BATCH = 2048
# Equal to the sixth decimal: less than half of its unit apart.
SAME = 5e-7
LEAST_AUC = 0.70
MOST_ROUNDS = 3


@dataclass(frozen=True)
class Answers:
    """One way of running the model on the test rows."""

    name: str
    probabilities: np.ndarray
    auc: float
    log_loss: float


@dataclass(frozen=True)
class Timing:
    """Median latencies in milliseconds at one batch size, and the median ratio of pairs of measurements."""

    batch: int
    original: float
    optimized: float
    ratio: float


def demo(
    data: Annotated[
        str, typer.Argument(metavar="FILE", envvar="DATA", help="Criteo's train.txt, or a CSV like it; else generated.")
    ] = "",
    folder: Annotated[Path, typer.Option(help="Where the files go.")] = Path("demo"),
    seconds: Annotated[float, typer.Option(help="Training time.")] = 40,
    rows: Annotated[int | None, typer.Option(help="The most rows to use.")] = 400_000,
    provider: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="What to optimize for.")] = "auto",
    seed: Annotated[int, typer.Option(help="Of data and weights.")] = 0,
) -> None:
    """Train DeepFM, export it, optimize it, compare answers and speed. Exit code 1 where answers are not equal."""
    require_torch()
    wait_passively()
    import torch

    import dpiframe

    from ..export import export_model
    from .checkpoint import Checkpoint, save_checkpoint
    from .registry import create
    from .training import predict, train

    console = Console()
    folder.mkdir(parents=True, exist_ok=True)
    console.rule("1. data")
    source = Path(data) if data else None
    dataset, encoder = read(
        "deepfm", source, None, rows=rows, dim=16, min_count=10, buckets=None, seed=seed, console=console
    )
    training, validation, test = dataset.split(0.8, 0.1, 0.1)
    schema = dataset.schema
    console.print(
        f"{len(dataset):,} rows {f'of {source}' if source else 'generated'}, {dataset.labels.mean():.1%} clicks; "
        f"{len(schema.sparse)} categorical and {len(schema.dense)} numeric fields, "
        f"{sum(size for size, _ in schema.tables.values()):,} embeddings"
    )

    console.rule("2. training")
    torch.manual_seed(seed)
    model = create("deepfm", schema)
    for rounds in range(1, MOST_ROUNDS + 1):
        done = train(
            model, training, validation, batch_size=1024, learning_rate=2e-3, seconds=seconds, seed=seed + rounds
        )
        console.print(f"{done.steps} steps in {done.seconds:.0f} s, validation AUC {done.auc:.4f}")
        # On a busy machine the time may be over before anything is learned.
        if source or done.auc > LEAST_AUC:
            break
    save_checkpoint(folder / "deepfm.pt", Checkpoint(model, encoder, {"validation_auc": done.auc}))

    console.rule("3. export and optimization")
    original, optimized = folder / "deepfm.onnx", folder / "deepfm.opt.onnx"
    example = schema.model_inputs(torch.from_numpy(test.ids[:8]), torch.from_numpy(test.dense[:8]))
    names = schema.input_names
    export_model(model, example, original, input_names=names, output_names=model.output_names)
    report = dpiframe.optimize(original, optimized, provider=provider)
    run_original, run_optimized = open_sessions(original, optimized, report.runs_here_on)
    console.print(_graph_table(report))

    console.rule("4. answers")
    answers = [
        score_answers("PyTorch", predict(model, test), test),
        score_answers("ONNX Runtime, original", answer_all(run_original, test), test),
        score_answers("ONNX Runtime, optimized", answer_all(run_optimized, test), test),
    ]
    console.print(_answers_table(answers, len(test)))

    console.rule("5. latency")
    timings = [time_pair(batch, run_original, run_optimized, test) for batch in BATCHES]
    console.print(_latency_table(timings, report.runs_here_on))
    if find_spec("matplotlib") is None:
        console.print("matplotlib is not installed: no plot (pip install 'dpiframe[plot]')")
    else:
        _plot(timings, report.runs_here_on, folder / "latency.png")
        console.print(f"wrote {folder / 'latency.png'}")

    failures = _failures(answers, generated=source is None)
    for failure in failures:
        console.print(f"[red]{failure}[/red]")
    if failures:
        raise typer.Exit(1)
    console.print("[green]AUC and LogLoss are equal to the sixth decimal.[/green]")


Run = Callable[[dict[str, np.ndarray]], Any]


def open_sessions(original: Path, optimized: Path, provider: str) -> tuple[Run, Run]:
    """Both files in ordinary ONNX Runtime sessions, the optimized one with the library registered."""
    import onnxruntime

    import dpiframe

    providers = ["CPUExecutionProvider"]
    if provider == "cuda":
        providers.insert(0, "CUDAExecutionProvider")
    plain = onnxruntime.InferenceSession(str(original), providers=providers)
    faster = dpiframe.InferenceSession(str(optimized), providers=providers)
    return lambda feed: plain.run(None, feed)[0], lambda feed: faster.run(None, feed)[0]


def _feed(data: Dataset, rows: np.ndarray | slice) -> dict[str, np.ndarray]:
    inputs = data.schema.model_inputs(data.ids[rows], data.dense[rows])
    return dict(zip(data.schema.input_names, inputs, strict=True))


def answer_all(run: Run, data: Dataset) -> np.ndarray:
    def parts() -> Iterator[np.ndarray]:
        for start in range(0, len(data), TEST_BATCH):
            yield run(_feed(data, slice(start, start + TEST_BATCH)))

    return np.concatenate(list(parts()))


def score_answers(name: str, probabilities: np.ndarray, data: Dataset) -> Answers:
    return Answers(name, probabilities, auc(data.labels, probabilities), log_loss(data.labels, probabilities))


def time_pair(batch: int, original: Run, optimized: Run, data: Dataset) -> Timing:
    """Both in turn on the same rows, several times over."""
    from ..latency import measure

    feed = _feed(data, np.arange(batch) % len(data))
    rounds = [measure(batch, lambda: original(feed), lambda: optimized(feed)) for _ in range(LATENCY_ROUNDS)]
    return Timing(
        batch,
        median(one.original_ms for one in rounds),
        median(one.optimized_ms for one in rounds),
        median(one.ratio for one in rounds),
    )


def _failures(answers: list[Answers], *, generated: bool) -> list[str]:
    first = answers[0]
    found = [
        f"{other.name}: {measure} is {value:.8f}, PyTorch's is {expected:.8f}"
        for other in answers[1:]
        for measure, value, expected in (
            ("AUC", other.auc, first.auc),
            ("LogLoss", other.log_loss, first.log_loss),
        )
        if abs(value - expected) > SAME
    ]
    if generated and first.auc < LEAST_AUC:
        found.append(f"AUC is {first.auc:.4f}, less than {LEAST_AUC}: give the training more time with --seconds")
    return found


def _graph_table(report: OptimizeResult) -> Table:
    import onnx

    from dpiframe.graph_passes.functions import LOOKUP, pool_names

    graph = onnx.load(report.output, load_external_data=False).graph
    fused = sum(node.op_type in pool_names(LOOKUP) for node in graph.node)
    table = Table("", "before", "after")
    table.add_row("nodes", str(report.nodes_before), str(report.nodes_after))
    left = report.lookups_before - report.lookups_fused
    table.add_row(
        "lookup nodes", str(report.lookups_before), f"{left + fused} ({report.lookups_fused} lookups in {fused})"
    )
    return table


def _answers_table(answers: list[Answers], rows: int) -> Table:
    table = Table("", "AUC", "LogLoss", "largest difference from PyTorch", title=f"{rows:,} test rows")
    for one in answers:
        difference = float(np.abs(one.probabilities - answers[0].probabilities).max())
        table.add_row(one.name, f"{one.auc:.6f}", f"{one.log_loss:.6f}", f"{difference:.2g}")
    return table


def _latency_table(timings: list[Timing], provider: str) -> Table:
    table = Table("batch", "original ms", "optimized ms", "times as fast", title=f"median latency, {provider}")
    for one in timings:
        table.add_row(str(one.batch), f"{one.original:.3f}", f"{one.optimized:.3f}", f"{one.ratio:.2f}")
    return table


def _plot(timings: list[Timing], provider: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    places = np.arange(len(timings))
    axes.bar(places - 0.2, [one.original for one in timings], 0.4, label="original")
    bars = axes.bar(places + 0.2, [one.optimized for one in timings], 0.4, label="optimized")
    axes.bar_label(bars, [f"{one.ratio:.2f}x" for one in timings])
    axes.set_yscale("log")
    axes.set_xticks(places, [str(one.batch) for one in timings])
    axes.set_xlabel("batch")
    axes.set_ylabel("median latency (ms)")
    axes.set_title(f"DeepFM in ONNX Runtime, {provider}")
    axes.legend()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main() -> None:
    """Runs the demo; a failure is one line and exit code 1."""
    from ..errors import DPIFrameError

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(demo)
    try:
        app()
    except OSError as error:
        sys.exit(f"error: {error.filename}: {error.strerror}")
    except (DPIFrameError, RuntimeError, ValueError) as error:
        sys.exit(f"error: {' '.join(str(error).split())}")


if __name__ == "__main__":
    main()
