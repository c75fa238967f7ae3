"""A session's run captured as a CUDA graph, and which of the graph's nodes wait for which: by the driver's own API."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import onnxruntime as ort

_NON_BLOCKING = 1
_RELAXED = 2
_KERNEL = 0


def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def _check(code: int) -> None:
    if code != 0:
        raise RuntimeError(f"the CUDA driver's error {code}")


@contextmanager
def stream() -> Iterator[int]:
    """A stream on the first GPU, for a session's `user_compute_stream`."""
    driver, device = _driver(), ctypes.c_int()
    context, made = ctypes.c_void_p(), ctypes.c_void_p()
    _check(driver.cuInit(0))
    _check(driver.cuDeviceGet(ctypes.byref(device), 0))
    _check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    _check(driver.cuCtxSetCurrent(context))
    _check(driver.cuStreamCreate(ctypes.byref(made), _NON_BLOCKING))
    assert made.value is not None
    yield made.value
    _check(driver.cuStreamDestroy_v2(made))
    _check(driver.cuDevicePrimaryCtxRelease_v2(device))


def waits_of_run(session: ort.InferenceSession, binding: Any, on: int) -> tuple[int, set[tuple[int, int]]]:
    """How many kernels a run on stream `on` launches, and which pairs of them (by index) are in order."""
    driver, graph, count = _driver(), ctypes.c_void_p(), ctypes.c_size_t()
    options = ort.RunOptions()
    options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    handle = ctypes.c_void_p(on)
    _check(driver.cuStreamBeginCapture_v2(handle, _RELAXED))
    session.run_with_iobinding(binding, options)
    _check(driver.cuStreamEndCapture(handle, ctypes.byref(graph)))
    _check(driver.cuGraphGetNodes(graph, None, ctypes.byref(count)))
    nodes = (ctypes.c_void_p * count.value)()
    _check(driver.cuGraphGetNodes(graph, nodes, ctypes.byref(count)))
    index = {node: i for i, node in enumerate(nodes)}
    _check(driver.cuGraphGetEdges_v2(graph, None, None, None, ctypes.byref(count)))
    sources, targets = (ctypes.c_void_p * count.value)(), (ctypes.c_void_p * count.value)()
    # the older call refuses edges that let a kernel begin before the one it waits for has ended
    kinds = (ctypes.c_uint64 * count.value)()
    _check(driver.cuGraphGetEdges_v2(graph, sources, targets, kinds, ctypes.byref(count)))
    ordered = {(index[one], index[other]) for one, other in zip(sources, targets, strict=True)}
    for middle in index.values():
        ordered |= {(a, d) for a, b in ordered if b == middle for c, d in ordered if c == middle}
    kernels = [i for node, i in index.items() if _is_kernel(driver, node)]
    _check(driver.cuGraphDestroy(graph))
    return len(kernels), {(a, b) for a, b in ordered if a in kernels and b in kernels}


def _is_kernel(driver: Any, node: int) -> bool:
    kind = ctypes.c_int()
    _check(driver.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind)))
    return kind.value == _KERNEL
