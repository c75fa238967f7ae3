"""Hazard: branches that are parallel in the file, but one after the other in what is captured of them."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest

pytest.importorskip("onnx_graphsurgeon")

from tests.custom_ops.regions import WIDTH, regional, rows, towers
from tests.gpu.captured import stream, waits_of_run
from tests.gpu.device import whole_session

COUNT = 64


@pytest.mark.parametrize(("branches", "layers", "streams"), [(2, 3, 1), (2, 3, 2), (3, 2, 3), (4, 2, 2)])
def test_pairs_of_kernels_that_do_not_wait(branches: int, layers: int, streams: int) -> None:
    """Of kernels on different streams before the join, none waits for another."""
    model = regional(towers(branches, layers), streams)
    with stream() as on:
        session = whole_session(model, user_compute_stream=str(on))
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(rows(COUNT)["x"], "cuda", 0))
        empty = np.zeros((COUNT, branches * WIDTH), np.float32)
        binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(empty, "cuda", 0))
        for _ in range(3):
            session.run_with_iobinding(binding)
        kernels, ordered = waits_of_run(session, binding, on)
        del binding, session
    assert kernels == branches * layers + 1
    a_stream = branches // streams * layers
    free = a_stream * a_stream * streams * (streams - 1) // 2
    assert kernels * (kernels - 1) // 2 - len(ordered) == free
