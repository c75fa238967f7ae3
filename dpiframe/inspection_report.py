"""What `dpiframe inspect` prints: a model's fields, tables and branches, and what `optimize` would make of it."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dpiframe.graph_passes.inspection import BranchInfo, Inspection

_MOST_ROWS = 16


def print_inspection(found: Inspection) -> None:
    """Print tables of the model's parts; long lists are cut, `--json` holds them whole."""
    console = Console()
    console.print(f"inputs   {_listed(found.inputs)}", markup=False)
    console.print(f"outputs  {_listed(found.outputs)}", markup=False)
    _print_tables(found, console)
    _print_fields(found, console)
    _print_branches(found, console)
    console.print(
        f"per row: {_bytes(found.lookup_bytes_per_row)} moved by lookups, {found.flop_per_row:,} FLOP after them; "
        f"other weights {_bytes(found.weight_bytes)}"
    )
    if found.fused:
        ops = ", ".join(f"{count} {op}" for op, count in found.fused.items())
        console.print(f"fused already: {ops}")
    console.print(
        f"optimize would fuse {found.lookups_fused} of {found.lookups_before} lookups and leave "
        f"{found.nodes_after} of {found.nodes_before} nodes:"
    )
    for report in found.reports:
        for change in report.changes:
            console.print(f"  {report.name}: {change}", markup=False)
    reasons = Counter(refusal.reason for report in found.reports for refusal in report.refusals)
    for reason, count in reasons.most_common():
        console.print(f"  left alone ({count}): {reason}", markup=False)


def _print_tables(found: Inspection, console: Console) -> None:
    table = Table(
        "table", "rows", "dim", "size", "lookups", title=f"{len(found.tables)} tables, {_bytes(found.table_bytes)}"
    )
    for info in sorted(found.tables, key=lambda t: -t.bytes)[:_MOST_ROWS]:
        shared = f"{info.lookups} (shared)" if info.shared else str(info.lookups)
        table.add_row(escape(info.name), f"{info.rows:,}", str(info.dim), _bytes(info.bytes), shared)
    _add_rest(table, len(found.tables))
    console.print(table)


def _print_fields(found: Inspection, console: Console) -> None:
    table = Table("ids", "type", "then", "table", "dim", "kind", title=f"{len(found.fields)} kinds of lookup")
    for info in found.fields[:_MOST_ROWS]:
        table.add_row(escape(info.ids), info.type, info.steps, escape(info.table), str(info.dim), info.kind)
    _add_rest(table, len(found.fields))
    console.print(table)


def _print_branches(found: Inspection, console: Console) -> None:
    table = Table("after the embedding", "nodes", "parameters", "FLOP a row", "operators")
    for number, branch in enumerate(found.branches, 1):
        _add_branch(table, f"branch {number}, to {escape(branch.name)}", branch)
    if found.head:
        _add_branch(table, "head, where all meet", found.head)
    console.print(table)


def _add_branch(table: Table, label: str, branch: BranchInfo) -> None:
    operators = ", ".join(f"{count} {op}" for op, count in list(branch.operators.items())[:6])
    table.add_row(label, str(branch.nodes), f"{branch.parameters:,}", f"{branch.flop:,}", operators)


def _add_rest(table: Table, count: int) -> None:
    if count > _MOST_ROWS:
        table.add_row(f"... and {count - _MOST_ROWS} more")


def _listed(values: dict[str, str]) -> str:
    shown = [f"{name} {shape}" for name, shape in list(values.items())[:8]]
    return ", ".join(shown) + (f" and {len(values) - 8} more" if len(values) > 8 else "")


def _bytes(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
