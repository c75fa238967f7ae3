"""Sessions and kernels on the GPU, with the interfaces of their CPU counterparts: the same tests run on both."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime as ort

from tests.custom_ops import models, reference

if TYPE_CHECKING:
    from dpiframe.custom_ops import _cuda_kernels

# A memory checker is slow, and sees more where an array ends with its allocation.
CHECKER = os.environ.get("DPIFRAME_SANITIZER", "")  # the tool of compute-sanitizer that this runs under
CHECKED = CHECKER != ""
GUARD_BYTES = 0 if CHECKED else 1024
CANARY = 0xA5
# Answers are compared with numpy's in full precision.
PROVIDER_OPTIONS = {"use_tf32": "0"}


def kernels() -> Any:
    """The module `_cuda_kernels`, which a build without CUDA lacks."""
    from dpiframe.custom_ops import _cuda_kernels

    return _cuda_kernels


def session(model: onnx.ModelProto, threads: int = 1, **provider_options: str) -> ort.InferenceSession:
    """A session whose lookups run on the GPU; `threads` is for the interface of models.session."""
    return ort.InferenceSession(
        model.SerializeToString(), models.options(threads), providers=[cuda_provider(**provider_options)]
    )


def whole_session(model: onnx.ModelProto, **provider_options: str) -> ort.InferenceSession:
    """A session that fails where any node would run on the CPU."""
    options = models.options()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    return ort.InferenceSession(model.SerializeToString(), options, providers=[cuda_provider(**provider_options)])


def cuda_provider(**options: str) -> tuple[str, dict[str, str]]:
    return "CUDAExecutionProvider", {**PROVIDER_OPTIONS, **options}


class DeviceArray:
    """An array in device memory between guard bytes, `offset` bytes after a multiple of 256."""

    def __init__(self, values: np.ndarray, offset: int = 0) -> None:
        self.dtype, self.shape = values.dtype, values.shape
        self.start = GUARD_BYTES + offset
        room = np.full(self.start + values.nbytes + GUARD_BYTES, CANARY, np.uint8)
        room[self.start : self.start + values.nbytes] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        self.nbytes = values.nbytes
        self.memory = kernels().DeviceArray(room)
        self.address = self.memory.address + self.start

    def read(self) -> np.ndarray:
        """The values; the bytes around them must be what they were."""
        room = self.memory.read()
        end = self.start + self.nbytes
        assert (room[: self.start] == CANARY).all()
        assert (room[end:] == CANARY).all()
        return room[self.start : end].copy().view(self.dtype).reshape(self.shape)


class CudaLookupProgram:
    """`_kernels.LookupProgram` on the GPU.

    What the CPU calls its baseline stands here for tables that each call brings and for addresses that suit single
    elements only; its threads, for rows a thread. `multiprocessors`: work is shared out as if there were so many; 0: as
    many as there are.
    """

    def __init__(self, text: str, baseline: bool = False, multiprocessors: int = 0) -> None:
        self.text, self.odd, self.multiprocessors = text, baseline, multiprocessors
        self.lookup: _cuda_kernels.CudaLookup | None = None

    def run(self, sources: list[np.ndarray], tables: list[np.ndarray], threads: int = 0) -> list[np.ndarray]:
        shape = reference.Interpreter(self.text, sources, tables)
        type = np.dtype(shape.type)
        offset = type.itemsize if self.odd else 0
        on_device = [DeviceArray(source, 8 if self.odd else 0) for source in sources]
        device_tables = [DeviceArray(table, offset) for table in tables]
        # Never what a lookup writes: the canary's bytes stay where an element is left out.
        outputs = [
            DeviceArray(np.full(flat.shape, CANARY, np.uint8).repeat(type.itemsize).view(type), offset)
            for flat in shape.flat
        ]
        addresses = [table.address for table in device_tables]
        if self.lookup is None or not self.odd:
            fixed = [0] * len(tables) if self.odd else addresses
            types = [str(source.dtype) for source in sources]
            self.lookup = kernels().CudaLookup(self.text, types, str(type), fixed, self.multiprocessors)
        # of a list: its elements
        columns = [v.size if v.ndim == 1 else v.shape[1] if shape.rows else 0 for v in shape.columns]
        self.lookup.launch(
            shape.rows,
            [source.address for source in on_device],
            columns,
            addresses,
            [output.address for output in outputs],
            stream=0,
            rows_per_thread={1: 0, 2: 1}.get(threads, 4),
        )
        self.arrays: list[Any] = [on_device, device_tables]  # the counters are read later
        return [output.read().reshape(shape) for output, shape in zip(outputs, shape.shapes, strict=True)]

    @property
    def bad_id_counts(self) -> list[int]:
        assert self.lookup is not None
        return self.lookup.bad_id_counts
