"""Hazard: a captured graph that keeps what it should read anew, or a kernel that can't be captured."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest

from dpiframe import custom_ops
from tests.custom_ops import models
from tests.gpu.device import CHECKED, whole_session

BATCH, DIM, ROWS = 64, 8, 100


class GraphRun:
    """A session in graph mode whose inputs are written in place."""

    def __init__(self, fields: int, separate: bool) -> None:
        random = np.random.default_rng(fields)
        self.fields, self.separate = fields, separate
        self.tables = [random.standard_normal((ROWS, DIM)).astype(np.float32) for _ in range(fields)]
        program = "lookup 1\nrows 1\nbad zero\n"
        program += "source 1 row\n" * fields if separate else f"source {fields} row\n"
        program += f"table {ROWS} {DIM}\n" * fields + f"output {fields * DIM}\noutput {DIM}\n"
        names = [f"{i}:0" if separate else f"0:{i}" for i in range(fields)]
        program += "".join(f"row 0 {DIM * i} {DIM} {i} {name} 0\n" for i, name in enumerate(names))
        program += f"pool 1 0 {DIM} sum 1 0\nterm 0 {names[0]} 0 one\n"
        shape = [BATCH] if separate else [BATCH, fields]
        sources = {f"i{i}": ("int64", shape) for i in range(fields if separate else 1)}
        model = models.lookup_model(program, sources, {f"t{i}": t for i, t in enumerate(self.tables)}, outputs=2)
        self.session = whole_session(model, enable_cuda_graph="1")
        self.binding = self.session.io_binding()
        self.inputs = []
        for name in sources:
            self.inputs.append(ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.int64), "cuda", 0))
            self.binding.bind_ortvalue_input(name, self.inputs[-1])
        self.outputs = [
            ort.OrtValue.ortvalue_from_shape_and_type([BATCH, width], np.float32, "cuda", 0)
            for width in (fields * DIM, DIM)
        ]
        for number, output in enumerate(self.outputs):
            self.binding.bind_ortvalue_output(f"y{number}", output)

    def run(self, ids: np.ndarray) -> None:
        """Replays with other ids, some of them outside, and checks every element."""
        arrays = [ids[:, i].copy() for i in range(self.fields)] if self.separate else [ids]
        for value, array in zip(self.inputs, arrays, strict=True):
            value.update_inplace(array)
        self.session.run_with_iobinding(self.binding)
        inside = (ids < ROWS)[..., None]
        rows = np.stack([table[ids[:, i] % ROWS] for i, table in enumerate(self.tables)], axis=1)
        expected = np.where(inside, rows, np.float32(0))
        np.testing.assert_array_equal(self.outputs[0].numpy().reshape(expected.shape), expected)
        np.testing.assert_array_equal(self.outputs[1].numpy(), expected[:, 0])


# Stock ONNX Runtime can't capture a join of more than 32 inputs. 450 addresses no longer fit the kernel's parameters.
@pytest.mark.parametrize(
    ("fields", "separate", "replays"),
    [(39, True, 1000), (39, False, 1000), (300, True, 50), (300, False, 1000), (450, True, 50)],
)
def test_replays_see_what_the_inputs_hold(fields: int, separate: bool, replays: int) -> None:
    random = np.random.default_rng(0)
    graph = GraphRun(fields, separate)
    # ONNX Runtime runs the model several times before and at the capture.
    graph.run(random.integers(0, ROWS + 1, (BATCH, fields)))
    custom_ops.reset_bad_id_counts(models.tag(graph.session))
    bad = 0
    for _ in range(5 if CHECKED else replays):
        ids = random.integers(0, ROWS + 1, (BATCH, fields))
        bad += int((ids == ROWS).sum()) + int((ids[:, 0] == ROWS).sum())
        graph.run(ids)
    counts = custom_ops.bad_id_counts(models.tag(graph.session))
    assert sum(count.count for count in counts) == bad  # a replay counts as any run does


def test_counts_may_be_read_while_another_session_captures() -> None:
    """Reading counters waits for its own stream alone, so it neither breaks a capture nor is broken by one."""
    from concurrent.futures import ThreadPoolExecutor

    random = np.random.default_rng(1)
    first = GraphRun(3, False)
    first.run(np.full((BATCH, 3), ROWS))
    tag = models.tag(first.session)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: [custom_ops.bad_id_counts(tag) for _ in range(500)])
        for _ in range(5):
            other = GraphRun(39, False)
            for _ in range(4):
                other.run(random.integers(0, ROWS + 1, (BATCH, 39)))
        assert all(counts == reading.result()[0] for counts in reading.result())
