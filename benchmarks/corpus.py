"""Every model of a corpus before and after `optimize`, on a CPU: lookups, nodes, reasons, latency, as CSV and HTML.
What is measured is the verified file that the command writes.

    DPIFRAME_CORPUS=path/to/corpus python benchmarks/corpus.py [--seconds 0.5] [--only PATTERN] [--results FOLDER]

A corpus is a folder with `models/NAME/model.onnx` and `inputs_BATCH.npz` beside each. Nodes are counted after ONNX
Runtime's extended optimizations, for the original and for the result alike. Writes corpus_cpu.csv, .png and .html.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import html
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import RESULTS, about, measure, session_options
from dpiframe import optimize

BATCHES = (1, 32, 256)


@dataclass
class Line:
    """One model. nodes_*: executed after ONNX Runtime's extended optimizations. left: those after, by operator.
    left_alone: the reasons. seconds: that `optimize` took, verification included. us_*: median microseconds a run."""

    model: str
    lookups: int
    fused: int
    nodes_before: int
    nodes_after: int
    left: str
    left_alone: str
    seconds: float
    us_before: dict[int, float] = field(default_factory=dict)
    us_after: dict[int, float] = field(default_factory=dict)
    ratio: dict[int, float] = field(default_factory=dict)


def session(path: Path, fused: bool, nodes_to: Path | None = None) -> ort.InferenceSession:
    options = session_options(ours=fused, threads=1)
    if nodes_to is not None:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(nodes_to)
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def executed_nodes(path: Path, fused: bool, folder: Path) -> Counter[str]:
    """The nodes that ONNX Runtime runs, by operator, after its own extended optimizations."""
    target = folder / "extended.onnx"
    session(path, fused, target)
    names = (node.op_type for node in onnx.load(target).graph.node if node.op_type != "Constant")
    # the bodies of an op are numbered
    return Counter(re.sub(r"_\d+$", "", name) for name in names)


def feeds(folder: Path, batch: int) -> dict[str, np.ndarray]:
    """Inputs of a batch, cut from the largest stored one: every array of the stored batch's length is cut alike."""
    stored = dict(np.load(folder / "inputs_256.npz"))
    return {name: value[:batch] if value.ndim and value.shape[0] == 256 else value for name, value in stored.items()}


def listed(counts: Counter[str]) -> str:
    return "; ".join(f"{what} ({count})" for what, count in counts.most_common())


def runner(target: ort.InferenceSession, feed: dict[str, np.ndarray]) -> Callable[[], object]:
    return lambda: target.run(None, feed)


def benchmark(folder: Path, seconds: float) -> Line:
    original = folder / "model.onnx"
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        optimized = work / "model.opt.onnx"
        started = time.perf_counter()
        result = optimize(original, optimized, provider="cpu")
        seconds_taken = time.perf_counter() - started
        left = executed_nodes(optimized, True, work)
        reasons = Counter(refusal.reason for report in result.reports for refusal in report.refusals)
        line = Line(
            folder.name,
            result.lookups_before,
            result.lookups_fused,
            executed_nodes(original, False, work).total(),
            left.total(),
            listed(left),
            listed(reasons),
            round(seconds_taken, 2),
        )
        before, after = session(original, False), session(optimized, True)
        for batch in BATCHES:
            feed = feeds(folder, batch)
            providers = {"before": runner(before, feed), "after": runner(after, feed)}
            try:
                rows = measure("corpus", folder.name, batch, providers, seconds)
            except Exception:  # some originals don't run at some batch sizes: there is nothing to compare then
                continue
            line.us_before[batch], line.us_after[batch] = rows[0].median_us, rows[1].median_us
            line.ratio[batch] = rows[1].ratio
    return line


def write_csv(lines: list[Line], path: Path) -> None:
    machine, versions, date = about()
    names = [f.name for f in fields(Line) if f.name not in ("us_before", "us_after", "ratio")]
    measured = [f"{what}_{batch}" for batch in BATCHES for what in ("us_before", "us_after", "ratio")]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*names, *measured, "machine", "versions", "date"])
        writer.writeheader()
        for line in lines:
            row = {name: asdict(line)[name] for name in names}
            for batch in BATCHES:
                for what in ("us_before", "us_after", "ratio"):
                    row[f"{what}_{batch}"] = getattr(line, what).get(batch, "")
            writer.writerow(row | {"machine": machine, "versions": versions, "date": date})


def plot(lines: list[Line], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
    for batch in BATCHES:
        ratios = sorted(line.ratio[batch] for line in lines if batch in line.ratio)
        axes[0].plot(
            np.linspace(0, 100, len(ratios)),
            ratios,
            label=f"batch {batch} (geometric mean {geometric_mean(ratios):.2f}x)",
        )
    axes[0].axhline(1, color="grey", linewidth=0.8)
    axes[0].set(title="Latency before / after, models sorted", xlabel="percent of models", ylabel="ratio", yscale="log")
    ticks = [0.8, 1, 1.5, 2, 3, 5, 10, 30, 100, 300]
    axes[0].set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes[0].legend()
    axes[1].scatter([line.nodes_before for line in lines], [line.nodes_after for line in lines], s=12)
    top = max(line.nodes_before for line in lines)
    for share, style in ((1, "-"), (0.5, "--"), (0.25, ":")):
        axes[1].plot([1, top], [share, share * top], style, color="grey", linewidth=0.8, label=f"{share:g} of before")
    axes[1].set(
        title="Executed nodes", xlabel="ONNX Runtime extended, before", ylabel="after", xscale="log", yscale="log"
    )
    axes[1].legend()
    figure.savefig(path, dpi=110)


def geometric_mean(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values)))) if values else float("nan")


def write_html(lines: list[Line], image: Path, path: Path) -> None:
    machine, versions, date = about()
    rows = []
    for line in sorted(lines, key=lambda entry: min(entry.ratio.values(), default=9)):
        cells = [line.model, f"{line.fused} of {line.lookups}", line.nodes_before, line.nodes_after]
        for batch in BATCHES:
            known = batch in line.ratio
            cells.append(
                f"{line.us_before[batch]:.0f} → {line.us_after[batch]:.0f} ({line.ratio[batch]:.2f}x)" if known else ""
            )
        cells += [line.left, line.left_alone, line.seconds]
        rows.append("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells) + "</tr>")
    heads = ["model", "lookups fused", "nodes before", "after", *(f"µs at batch {b}" for b in BATCHES)]
    heads += ["executed after", "left alone", "optimize, s"]
    means = ", ".join(
        f"batch {b}: {geometric_mean([line.ratio[b] for line in lines if b in line.ratio]):.2f}x" for b in BATCHES
    )
    path.write_text(
        "<!doctype html><meta charset=utf-8><title>Corpus on CPU</title>"
        "<style>body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}img{max-width:100%}"
        "td,th{border:1px solid #ccc;padding:2px 6px;text-align:left}tr:nth-child(even){background:#f6f6f6}</style>"
        f"<h1>{len(lines)} models before and after, on a CPU</h1>"
        f"<p>{html.escape(machine)}; {html.escape(versions)}; {date}; one thread. "
        f"Geometric means of the paired ratios: {means}. Slowest ratios first.</p>"
        f"<img src='{image.name}'><table><tr>{''.join(f'<th>{h}</th>' for h in heads)}</tr>{''.join(rows)}</table>\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each model and batch")
    parser.add_argument("--only", default="*", help="models whose name matches")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    root = os.environ.get("DPIFRAME_CORPUS")
    if not root:
        parser.error("set DPIFRAME_CORPUS to the corpus's folder")
    from rich.progress import track

    folders = sorted(p for p in (Path(root) / "models").iterdir() if fnmatch.fnmatch(p.name, arguments.only))
    lines = [benchmark(folder, arguments.seconds) for folder in track(folders, "measuring")]
    arguments.results.mkdir(parents=True, exist_ok=True)
    table = arguments.results / "corpus_cpu.csv"
    write_csv(lines, table)
    image = table.with_suffix(".png")
    plot(lines, image)
    write_html(lines, image, table.with_suffix(".html"))
    for batch in BATCHES:
        ratios = [line.ratio[batch] for line in lines if batch in line.ratio]
        slower = sum(ratio < 0.95 for ratio in ratios)
        mean = geometric_mean(ratios)
        print(f"batch {batch}: geometric mean {mean:.2f}x, slowest {min(ratios):.2f}x, {slower} below 0.95x")
    shares = [line.nodes_after / line.nodes_before for line in lines]
    print(f"nodes after / before: median {np.median(shares):.2f}, above a half {sum(share > 0.5 for share in shares)}")
    print(f"lookups fused: {sum(line.fused for line in lines)} of {sum(line.lookups for line in lines)}")
    taken = [line.seconds for line in lines]
    print(f"optimize: median {np.median(taken):.1f} s, at most {max(taken):.1f} s")


if __name__ == "__main__":
    main()
