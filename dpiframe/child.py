"""The parent's end of verify_worker: starts the child, restarts it when it dies, and says how it died."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from dpiframe.inputs import Feeds
from dpiframe.latency import Latency
from dpiframe.tensor_file import Array, read_tensors, write_tensors

# The child gets this process's module path and nothing from the folder in which the user happens to be.
_START = "import sys; sys.path[:] = sys.argv[1:]; from dpiframe.verify_worker import main; main()"

_LONGEST = 200


@dataclass(frozen=True)
class Failure:
    """A model that could not be loaded or run."""

    reason: str


@dataclass(frozen=True)
class Outputs:
    """One run's outputs, in the model's order."""

    names: list[str]
    arrays: list[Array]


@dataclass(frozen=True)
class Loadable:
    """A model file and how to load it."""

    path: Path
    cuda: bool
    libraries: Sequence[Path] = ()


class Child:
    """One worker process that holds any number of models by name, and starts anew after it has died.

    Use as a context manager: the process ends and its temporary files go when the block is left.
    """

    def __init__(self) -> None:
        self._models: dict[str, Loadable] = {}
        self._loaded: dict[str, list[str]] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="dpiframe-")
        self._errors = Path(self._folder.name, "stderr")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Child:
        try:
            self._start()
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        self._folder.cleanup()

    def add(self, name: str, model: Loadable) -> None:
        """Name a model; it is loaded when it is first needed."""
        self._models[name] = model
        self._loaded.pop(name, None)

    def load(self, name: str) -> list[str] | Failure:
        """Load a model unless it is loaded; returns the execution providers that its session has."""
        if name in self._loaded:
            return self._loaded[name]
        model = self._models[name]
        answer = self._ask(
            do="load",
            name=name,
            path=str(model.path),
            cuda=model.cuda,
            libraries=[str(library) for library in model.libraries],
        )
        if isinstance(answer, Failure):
            return answer
        self._loaded[name] = answer["providers"]
        return self._loaded[name]

    def run(self, name: str, feeds: Feeds) -> Outputs | Failure:
        """Run a model, loading it first if need be."""
        outputs = Path(self._folder.name, "outputs")
        answer = self._ask_with([name], feeds, do="run", name=name, outputs=str(outputs))
        if isinstance(answer, Failure):
            return answer
        return Outputs(answer["names"], read_tensors(outputs, len(answer["names"])))

    def time(self, names: tuple[str, str], batch: int, feeds: Feeds) -> Latency | Failure:
        """Paired latency of two models on the same inputs."""
        answer = self._ask_with(names, feeds, do="time", names=names, batch=batch)
        if isinstance(answer, Failure):
            return answer
        del answer["ok"]
        return Latency(**answer)

    def race(self, names: Sequence[str], feeds: Feeds) -> dict[str, float] | Failure:
        """Milliseconds of a run of each model on the same inputs."""
        answer = self._ask_with(names, feeds, do="race", names=[*names])
        if isinstance(answer, Failure):
            return answer
        times: dict[str, float] = answer["ms"]
        return times

    def drop_all(self) -> None:
        """Free the memory of all loaded models."""
        if self._loaded:
            self._loaded.clear()
            self._ask(do="drop")

    def restart(self) -> None:
        """A fresh process with nothing loaded."""
        self._stop()
        self._start()

    def _ask_with(self, models: Sequence[str], feeds: Feeds, **request: Any) -> dict[str, Any] | Failure:
        """A request of models, which are loaded first if need be, and inputs."""
        for name in models:
            loaded = self.load(name)
            if isinstance(loaded, Failure):
                return loaded
        inputs = Path(self._folder.name, "inputs")
        write_tensors(inputs, feeds.values())
        return self._ask(inputs=str(inputs), keys=list(feeds), **request)

    def _ask(self, **request: Any) -> dict[str, Any] | Failure:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line.endswith(b"\n"):
            reason = f"the process {_how_it_died(process.wait())}{self._last_words()}"
            self.restart()
            return Failure(reason)
        answer: dict[str, Any] = json.loads(line)
        return answer if answer["ok"] else Failure(answer["error"])

    def _last_words(self) -> str:
        """What the process wrote to stderr in the end, as the C++ library does for an exception that nobody catches."""
        lines = self._errors.read_text(errors="replace").split("\n")
        words = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f" ({words[:_LONGEST]})" if words else ""

    def _start(self) -> None:
        self._loaded.clear()
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, *(p or str(Path.cwd()) for p in sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # Generated test runs are nobody's usage, and its files would stay behind.
                env={**os.environ, "ORT_DISABLE_TELEMETRY": "1"},
            )

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            # Closing flushes, and the reader is gone.
            with contextlib.suppress(BrokenPipeError):
                if stream is not None:
                    stream.close()


def _how_it_died(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = ", perhaps out of memory" if -code == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"
