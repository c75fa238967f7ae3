"""What `optimize` and `dpiframe verify` tell the reader in a terminal."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.table import Table

from dpiframe.optimizer import OptimizeResult
from dpiframe.verify_result import VerifyResult

# A reason that leaves many nodes alone is named with this many of them.
_NAMED_NODES = 3
_STEPS = {"loading": "Loading", "rewriting": "Rewriting", "verifying": "Verifying", "measuring": "Measuring latency"}


class TerminalProgress:
    """A Progress (progress.py) that shows a line on stderr, which must be a terminal."""

    def __init__(self) -> None:
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.fields[step]}", style="bold"),
            BarColumn(bar_width=20),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> TerminalProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, step: str, detail: str, done: int = 0, total: int = 0) -> None:
        if self._task is None:
            self._task = self._bar.add_task(detail, step=_STEPS[step], total=None)
        self._bar.update(self._task, description=detail, step=_STEPS[step], completed=done, total=total or None)


def print_optimized(result: OptimizeResult) -> None:
    """The before/after table, what was left alone and why, and how to run the output."""
    console = Console(highlight=False)
    for note in result.notes:
        _say(console, f"Note: {note}.")
    if result.fused:
        console.print(_before_and_after(result))
    _print_refusals(console, result)
    if result.verification is not None:
        print_verified(result.verification, console=console)
    _say(console, f"Wrote {result.output}. To run it:")
    _say(console, _next_step(result))


def print_verified(result: VerifyResult, *, console: Console | None = None) -> None:
    """How many cases were compared, the largest difference, and what was skipped."""
    console = console or Console(highlight=False)
    _say(
        console,
        f"Verified on {len(result.compared)} cases ({result.provider.upper()}): "
        f"largest difference {result.largest_difference:.2g}.",
    )
    for case in result.skipped:
        _say(console, f"Skipped '{case.name}': the original fails: {case.skipped}")
    for note in result.notes:
        _say(console, f"Note: {note}.")


def latency_rows(result: VerifyResult, where: str = "") -> list[tuple[str, str, str, str]]:
    """(what, original, optimized, ratio) for each batch size measured; `where`: added to what."""
    return [
        (
            f"latency{where}, batch {latency.batch}",
            f"{latency.original_ms:.3f} ms",
            f"{latency.optimized_ms:.3f} ms",
            f"{latency.ratio:.2f}x",
        )
        for latency in result.latencies
    ]


def print_latencies(result: VerifyResult) -> None:
    table = _table("", "original", "optimized", "ratio")
    for row in latency_rows(result):
        table.add_row(*row)
    if result.latencies:
        Console(highlight=False).print(table)


def _before_and_after(result: OptimizeResult) -> Table:
    table = _table(f"for {result.provider.upper()}", "before", "after", "")
    share = result.nodes_before / max(1, result.nodes_after)
    table.add_row("executed nodes", str(result.nodes_before), str(result.nodes_after), f"{share:.2f}x")
    table.add_row("lookups fused", "", f"{result.lookups_fused} of {result.lookups_before}", "")
    if verification := result.verification:
        where = "" if verification.provider == result.provider else f" on the {verification.provider.upper()} here"
        for row in latency_rows(verification, where):
            table.add_row(*row)
    return table


def _table(*headers: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(headers[0])
    for header in headers[1:]:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def _print_refusals(console: Console, result: OptimizeResult) -> None:
    refusals = result.refusals_by_reason()
    if refusals:
        _say(console, "Left alone:")
    for reason, nodes in refusals.items():
        more = f", and {len(nodes) - _NAMED_NODES} more" if len(nodes) > _NAMED_NODES else ""
        _say(console, f"  {reason}: {', '.join(nodes[:_NAMED_NODES])}{more}")


def _next_step(result: OptimizeResult) -> str:
    providers = ["CPUExecutionProvider"]
    if result.provider == "cuda":
        providers.insert(0, "CUDAExecutionProvider")
    return (
        "  options = onnxruntime.SessionOptions()\n"
        "  options.register_custom_ops_library(dpiframe.library_path())\n"
        f'  session = onnxruntime.InferenceSession("{result.output}", options, providers={providers})'
    )


def _say(console: Console, text: str) -> None:
    console.print(escape(text), soft_wrap=True)
