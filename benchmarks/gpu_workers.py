"""Many configurations on one GPU: set up in parallel processes, a wave at a time, and measured one after the other.

Setting up (exporting, optimizing, compiling, loading) takes far longer than measuring. So each process of a wave sets
its configuration up; when all are ready, each measures in turn while the others wait; then all end together. A process
that dies, fails or hangs costs its own configuration.
"""

from __future__ import annotations

import itertools
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from benchmarks.configurations import Configuration

SET_UP_SECONDS = 170
MEASURE_SECONDS = 40
TURN_SECONDS = 0.008
MIN_ROUNDS = 6
WARM_UP_CALLS = 3

Result = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """A configuration and the names of the tables of providers (in gpu_providers) that run it, for so many seconds."""

    configuration: Configuration
    providers: tuple[str, ...]
    seconds: float


def run_waves(tasks: Iterable[Task], jobs: int) -> Iterator[tuple[Task, list[Result] | str]]:
    """Each task with a dictionary a provider, or with the reason why there is none."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "onnxruntime", "benchmarks.harness"])
    for wave in _batched(tasks, jobs):
        workers = []
        for task in wave:
            here, there = context.Pipe()
            process = context.Process(target=_work, args=(there, task), daemon=True)
            process.start()
            there.close()
            workers.append(_Worker(task, process, here))
        deadline = time.monotonic() + SET_UP_SECONDS
        states = [worker.answer(deadline) for worker in workers]
        for worker, state in zip(workers, states, strict=True):
            if isinstance(state, str):
                yield worker.task, state
                continue
            worker.connection.send("measure")
            yield worker.task, worker.answer(time.monotonic() + MEASURE_SECONDS)
        for worker in workers:
            worker.end()


def _batched(tasks: Iterable[Task], size: int) -> Iterator[list[Task]]:
    remaining = iter(tasks)
    while wave := list(itertools.islice(remaining, size)):
        yield wave


@dataclass
class _Worker:
    task: Task
    process: ForkServerProcess
    connection: Connection

    def answer(self, deadline: float) -> list[Result] | str:
        """What the process sends, or why it sends nothing; then it is gone."""
        try:
            if self.connection.poll(max(0, deadline - time.monotonic())):
                return self.connection.recv()
            reason = "took too long"
        except (EOFError, ConnectionError):
            self.process.join(5)
            reason = f"the process ended with exit code {self.process.exitcode}"
        self.process.kill()
        return reason

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def _work(connection: Connection, task: Task) -> None:
    try:
        with tempfile.TemporaryDirectory(prefix="dpiframe-benchmark-") as folder:
            calls, results = _set_up(task, Path(folder))
        connection.send([])
        connection.recv()
        connection.send(_measure(calls, results, task.seconds))
        connection.recv()  # ending takes the device's time too: not before all have measured
    except EOFError:
        pass
    except Exception as error:
        connection.send(_reason(error))


Key = tuple[str, str]


def _set_up(task: Task, folder: Path) -> tuple[dict[Key, Callable[[], object]], dict[Key, Result]]:
    """Each provider's call, and what is known of it."""
    import numpy as np
    import torch

    from benchmarks import gpu_providers

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    model = gpu_providers.GpuModel(task.configuration, folder)
    calls: dict[Key, Callable[[], object]] = {}
    results: dict[Key, Result] = {}
    for table in task.providers:
        for key, set_up in getattr(gpu_providers, table).items():
            result = results[key] = {"provider": key[0], "precision": key[1]}
            begin = time.monotonic()
            try:
                call = set_up(model)
                for _ in range(WARM_UP_CALLS):
                    answer = call()
                torch.cuda.synchronize()
            except Exception as error:  # what a provider can't do is a result
                result["refusal"] = _reason(error)
                continue
            finally:
                result["set_up_s"] = time.monotonic() - begin
            result["error"] = float(np.abs(answer.cpu().numpy() - model.exact).max())
            calls[key] = call
    return calls, results


def _measure(calls: dict[Key, Callable[[], object]], results: dict[Key, Result], seconds: float) -> list[Result]:
    import torch

    from benchmarks.harness import time_in_turns

    def finished(call: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            call()
            torch.cuda.synchronize()

        return run

    runs = {f"{name} {precision}": finished(calls[name, precision]) for name, precision in calls}
    try:
        times = time_in_turns(runs, seconds, TURN_SECONDS, MIN_ROUNDS, pause=0)
    except Exception as error:  # whoever broke the process's device was refused before, and is named
        for result in results.values():
            result.setdefault("refusal", f"not measured: {_reason(error)}")
        return list(results.values())
    for (name, precision), result in results.items():
        taken = times.get(f"{name} {precision}")
        if taken is not None:
            result |= {"median_us": taken.median_us, "p10_us": taken.p10_us, "p90_us": taken.p90_us}
    return list(results.values())


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
