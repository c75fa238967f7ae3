"""What `dpiframe tune` tells the reader in a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dpiframe.report import print_verified
from dpiframe.tuner import TuneResult


def print_tuned(result: TuneResult) -> None:
    """A line a plan with its milliseconds at each batch size, and which one was written."""
    console = Console(highlight=False)
    one, *others = result.tried
    if others:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("a run")
        for batch in one.ms:
            table.add_column(f"batch {batch}", justify="right", no_wrap=True)
        table.add_column("all")
        table.add_row(str(one.plan), *(f"{ms:.4f} ms" for ms in one.ms.values()))
        for tried in others:
            cells = (f"{ms:.4f} ms {tried.ratio[batch]:.2f}x" for batch, ms in tried.ms.items())
            table.add_row(str(tried.plan), *cells, f"{tried.gain:.2f}x")
        console.print(table)
    else:
        console.print("Nothing was measured: the model has no branches that could run at the same time.")
    print_verified(result.verification, console=console)
    console.print(escape(f"Wrote {result.output} with {result.best}."), soft_wrap=True)
