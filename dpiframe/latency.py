"""Latency of sessions: measured in turn in one process, so that all see the same machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

BATCHES = (1, 32, 256)
# One batch size is measured this long, in blocks of this length (seconds) and at least this many runs. Before a block,
# the other session's threads get the time to stop spinning: on two cores, spinning threads make a run up to three times
# slower.
_SECONDS = 0.25
_BLOCK_SECONDS = 0.012
_PAUSE_SECONDS = 0.02
_MIN_RUNS = 3
# Runs that race: kernels may be compiled and graphs captured in the first ones.
_WARM_RUNS = 5
_RACE_SECONDS = 0.3


@dataclass(frozen=True)
class Latency:
    """Milliseconds, and original / optimized: medians over pairs of blocks, of each block's median; `runs` runs."""

    batch: int
    original_ms: float
    optimized_ms: float
    ratio: float
    runs: int


def measure(batch: int, original: Callable[[], object], optimized: Callable[[], object]) -> Latency:
    """Run both in turn, in short blocks, swapping who goes first from pair to pair."""
    end = time.perf_counter() + _SECONDS
    original()
    optimized()
    pairs: list[tuple[float, float]] = []
    runs = 0
    while not pairs or time.perf_counter() < end:
        if len(pairs) % 2:
            second = _block(optimized)
            first = _block(original)
        else:
            first = _block(original)
            second = _block(optimized)
        pairs.append((median(first), median(second)))
        runs += min(len(first), len(second))
    return Latency(
        batch=batch,
        original_ms=1e3 * median(first for first, _ in pairs),
        optimized_ms=1e3 * median(second for _, second in pairs),
        ratio=median(first / second for first, second in pairs),
        runs=runs,
    )


def race(runs: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Milliseconds of each run: the median over blocks of the blocks' medians, the runs taking turns."""
    for run in runs.values():
        for _ in range(_WARM_RUNS):
            run()
    blocks: dict[str, list[float]] = {name: [] for name in runs}
    end = time.perf_counter() + _RACE_SECONDS * len(runs)
    while time.perf_counter() < end or len(next(iter(blocks.values()))) < _MIN_RUNS:
        for name, run in runs.items():
            blocks[name].append(median(_block(run, pause=0)))
    return {name: 1e3 * median(times) for name, times in blocks.items()}


def _block(run: Callable[[], object], pause: float = _PAUSE_SECONDS) -> list[float]:
    """Seconds of each run in a block, but the first, which wakes the session's threads."""
    time.sleep(pause)
    times = [_seconds(run)]
    end = time.perf_counter() - times[0] + _BLOCK_SECONDS
    while time.perf_counter() < end or len(times) < _MIN_RUNS:
        times.append(_seconds(run))
    return times[1:]


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
