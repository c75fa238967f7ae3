"""Bags of any length on one CPU core beside PyTorch's embedding_bag: the kernels alone, on ids that are new each time.

    python benchmarks/bags_cpu.py [--results FOLDER]

Best of many calls in microseconds, peers by turns on different lists. Writes bags_cpu.csv.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import numpy as np
import torch

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import about, write_table
from dpiframe.custom_ops._kernels import LookupProgram

CALLS = 60
LISTS = 8


@dataclass(frozen=True)
class Case:
    rows: int
    dim: int
    length: int  # mean; each bag has between 0 and twice as many ids
    mode: str = "sum"
    table_rows: int = 1_000_000


CASES = [
    *(Case(rows, dim, length) for dim in (16, 64) for rows, length in ((256, 2), (4096, 2), (1024, 20), (16, 2000))),
    *(Case(rows, 128, length, table_rows=300_000) for rows, length in ((256, 2), (4096, 2), (1024, 20), (16, 2000))),
    Case(1024, 64, 20, "mean"),
    Case(1024, 64, 20, "max"),
]


def measured(case: Case) -> dict[str, object]:
    random = np.random.default_rng(0)
    table = random.standard_normal((case.table_rows, case.dim), dtype=np.float32)
    lengths = random.integers(0, 2 * case.length + 1, case.rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    lists = cycle([random.integers(0, case.table_rows, int(lengths.sum())) for _ in range(LISTS)])
    program = LookupProgram(
        f"lookup 1\nrows 1\nbad error\nsource 1 row\nsource * list\ntable {case.table_rows} {case.dim}\n"
        f"output {case.dim}\nbag 0 0 {case.dim} {case.mode} 0 0 1:* 0 one 0:0 none\n"
    )
    as_tensor, places = torch.from_numpy(table), torch.from_numpy(offsets)

    def ours(ids: np.ndarray) -> np.ndarray:
        return program.run([offsets, ids], [table])[0]

    def theirs(ids: np.ndarray) -> np.ndarray:
        return torch.nn.functional.embedding_bag(torch.from_numpy(ids), as_tensor, places, mode=case.mode).numpy()

    ids = next(lists)
    np.testing.assert_allclose(ours(ids), theirs(ids), rtol=1e-4, atol=1e-4)
    best = {"dpiframe": float("inf"), "torch": float("inf")}
    peers: dict[str, Callable[[np.ndarray], np.ndarray]] = {"dpiframe": ours, "torch": theirs}
    for _ in range(CALLS):
        for name, work in peers.items():
            ids = next(lists)
            start = time.perf_counter()
            work(ids)
            best[name] = min(best[name], (time.perf_counter() - start) * 1e6)
    return {**vars(case), **{f"{name}_us": round(us, 1) for name, us in best.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    folder = parser.parse_args().results
    torch.set_num_threads(1)
    machine, versions, date = about()
    note = {"machine": machine, "versions": f"{versions}; torch {torch.__version__}", "date": date}
    results = []
    for case in CASES:
        row = measured(case)
        print(*(f"{key}={value}" for key, value in row.items()), flush=True)
        results.append({**row, **note})
    write_table(folder / "bags_cpu.csv", results)


if __name__ == "__main__":
    main()
