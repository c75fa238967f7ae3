"""What `dpiframe bench` shows: a table, and a plot where one is asked for."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dpiframe.bench import BenchResult
from dpiframe.errors import MissingDependencyError, UsageError
from dpiframe.output_file import check_place

PLOTS = (".png", ".svg", ".pdf")


def print_bench(result: BenchResult) -> None:
    """Median latency of both forms by batch size, rows a second, and what could not be measured."""
    console = Console(highlight=False)
    table = Table("batch", box=None, pad_edge=False, header_style="bold")
    for header in ("original ms", "optimized ms", "times as fast", "rows/s optimized"):
        table.add_column(header, justify="right", no_wrap=True)
    for one in result.latencies:
        rows = one.batch / one.optimized_ms * 1000
        table.add_row(
            str(one.batch), f"{one.original_ms:.3f}", f"{one.optimized_ms:.3f}", f"{one.ratio:.2f}", f"{rows:,.0f}"
        )
    console.print(table)
    for note in result.notes:
        console.print(escape(f"Note: {note}."), soft_wrap=True)


def require_plot(path: Path) -> None:
    """Before a long measurement: raises UsageError for a file that can't become a plot, MissingDependencyError without
    matplotlib."""
    if path.suffix not in PLOTS:
        raise UsageError(f"--plot {path}: give a file that ends in {', '.join(PLOTS)}")
    check_place(path, option="--plot")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingDependencyError("matplotlib is not installed: pip install 'dpiframe[plot]'") from None


def plot_bench(result: BenchResult, path: Path) -> None:
    """Latency over batch size of both forms, on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    batches = [one.batch for one in result.latencies]
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(batches, [one.original_ms for one in result.latencies], "o-", color="tab:grey", label="original")
    axes.plot(batches, [one.optimized_ms for one in result.latencies], "o-", color="tab:blue", label="optimized")
    for one in result.latencies:
        axes.annotate(
            f"{one.ratio:.1f}x", (one.batch, one.optimized_ms), (0, -14), textcoords="offset points", ha="center"
        )
    axes.set(xscale="log", yscale="log", xlabel="batch", ylabel="median latency (ms)")
    axes.set_xticks(batches, [str(batch) for batch in batches], minor=False)
    axes.minorticks_off()
    axes.margins(y=0.15)  # room for the ratio below the lowest point
    axes.set_title(f"{result.model.name} in ONNX Runtime, {result.provider.upper()}")
    axes.legend()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
