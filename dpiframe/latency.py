"""Paired latency of two sessions: measured in turn in one process, so that both see the same machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

BATCHES = (1, 32, 256)
# One batch size is measured this long, in blocks of this length (seconds); at least one block each, of at least one
# run.
_SECONDS = 0.1
_BLOCK_SECONDS = 0.008


@dataclass(frozen=True)
class Latency:
    """Medians in milliseconds over `runs` runs of each.

    ratio: the median over pairs of blocks of original / optimized.
    """

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
    pairs: list[tuple[list[float], list[float]]] = []
    while not pairs or time.perf_counter() < end:
        if len(pairs) % 2:
            second = _block(optimized)
            first = _block(original)
        else:
            first = _block(original)
            second = _block(optimized)
        pairs.append((first, second))
    return Latency(
        batch=batch,
        original_ms=1e3 * median(t for first, _ in pairs for t in first),
        optimized_ms=1e3 * median(t for _, second in pairs for t in second),
        ratio=median(median(first) / median(second) for first, second in pairs),
        runs=min(sum(len(first) for first, _ in pairs), sum(len(second) for _, second in pairs)),
    )


def _block(run: Callable[[], object]) -> list[float]:
    """Seconds of each run in a block, but the first: the other session's threads may still be spinning in it."""
    times = [_seconds(run)]
    end = time.perf_counter() - times[0] + _BLOCK_SECONDS
    while time.perf_counter() < end:
        times.append(_seconds(run))
    return times[1:] or times


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
