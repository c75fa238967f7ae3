"""The command that trains a model: plain functions for a typer application."""

from __future__ import annotations

import errno
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from ..errors import UsageError
from ..output_file import check_place, is_same_file, output_path
from .registry import names

if TYPE_CHECKING:
    from .data import Dataset, Encoder

Format = Literal["generated", "criteo", "avazu", "movielens"]
GENERATED_ROWS = 400_000
HISTORY = 20


def train(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=f"One of {', '.join(names())}.", show_default=False)],
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Clicks to train on; without it they are generated.")
    ] = None,
    data_format: Annotated[
        Format | None,
        typer.Option("--format", help="What FILE is (criteo by default); movielens without FILE is fetched by pip."),
    ] = None,
    output: Annotated[
        # A Path forgets a slash at its end.
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="The checkpoint; by default MODEL.pt here."),
    ] = None,
    rows: Annotated[int | None, typer.Option(help="The most rows to use.")] = None,
    dim: Annotated[int, typer.Option(help="Length of an embedding.")] = 16,
    min_count: Annotated[int, typer.Option(help="Values seen less often share one id.")] = 10,
    buckets: Annotated[
        int | None, typer.Option(help="Hash each field into so many ids instead of building vocabularies.")
    ] = None,
    epochs: Annotated[int, typer.Option(help="The most passes over the rows.")] = 10,
    seconds: Annotated[float | None, typer.Option(help="Stop training after so long.")] = None,
    batch_size: Annotated[int, typer.Option(help="Rows a step.")] = 1024,
    learning_rate: Annotated[float, typer.Option(help="Of Adam.")] = 2e-3,
    seed: Annotated[int, typer.Option(help="Of data, weights and order.")] = 0,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback with errors.")] = False,
) -> None:
    """Train a CTR model and write a checkpoint.

    The last tenth of the rows tests the model, the tenth before it ends the training early.
    """
    require_torch()
    wait_passively()
    import torch

    from .checkpoint import Checkpoint, save_checkpoint
    from .registry import create
    from .training import check_both_classes, score
    from .training import train as fit

    console = Console()
    name = model.lower()
    if name not in names():
        raise ValueError(f"unknown model {model!r}; choose one of {', '.join(names())}")
    for option, number in {"--seconds": seconds, "--learning-rate": learning_rate}.items():
        if number is not None and not number > 0:
            raise ValueError(f"{option} {number:g}: give more than 0")
    for option, count in {"--rows": rows, "--epochs": epochs, "--batch-size": batch_size}.items():
        if count is not None and count < 1:
            raise ValueError(f"{option} {count}: give 1 or more")
    if not 0 <= seed < 1 << 32:
        raise ValueError(f"--seed {seed}: give 0 to {(1 << 32) - 1}")
    target = output_path(output or f"{name}.pt")
    check_place(target)
    check_data_kept(target, data, data_format)
    dataset, encoder = read(
        name, data, data_format, rows=rows, dim=dim, min_count=min_count, buckets=buckets, seed=seed, console=console
    )
    training, validation, test = dataset.split(0.8, 0.1, 0.1)
    # Before training, which would be lost.
    check_both_classes(test, "test")
    torch.manual_seed(seed)
    network = create(name, dataset.schema, **({"tasks": dataset.tasks} if name == "mmoe" else {}))
    result = fit(
        network,
        training,
        validation,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        seconds=seconds,
        seed=seed,
    )
    test_auc, test_log_loss = score(network, test)
    metrics = {"validation_auc": result.auc, "test_auc": test_auc, "test_log_loss": test_log_loss}
    save_checkpoint(target, Checkpoint(network, encoder, metrics))
    console.print(
        f"{name}: {result.steps} steps ({result.epochs:.1f} epochs) in {result.seconds:.0f} s, "
        f"validation AUC {result.auc:.4f}, test AUC {test_auc:.4f}, test LogLoss {test_log_loss:.4f}",
        soft_wrap=True,
    )
    console.print(f"wrote {target}", soft_wrap=True)


def check_data_kept(target: Path, data: Path | None, data_format: Format | None) -> None:
    """Raises UsageError where the checkpoint would replace a file of the data; links to it count as the file."""
    from .data import movielens_files

    files = [data] if data is not None else []
    if data_format == "movielens":
        files = movielens_files(data)
    for file in files:
        # The paths are compared too: MovieLens may not have been fetched yet.
        if target.resolve() == file.resolve() or is_same_file(target, file):
            raise UsageError(f"{target}: is the data itself, which is never overwritten; choose another output with -o")


def read(
    model: str,
    data: Path | None,
    data_format: Format | None,
    *,
    rows: int | None,
    dim: int,
    min_count: int,
    buckets: int | None,
    seed: int,
    console: Console,
) -> tuple[Dataset, Encoder | None]:
    """The data that `train` was asked for, with a progress bar while a file is read.

    Raises:
        FileNotFoundError, ValueError, RuntimeError: as the readers do.
    """
    from .data import fetch_movielens, generate, load, read_movielens

    kind = data_format or ("criteo" if data else "generated")
    if kind == "movielens":
        ratings = read_movielens(data or fetch_movielens(), dim=dim, history=HISTORY)
        return ratings.take(slice(rows)), None
    if kind == "generated":
        if data is not None:
            raise ValueError(f"{data}: generated data has no file; name the file's format")
        return generate(
            GENERATED_ROWS if rows is None else rows,
            dim=dim,
            tasks=2 if model == "mmoe" else 1,
            history=HISTORY if model == "din" else 0,
            seed=seed,
        ), None
    if data is None:
        raise ValueError(f"format {kind} needs a file: --data FILE")
    if not data.is_file():
        raise FileNotFoundError(errno.ENOENT, "no such file", str(data))
    with Progress(TextColumn("{task.description}"), BarColumn(), DownloadColumn(), console=console) as bar:
        task = bar.add_task("reading", total=None)
        return load(
            data,
            kind,
            dim=dim,
            min_count=min_count,
            buckets=buckets,
            max_rows=rows,
            progress=lambda stage, done, total: bar.update(task, description=stage, completed=done, total=total),
        )


def wait_passively() -> None:
    """Lets PyTorch's threads sleep, not spin, while they wait: training is several times as fast on a busy machine.

    Has an effect only before PyTorch is first imported.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def require_torch() -> None:
    """Raises RuntimeError where PyTorch isn't installed. Doesn't import it."""
    if find_spec("torch") is None:
        raise RuntimeError("PyTorch is not installed: pip install 'dpiframe[export]'")
