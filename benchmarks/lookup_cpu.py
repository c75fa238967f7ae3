"""The lookup front end on a CPU: ids to joined embeddings, ONNX Runtime's own nodes against one FusedMultiGather.

39 fields, dim 16, 100,000 rows a table, one thread, uniform random ids over many distinct batches so that table rows
come from memory. Two forms: ids as one int64 matrix, and as 39 named inputs (through IO binding and through `run()`).

    python benchmarks/lookup_cpu.py [--seconds 2] [--turn 0.03] [--results FOLDER]

Writes lookup_cpu.csv and lookup_cpu.png; with --turn 0, where the two alternate call by call, only
lookup_cpu_alternating.csv.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import RESULTS, Row, measure, plot_case, print_table, session_options, write_csv
from dpiframe.graph_passes.model_io import load, save
from dpiframe.graph_passes.pipeline import optimize_model

FIELDS, DIM, VOCABULARY = 39, 16, 100_000
BATCHES = (4, 32, 256, 1024)
ID_SETS = 48


def front_end(folder: Path, named_inputs: bool) -> Path:
    """Write the front end as exporters write it: a pick and a Gather a field, then Concat. Tables as external data."""
    rng = np.random.default_rng(0)
    data = folder / "tables.bin"
    if not data.exists():
        rng.standard_normal((FIELDS * VOCABULARY, DIM), np.float32).tofile(data)
    bytes_each = VOCABULARY * DIM * 4
    tables = []
    for field in range(FIELDS):
        table = TensorProto(name=f"table_{field}", data_type=TensorProto.FLOAT, dims=[VOCABULARY, DIM])
        table.data_location = TensorProto.EXTERNAL
        for key, value in (("location", data.name), ("offset", field * bytes_each), ("length", bytes_each)):
            table.external_data.add(key=key, value=str(value))
        tables.append(table)
    nodes = []
    if named_inputs:
        inputs = [helper.make_tensor_value_info(f"C{i}", TensorProto.INT64, ["batch"]) for i in range(FIELDS)]
        ids = [f"C{i}" for i in range(FIELDS)]
    else:
        inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", FIELDS])]
        tables += [helper.make_tensor(f"column_{i}", TensorProto.INT64, [], [i]) for i in range(FIELDS)]
        nodes += [helper.make_node("Gather", ["ids", f"column_{i}"], [f"id_{i}"], axis=1) for i in range(FIELDS)]
        ids = [f"id_{i}" for i in range(FIELDS)]
    nodes += [helper.make_node("Gather", [f"table_{i}", ids[i]], [f"row_{i}"], axis=0) for i in range(FIELDS)]
    nodes.append(helper.make_node("Concat", [f"row_{i}" for i in range(FIELDS)], ["joined"], axis=1))
    output = helper.make_tensor_value_info("joined", TensorProto.FLOAT, ["batch", FIELDS * DIM])
    graph = helper.make_graph(nodes, "front_end", inputs, [output], tables)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    path = folder / f"front_end_{'inputs' if named_inputs else 'matrix'}.onnx"
    onnx.save(model, path)
    return path


def session(path: Path, fused: bool) -> ort.InferenceSession:
    options = session_options(ours=fused, threads=1)
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def feeds(batch: int, named_inputs: bool) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(batch)
    sets = []
    for _ in range(ID_SETS):
        ids = rng.integers(0, VOCABULARY, (batch, FIELDS))
        sets.append({f"C{i}": np.ascontiguousarray(ids[:, i]) for i in range(FIELDS)} if named_inputs else {"ids": ids})
    return sets


def by_run(target: ort.InferenceSession, sets: list[dict[str, np.ndarray]]) -> Callable[[], object]:
    turn = itertools.cycle(sets)
    return lambda: target.run(None, next(turn))


def by_binding(target: ort.InferenceSession, sets: list[dict[str, np.ndarray]]) -> Callable[[], object]:
    """Inputs and the output bound ahead, as a server with fixed buffers does it."""
    bindings = []
    rows = len(next(iter(sets[0].values())))
    output = ort.OrtValue.ortvalue_from_shape_and_type([rows, FIELDS * DIM], np.float32)
    for feed in sets:
        binding = target.io_binding()
        for name, value in feed.items():
            binding.bind_cpu_input(name, value)
        binding.bind_ortvalue_output("joined", output)
        bindings.append(binding)
    turn = itertools.cycle(bindings)
    return lambda: target.run_with_iobinding(next(turn))


def benchmark(seconds: float, turn: float) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for named_inputs in (False, True):
            original = front_end(folder, named_inputs)
            optimized = original.with_suffix(".opt.onnx")
            save(optimize_model(load(original)).model, optimized)
            stock, fused = session(original, False), session(optimized, True)
            for batch in BATCHES:
                sets = feeds(batch, named_inputs)
                assert all(
                    (a == b).all() for a, b in zip(stock.run(None, sets[0]), fused.run(None, sets[0]), strict=True)
                )
                for how, runner in (("binding", by_binding), ("run", by_run)):
                    case = f"{'39 named inputs' if named_inputs else 'one matrix'}, {how}"
                    providers = {"ONNX Runtime": runner(stock, sets), "DPIFrame": runner(fused, sets)}
                    rows += measure("lookup_cpu", case, batch, providers, seconds, turn)
    return rows


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    cases = list(dict.fromkeys(row.case for row in rows))
    figure, axes = plt.subplots(1, len(cases), figsize=(4 * len(cases), 4), sharey=True, layout="constrained")
    for axis, case in zip(axes, cases, strict=True):
        plot_case(axis, rows, case, BATCHES)
        axis.margins(x=0.12, y=0.12)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("time of one run, µs (median)")
    axes[0].legend()
    figure.suptitle(
        f"Lookup front end, {FIELDS} fields x dim {DIM} x {VOCABULARY:,} rows, one thread — {rows[0].machine}"
    )
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each case and batch")
    parser.add_argument("--turn", type=float, default=0.03, help="seconds a turn; 0: the two alternate call by call")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    rows = benchmark(arguments.seconds, arguments.turn)
    table = arguments.results / ("lookup_cpu.csv" if arguments.turn else "lookup_cpu_alternating.csv")
    write_csv(table, rows)
    if arguments.turn:
        plot(rows, table.with_suffix(".png"))
    print_table(rows)


if __name__ == "__main__":
    main()
