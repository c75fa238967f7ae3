"""Hazard: a kernel on another stream than its neighbours': it would read what they have not written yet."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper

from tests.custom_ops import models
from tests.gpu.device import whole_session

SIZE, FIELDS, DIM, SLOW = 2048, 8, 16, 20
PROGRAM = f"lookup 1\nrows 1\nbad error\nsource {FIELDS} row\ntable {SIZE} {DIM}\noutput {FIELDS * DIM}\n"
PROGRAM += "".join(f"row 0 {DIM * i} {DIM} 0 0:{i} 0\n" for i in range(FIELDS))


def sandwich() -> tuple[ort.InferenceSession, np.ndarray, np.ndarray]:
    """Permutations of rows by products with a large matrix: slow and exact, before the lookup and behind."""
    random = np.random.default_rng(0)
    order = random.permutation(SIZE)
    permutation = np.zeros((SIZE, SIZE), np.float32)
    permutation[np.arange(SIZE), order] = 1
    table = random.integers(-100, 100, (SIZE, DIM)).astype(np.float32)
    wide = helper.make_node("MatMul", ["permutation", "permutation"], ["twice"])
    nodes = [wide]
    name = "ids"
    for i in range(SLOW):
        nodes.append(helper.make_node("MatMul", ["twice", name], [f"before{i}"]))
        name = f"before{i}"
    nodes.append(models.lookup_node(PROGRAM, [name, "table"], ["joined"]))
    name = "joined"
    for i in range(SLOW):
        nodes.append(helper.make_node("MatMul", ["twice", name], [f"after{i}"]))
        name = f"after{i}"
    model = models.model_of(
        nodes,
        [models.value("ids", "float32", [SIZE, FIELDS]), models.value("permutation", "float32", [SIZE, SIZE])],
        [models.value(name, "float32", [SIZE, FIELDS * DIM])],
        {"table": table},
    )
    return whole_session(model), order, table


def test_between_slow_kernels() -> None:
    session, order, table = sandwich()
    permutation = np.zeros((SIZE, SIZE), np.float32)
    permutation[np.arange(SIZE), order] = 1
    random = np.random.default_rng(1)
    twice = order[order]
    moved = np.arange(SIZE)
    for _ in range(SLOW):
        moved = moved[twice]

    def run(ids: np.ndarray) -> None:
        feeds = {"ids": ids.astype(np.float32), "permutation": permutation}
        expected = table[ids[moved]].reshape(SIZE, FIELDS * DIM)[moved]
        np.testing.assert_array_equal(session.run(None, feeds)[0], expected)

    for _ in range(10):
        run(random.integers(0, SIZE, (SIZE, FIELDS)))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, [random.integers(0, SIZE, (SIZE, FIELDS)) for _ in range(16)]))


@pytest.mark.parametrize("threads", [16])
def test_many_threads_in_one_session(threads: int) -> None:
    random = np.random.default_rng(2)
    tables = {f"t{i}": random.standard_normal((1000, 16)).astype(np.float32) for i in range(39)}
    program = "lookup 1\nrows 1\nbad error\nsource 39 row\n" + "table 1000 16\n" * 39 + "output 624\n"
    program += "".join(f"row 0 {16 * i} 16 {i} 0:{i} 0\n" for i in range(39))
    session = whole_session(models.lookup_model(program, {"ids": ("int64", ["B", 39])}, tables))
    stacked = np.stack(list(tables.values()))

    def run(seed: int) -> None:
        own = np.random.default_rng(seed)
        for _ in range(20):
            ids = own.integers(0, 1000, (int(own.integers(1, 700)), 39))
            expected = stacked[np.arange(39), ids].reshape(len(ids), 624)
            np.testing.assert_array_equal(session.run(None, {"ids": ids})[0], expected)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, range(threads)))
