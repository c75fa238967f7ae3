"""What click-through-rate models hold besides matrix products, on a CPU: ONNX Runtime's own nodes against one
FusedElementwise. One thread, IO binding, inputs from many distinct batches.

    python benchmarks/elementwise_cpu.py [--seconds 1] [--turn 0.03] [--results FOLDER]

Writes elementwise_cpu.csv and elementwise_cpu.png.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.elementwise_cpu_cases import CASES, Case
from benchmarks.harness import RESULTS, Row, measure, plot_case, print_table, session_options, write_csv

BATCHES = (1, 32, 256, 2048)
INPUT_SETS = 8


def runner(model: onnx.ModelProto, feeds: list[dict[str, np.ndarray]], threads: int) -> Callable[[], ort.OrtValue]:
    """Inputs and the output bound ahead, as a server with fixed buffers does it."""
    options = session_options(threads=threads)
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    shape = session.run(None, feeds[0])[0].shape
    output = ort.OrtValue.ortvalue_from_shape_and_type(shape, np.float32)
    bindings = []
    for feed in feeds:
        binding = session.io_binding()
        for name, value in feed.items():
            binding.bind_cpu_input(name, value)
        binding.bind_ortvalue_output("y", output)
        bindings.append(binding)
    turn = itertools.cycle(bindings)

    def run() -> ort.OrtValue:
        session.run_with_iobinding(next(turn))
        return output

    return run


def check(case: Case, feed: dict[str, np.ndarray]) -> None:
    results = [runner(model, [feed], 1)() for model in (case.standard(), case.fused())]
    wanted, mine = (value.numpy() for value in results)
    assert np.abs(wanted - mine).max() <= 1e-6 * max(1, np.abs(wanted).max()), case.name


def benchmark(seconds: float, turn: float, only: str = "", threads: int = 1) -> list[Row]:
    rows: list[Row] = []
    for case in CASES:
        if only not in case.name:
            continue
        rng = np.random.default_rng(0)
        check(case, case.feed(rng, 64))
        for batch in BATCHES:
            feeds = [case.feed(rng, batch) for _ in range(INPUT_SETS)]
            providers = {
                "ONNX Runtime": runner(case.standard(), feeds, threads),
                "DPIFrame": runner(case.fused(), feeds, threads),
            }
            rows += measure("elementwise_cpu", case.name, batch, providers, seconds, turn)
    return rows


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    cases = list(dict.fromkeys(row.case for row in rows))
    figure, grid = plt.subplots(
        2, (len(cases) + 1) // 2, figsize=(3.2 * (len(cases) + 1) // 2, 7), layout="constrained"
    )
    for axis, case in zip(grid.flat, cases, strict=False):
        plot_case(axis, rows, case, BATCHES)
        axis.margins(x=0.12, y=0.15)
        axis.grid(alpha=0.3)
    for row in grid:
        row[0].set_ylabel("time of one run, µs (median)")
    grid.flat[0].legend()
    figure.suptitle(f"Groups that are no matrix products, one thread — {rows[0].machine}")
    figure.savefig(path, dpi=110)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=1.0, help="time for each case and batch")
    arguments.add_argument("--turn", type=float, default=0.03, help="seconds a turn; 0: the two alternate call by call")
    arguments.add_argument("--only", default="", help="cases whose name holds this")
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--results", type=Path, default=RESULTS)
    chosen = arguments.parse_args()
    rows = benchmark(chosen.seconds, chosen.turn, chosen.only, chosen.threads)
    table = chosen.results / "elementwise_cpu.csv"
    write_csv(table, rows)
    if not chosen.only:
        plot(rows, table.with_suffix(".png"))
    print_table(rows)


if __name__ == "__main__":
    main()
