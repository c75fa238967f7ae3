"""What every benchmark shares: a set-up function gives providers, all are timed in turn, all write one CSV.

A provider is a name and a function of no arguments; one call of the function is one measured run. Providers take turns
of equal length, A B C A B C ..., so that a drift of the machine's speed hits all alike, and the ratio to the first is
taken within each round. Within a turn a provider has the caches to itself, as in a server that runs it alone: the first
call of a turn isn't counted, and a pause before it lets the threads of the provider before stop spinning. A turn of 0
seconds is one counted call: then each finds the caches full of the other's data.
"""

from __future__ import annotations

import csv
import datetime
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

import dpiframe

RESULTS = Path(__file__).parent / "results"
_ROOT = str(Path(__file__).resolve().parents[1])
PAUSE_SECONDS = 0.02


@dataclass
class Row:
    """One measurement. Times in microseconds; ratio: the baseline's time over this one's, median of paired rounds."""

    benchmark: str
    case: str
    batch: int
    provider: str
    median_us: float
    p10_us: float
    p90_us: float
    ratio: float
    rounds: int
    machine: str
    versions: str
    date: str


@dataclass(frozen=True)
class Times:
    """Microseconds of one provider's counted calls; ratio: the baseline's time over this one's, median of rounds."""

    median_us: float
    p10_us: float
    p90_us: float
    ratio: float
    rounds: int


def measure(
    benchmark: str,
    case: str,
    batch: int,
    providers: Mapping[str, Callable[[], object]],
    seconds: float = 1.0,
    turn: float = 0.03,
    min_rounds: int = 10,
    pause: float = PAUSE_SECONDS,
) -> list[Row]:
    """Rows of `time_in_turns`."""
    times = time_in_turns(providers, seconds, turn, min_rounds, pause)
    return [Row(benchmark, case, batch, name, *astuple(taken), *about()) for name, taken in times.items()]


def time_in_turns(
    providers: Mapping[str, Callable[[], object]],
    seconds: float = 1.0,
    turn: float = 0.03,
    min_rounds: int = 10,
    pause: float = PAUSE_SECONDS,
) -> dict[str, Times]:
    """Time all providers for about `seconds`, in turns of `turn` seconds; the first is the baseline of the ratios.

    pause: seconds before a turn; work on a GPU leaves no threads that spin, and needs none.
    """
    for run in providers.values():
        for _ in range(5):
            run()
    rounds: dict[str, list[list[float]]] = {name: [] for name in providers}
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(next(iter(rounds.values()))) < min_rounds:
        for name, run in providers.items():
            rounds[name].append(_turn(run, turn, pause))
    medians = {name: np.array([np.median(times) for times in turns]) for name, turns in rounds.items()}
    baseline = next(iter(medians.values()))
    result = {}
    for name, turns in rounds.items():
        p10, median, p90 = np.percentile(np.concatenate(turns), [10, 50, 90])
        ratio = float(np.median(baseline / medians[name]))
        result[name] = Times(round(median, 2), round(p10, 2), round(p90, 2), round(ratio, 3), len(turns))
    return result


def _turn(run: Callable[[], object], seconds: float, pause: float) -> list[float]:
    """Microseconds of each counted call of one turn."""
    if seconds:
        time.sleep(pause)
        run()
    times: list[float] = []
    stop = time.perf_counter() + seconds
    while not times or time.perf_counter() < stop:
        start = time.perf_counter_ns()
        run()
        times.append((time.perf_counter_ns() - start) / 1000)
    return times


def about() -> tuple[str, str, str]:
    """The machine, the versions and the date, as the CSV holds them."""
    versions = [f"{name} {metadata.version(name)}" for name in ("dpiframe", "numpy", "onnx") if _installed(name)]
    versions += [f"{name} {metadata.version(name)}" for name in ("onnxruntime", "onnxruntime-gpu") if _installed(name)]
    return _processor(), "; ".join(versions), datetime.date.today().isoformat()


def about_gpu() -> dict[str, str]:
    """The card, the versions (those of `peers_versions` too) and the date: columns of what is measured on a GPU."""
    import torch

    _, versions, date = about()
    return {"card": torch.cuda.get_device_name(), "versions": f"{versions}; {peers_versions()}", "date": date}


def peers_versions() -> str:
    """PyTorch's version, CUDA's and, where it is installed, FBGEMM's."""
    import torch

    found = f"torch {torch.__version__}; CUDA {torch.version.cuda}"
    if find_spec("fbgemm_gpu") is not None:
        version = metadata.version("fbgemm-gpu") if _installed("fbgemm-gpu") else "of an unknown version"
        found += f"; fbgemm-gpu {version}"
    return found


def session_options(*, ours: bool = True, threads: int = 0) -> ort.SessionOptions:
    """Options of every measured session: no warnings, and `threads` of ONNX Runtime's own, 0 for as many as it likes.

    ours: with the library, which files optimized by DPIFrame need.
    """
    options = dpiframe.session_options() if ours else ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    return options


def python_command(module: str, *arguments: str) -> list[str]:
    """A command that runs `main()` of a module in `benchmarks`, wherever the caller's package lies."""
    code = f"import sys; sys.path.append({_ROOT!r}); from {module} import main; main()"
    return [sys.executable, "-P", "-c", code, *arguments]


def write_csv(path: Path, rows: Iterable[Row]) -> None:
    write_table(path, [asdict(row) for row in rows], [f.name for f in fields(Row)])


def write_table(path: Path, rows: Sequence[Mapping[str, object]], columns: Sequence[str] = ()) -> None:
    """A CSV in a folder that is made if need be. columns: those of the first row if not given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns or list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def print_table(rows: Iterable[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("case", "batch", "provider", "median µs", "p10", "p90", "ratio")
    for row in rows:
        table.add_row(
            row.case,
            str(row.batch),
            row.provider,
            f"{row.median_us:.1f}",
            f"{row.p10_us:.1f}",
            f"{row.p90_us:.1f}",
            f"{row.ratio:.2f}",
        )
    Console().print(table)


def plot_case(axis: Any, rows: Iterable[Row], case: str, batches: Sequence[int]) -> None:
    """Draw one case on a matplotlib axis: time over batch of ONNX Runtime and of DPIFrame, with the ratio beside."""
    for provider, colour in (("ONNX Runtime", "tab:grey"), ("DPIFrame", "tab:blue")):
        mine = [row for row in rows if row.case == case and row.provider == provider]
        axis.plot([row.batch for row in mine], [row.median_us for row in mine], "o-", color=colour, label=provider)
        if provider == "DPIFrame":
            for row in mine:
                at = (row.batch, row.median_us)
                axis.annotate(f"{row.ratio:.1f}x", at, (0, -14), textcoords="offset points", ha="center")
    axis.set(title=case, xlabel="batch", xscale="log", yscale="log")
    axis.set_xticks(batches, [str(batch) for batch in batches])


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return f"{line.split(':', 1)[1].strip()}, {platform.machine()}"
    return platform.processor() or platform.machine()


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
