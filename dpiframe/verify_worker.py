"""The child process in which models run: a crash in it is an answer, not the end of the command.

It reads one JSON request a line on stdin and answers each with one JSON line on stdout: {"ok": true, ...}, or
{"ok": false, "error": "..."}. Tensors travel as files (tensor_file.py). It ends when stdin does.

    {"do": "load", "name", "path", "cuda": bool, "libraries": [path]}            -> {"providers": [...]}
    {"do": "run", "name", "inputs": file, "keys": [input names], "outputs": file} -> {"names": [output names]}
    {"do": "time", "names": [original, optimized], "batch", "inputs", "keys"}     -> the fields of Latency
    {"do": "race", "names": [any], "inputs", "keys"}                             -> {"ms": {name: milliseconds}}
    {"do": "drop"}                                                               -> {}, all sessions freed
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from dpiframe.runtime_errors import one_line

Request = dict[str, Any]


def main() -> None:
    _prepare_process()
    # Models' own libraries may print to stdout; the answers have a descriptor of their own.
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    # While the parent is still at work on its own part.
    with contextlib.suppress(ImportError):
        import onnxruntime  # noqa: F401
    worker = _Worker()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            answer = {"ok": True, **worker.answer(request)}
        except Exception as error:
            answer = {"ok": False, "error": one_line(error)}
        _write(answers, answer)


def _write(answers: BinaryIO, answer: dict[str, Any]) -> None:
    # The parent may be gone: then nobody waits for the answer.
    with contextlib.suppress(BrokenPipeError):
        answers.write(json.dumps(answer).encode() + b"\n")


def _prepare_process() -> None:
    # Ctrl-C reaches the whole process group; the parent decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Linux: when memory runs out, this process goes first, not the parent that can still clean up.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


class _Worker:
    """The sessions by name, and the requests that use them."""

    def __init__(self) -> None:
        self._sessions: dict[str, Any] = {}

    def answer(self, request: Request) -> dict[str, Any]:
        action = request["do"]
        if action == "load":
            return self._load(request)
        if action == "run":
            return self._run(request)
        if action == "time":
            return self._time(request)
        if action == "race":
            return self._race(request)
        if action == "drop":
            self._sessions.clear()
            return {}
        raise ValueError(f"unknown request {action!r}")

    def _load(self, request: Request) -> dict[str, Any]:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.log_severity_level = 4
        for library in request["libraries"]:
            options.register_custom_ops_library(library)
        providers: list[Any] = ["CPUExecutionProvider"]
        if request["cuda"]:
            if "CUDAExecutionProvider" not in ort.get_available_providers():
                raise RuntimeError("this onnxruntime has no CUDA provider")
            # ONNX Runtime's default on CUDA is TF32, whose noise would hide differences.
            providers.insert(0, ("CUDAExecutionProvider", {"use_tf32": "0"}))
        session = ort.InferenceSession(request["path"], options, providers=providers)
        self._sessions[request["name"]] = session
        return {"providers": session.get_providers()}

    def _run(self, request: Request) -> dict[str, Any]:
        import numpy as np

        from dpiframe.tensor_file import write_tensors

        session = self._sessions[request["name"]]
        names = [output.name for output in session.get_outputs()]
        outputs = session.run(None, _feeds(request))
        for name, output in zip(names, outputs, strict=True):
            if not isinstance(output, np.ndarray):
                raise TypeError(f"output '{name}' is not a tensor")
        arrays = [output.astype(str) if output.dtype == object else output for output in outputs]
        write_tensors(Path(request["outputs"]), arrays)
        return {"names": names}

    def _time(self, request: Request) -> dict[str, Any]:
        from dpiframe.latency import measure

        original, optimized = (self._sessions[name] for name in request["names"])
        feeds = _feeds(request)
        result = measure(request["batch"], lambda: original.run(None, feeds), lambda: optimized.run(None, feeds))
        return asdict(result)

    def _race(self, request: Request) -> dict[str, Any]:
        from dpiframe.latency import race

        feeds = _feeds(request)
        return {"ms": race({name: _bound(self._sessions[name], feeds) for name in request["names"]})}


def _bound(session: Any, feeds: dict[str, Any]) -> Callable[[], None]:
    """A run of a session on inputs that lie, as its outputs, where its first provider computes."""
    import onnxruntime as ort

    device = "cuda" if session.get_providers()[0] == "CUDAExecutionProvider" else "cpu"
    binding = session.io_binding()
    for name, array in feeds.items():
        if array.dtype.kind in "OU":
            binding.bind_cpu_input(name, array)
        else:
            binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array, device, 0))
    for output in session.get_outputs():
        binding.bind_output(output.name, device)
    return lambda: session.run_with_iobinding(binding)


def _feeds(request: Request) -> dict[str, Any]:
    from dpiframe.tensor_file import read_tensors

    keys = request["keys"]
    return dict(zip(keys, read_tensors(Path(request["inputs"]), len(keys)), strict=True))
