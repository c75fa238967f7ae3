"""The rows that all measurements of whole models write, and how they are written: one at a time, so that a run that is
cut short keeps what it has."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks.configurations import Configuration
from benchmarks.harness import about

OURS = "dpiframe"
FLOOR = "floor"


@dataclass
class ModelRow:
    """One provider's time for one configuration: wall time of a call in microseconds, its wait for the result included.

    ratio_to_best_peer: the time of the fastest float32 provider that isn't ours over this one's. error: the largest
    difference of a probability from PyTorch's in float64. refusal: why the provider can't run the configuration.
    """

    study: str
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


_NAMES = [field.name for field in fields(ModelRow)]


def is_peer(provider: str) -> bool:
    return not provider.startswith((OURS, FLOOR))


class ModelRows:
    """An open CSV of ModelRows."""

    def __init__(self, file: Any, card: str, more_versions: str) -> None:
        self._file = file
        self._writer = csv.DictWriter(file, _NAMES)
        self._writer.writeheader()
        machine, versions, date = about()
        self._about = {"card": card or machine, "versions": f"{versions}; {more_versions}", "date": date}

    def add(self, study: str, configuration: Configuration, results: Iterable[dict[str, Any]]) -> None:
        """results: a dictionary a provider with provider, precision and what else of a ModelRow is known."""
        results = list(results)
        peers = [
            result["median_us"]
            for result in results
            if result.get("median_us") and is_peer(result["provider"]) and result["precision"] == "fp32"
        ]
        empty = dict.fromkeys(("median_us", "p10_us", "p90_us", "ratio_to_best_peer", "error"))
        for result in results:
            known = {name: value for name, value in result.items() if name in _NAMES}
            row = {"study": study, **asdict(configuration), **empty, "refusal": "", **known, **self._about}
            if peers and result.get("median_us"):
                row["ratio_to_best_peer"] = round(min(peers) / result["median_us"], 3)
            self._writer.writerow(asdict(ModelRow(**row)))
        self._file.flush()


@contextmanager
def write_rows(path: Path, card: str = "", more_versions: str = "") -> Iterator[ModelRows]:
    """card: the GPU's name; without it the processor's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        yield ModelRows(file, card, more_versions)
