"""Device time of GPU work: replays of captured graphs, kernel times from the profiler, and a copy to compare with."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import torch
import triton
import triton.language as tl

Work = Callable[[], object]
REPLAYS = 15


def graph_us(works: Sequence[Work], replays: int = REPLAYS) -> float:
    """Microseconds of one work: the median replay of a graph that holds all of them, one after the other.

    `works` do the same on different buffers, larger together than the L2 cache.
    """
    for work in works[:2]:
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # on the current stream, so that work which is bound to it is captured too
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        for work in works:
            work()
    times = []
    for replay in range(replays + 2):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        graph.replay()
        after.record()
        after.synchronize()
        if replay >= 2:
            times.append(before.elapsed_time(after) * 1000 / len(works))
    return statistics.median(times)


def eager_us(works: Sequence[Work], replays: int = 5) -> float:
    """Microseconds of one work as the device sees it, waiting for launches included."""
    times = []
    for replay in range(replays + 1):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        before.record()
        for work in works:
            work()
        after.record()
        after.synchronize()
        if replay >= 1:
            times.append(before.elapsed_time(after) * 1000 / len(works))
    return statistics.median(times)


def kernel_us(works: Sequence[Work], rounds: int = 3) -> float:
    """Microseconds that a work's kernels and copies take on the device, the gaps between them left out."""
    for work in works:
        work()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(rounds):
            for work in works:
                work()
        torch.cuda.synchronize()
    total = sum(event.self_device_time_total for event in profile.key_averages())
    return total / (rounds * len(works))


@triton.jit
def _copy_kernel(source, target, count, BLOCK: tl.constexpr):  # noqa: N803 (Triton's way to mark a constant)
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + offsets, tl.load(source + offsets, mask=offsets < count), mask=offsets < count)


def copy_us(moved_bytes: int, sets: int) -> float:
    """Microseconds of a kernel that reads and writes `moved_bytes` in total, 16 bytes a thread: the faster of two."""
    count = max(moved_bytes // 8, 1)
    buffers = [(torch.rand(count, device="cuda"), torch.empty(count, device="cuda")) for _ in range(sets)]
    if sets == 1:
        buffers *= 16
    best = float("inf")
    for block, warps in ((1024, 8), (4096, 8)):
        grid = (triton.cdiv(count, block),)
        works = [
            lambda source=source, target=target, block=block, warps=warps, grid=grid: _copy_kernel[grid](
                source, target, count, BLOCK=block, num_warps=warps
            )
            for source, target in buffers
        ]
        best = min(best, graph_us(works))
    return best
