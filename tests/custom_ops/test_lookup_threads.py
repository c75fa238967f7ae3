"""Hazard: many threads in one session, and one call spread over many threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dpiframe import custom_ops
from dpiframe.custom_ops._kernels import LookupProgram
from tests.custom_ops import models, reference

PROGRAM = (
    "lookup 1\nrows 1\nbad zero\nsource 8 row\nsource * row\ntable 1000 16\ntable 1000 1\noutput 128\noutput 17\n"
    + "".join(f"row 0 {16 * i} 16 0 0:{i} 0\n" for i in range(8))
    + "pool 1 0 16 mean 1 1e-8\nterm 0 1:* 0 ne 1:* 0\npool 1 16 1 sum 8 0\n"
    + "".join(f"term 1 0:{i} 0 one\n" for i in range(8))
)


def tables() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {
        "table": random.standard_normal((1000, 16)).astype(np.float32),
        "wide": random.standard_normal((1000, 1)).astype(np.float32),
    }


def feeds(seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    rows = int(random.integers(1, 400))
    return {
        "ids": random.integers(-1000, 1001, (rows, 8)),  # 1000 is outside
        "bags": random.integers(0, 1000, (rows, int(random.integers(0, 20)))),
    }


@pytest.mark.parametrize("pool_threads", [1, 2])
def test_16_threads_in_one_session(pool_threads: int) -> None:
    sources = {"ids": ("int64", ["B", 8]), "bags": ("int64", ["B", "L"])}
    model = models.lookup_model(PROGRAM, sources, tables(), outputs=2)
    session = models.session(model, pool_threads)
    program = LookupProgram(PROGRAM)
    cases = [feeds(seed) for seed in range(32)]
    expected = [program.run(list(case.values()), list(tables().values())) for case in cases]

    def run(thread: int) -> None:
        for turn in range(40):
            number = (thread * 7 + turn) % len(cases)
            for actual, wanted in zip(session.run(None, cases[number]), expected[number], strict=True):
                assert reference.same_bits(actual, wanted)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(run, range(16)))

    calls = [(thread * 7 + turn) % len(cases) for thread in range(16) for turn in range(40)]
    bad = sum(int((cases[number]["ids"] == 1000).sum()) for number in calls)
    counts = custom_ops.bad_id_counts(models.tag(session))
    assert sum(count.count for count in counts) == 2 * bad  # each id is looked up in both tables


@pytest.mark.parametrize("rows", [1, 7, 400, 5000])
def test_results_do_not_depend_on_the_threads(rows: int) -> None:
    random = np.random.default_rng(rows)
    sources = [random.integers(0, 1000, (rows, 8)), random.integers(0, 1000, (rows, 5))]
    arrays = list(tables().values())
    expected = LookupProgram(PROGRAM).run(sources, arrays)
    for threads in (2, 3, 16):
        for actual, wanted in zip(LookupProgram(PROGRAM).run(sources, arrays, threads), expected, strict=True):
            np.testing.assert_array_equal(actual.view(np.uint8), wanted.view(np.uint8))


def test_sessions_come_and_go_on_many_threads() -> None:
    model = models.lookup_model(
        PROGRAM, {"ids": ("int64", ["B", 8]), "bags": ("int64", ["B", "L"])}, tables(), outputs=2
    )
    case = feeds(1)
    expected = LookupProgram(PROGRAM).run(list(case.values()), list(tables().values()))

    def live(_: int) -> None:
        for actual, wanted in zip(models.session(model).run(None, case), expected, strict=True):
            assert reference.same_bits(actual, wanted)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(live, range(24)))
