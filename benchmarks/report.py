"""Tables and plots of whole models' measurements, out of the CSVs: nothing in them is written by hand.

    python benchmarks/report.py [--results FOLDER] [--docs FOLDER]

Draws NAME.png beside NAME.csv, and replaces what stands between the lines `<!-- begin NAME -->` and
`<!-- end NAME -->` in docs/performance*.md. A CSV that isn't there leaves its part as it is.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks import report_plots
from benchmarks.harness import RESULTS
from benchmarks.model_rows import OURS, is_peer

Rows = list[dict[str, str]]
NAMES = {"dcn": "DCN", "dcnv2": "DCNv2", "wide_deep": "Wide&Deep", "deepfm": "DeepFM"}
GRAPH = f"{OURS}, CUDA graph"
# DPIFrame's average speedups over each as its paper has them (Table II): its own implementation, on an RTX 3090.
PUBLISHED = {
    "PyTorch": (3.14, 2.65, 4.32, 4.08),
    "TorchRec": (2.41, 1.94, 3.03, 3.13),
    "HugeCTR": (1.62, 1.73, 1.72, 1.71),
    "OneFlow": (1.51, 1.46, 1.60, 1.54),
}


def us(row: dict[str, str]) -> float:
    return float(row["median_us"])


def measured(rows: Iterable[dict[str, str]]) -> Rows:
    return [row for row in rows if row["median_us"]]


def setting(row: dict[str, str]) -> tuple[str, ...]:
    """What rows that may be compared have in common: the configuration, and at last the run."""
    return tuple(row.get(name, "") for name in ("model", "dataset", "dim", "hidden", "batch", "study"))


def times(rows: Rows, provider: str, precision: str = "fp32") -> dict[tuple[str, ...], float]:
    """Microseconds by configuration."""
    chosen = (row for row in measured(rows) if (row["provider"], row["precision"]) == (provider, precision))
    return {setting(row): us(row) for row in chosen}


def fastest_peer(rows: Rows) -> dict[tuple[str, ...], float]:
    best: dict[tuple[str, ...], float] = {}
    for row in measured(rows):
        if is_peer(row["provider"]) and row["precision"] == "fp32":
            best[setting(row)] = min(best.get(setting(row), np.inf), us(row))
    return best


def ratios(slower: dict[tuple[str, ...], float], faster: dict[tuple[str, ...], float], model: str = "") -> np.ndarray:
    """How many times as fast, for every configuration (of a model): the least of the runs that have both."""
    least: dict[tuple[str, ...], float] = {}
    for one in slower:
        if one in faster and model in ("", one[0]):
            least[one[:-1]] = min(least.get(one[:-1], np.inf), slower[one] / faster[one])
    return np.array(list(least.values()))


def geometric_mean(values: np.ndarray) -> float:
    return float(np.exp(np.log(values).mean()))


def providers(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row["provider"] for row in rows))


def table(header: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def about(rows: Rows) -> str:
    # In an early file FBGEMM's version is True: that it was there.
    versions = rows[0]["versions"].replace("FBGEMM True", "fbgemm-gpu (its version was not recorded)")
    return f"{rows[0].get('card') or rows[0]['machine']}; {versions}; {rows[0]['date']}."


def spread(values: np.ndarray) -> str:
    """Average, least and most."""
    if values.size < 2:
        return f"{values[0]:.2f}" if values.size else "-"
    return f"{values.mean():.2f} ({values.min():.2f} to {values.max():.2f})"


def end_to_end_gpu(rows: Rows) -> str:
    if not times(rows, GRAPH):
        return f"{about(rows)}\n\n{refusals(rows)}"
    best = fastest_peer(rows)
    peers = [name for name in providers(rows) if is_peer(name)]
    parts = [about(rows)]
    for ours in (GRAPH, OURS):
        mine = times(rows, ours)
        count = len({one[:-1] for one in mine})
        if not mine:
            continue
        lines = []
        for peer in peers:
            theirs = times(rows, peer)
            cells = [spread(ratios(theirs, mine, model)) for model in NAMES]
            if any(cell != "-" for cell in cells):
                lines.append([peer, *cells, f"{geometric_mean(ratios(theirs, mine)):.2f}"])
        cells = [spread(ratios(best, mine, model)) for model in NAMES]
        lines.append(["**the fastest of them**", *cells, f"**{geometric_mean(ratios(best, mine)):.2f}**"])
        title = f"Times as fast as each peer, *{ours}*, float32: average (least to most) over {count} configurations"
        parts += [title + ":", table(["", *NAMES.values(), "geometric mean"], lines)]
    parts += [
        "As published by the paper, of its own implementation on an RTX 3090 (HugeCTR and OneFlow have no build to "
        "install here; not comparable with the above):",
        table(["", *NAMES.values()], ([name, *values] for name, values in PUBLISHED.items())),
        f"Goals, *{GRAPH}*, float32:",
        gpu_goals(rows),
        precisions(rows),
    ]
    return "\n\n".join([part for part in [*parts, refusals(rows)] if part])


def goals_table(goals: Iterable[tuple[str, float, float]]) -> str:
    """What was aimed at, at least, and what was measured."""
    lines = [
        [what, f"{wanted:g}", f"{found:.2f}", "reached" if found >= wanted else "**missed**"]
        for what, wanted, found in goals
    ]
    return table(["goal, times as fast", "at least", "measured", ""], lines)


def gpu_goals(rows: Rows) -> str:
    mine = times(rows, GRAPH)
    to_eager, to_best = ratios(times(rows, "PyTorch eager"), mine), ratios(fastest_peer(rows), mine)
    goals = [
        ("PyTorch eager, geometric mean", 15, geometric_mean(to_eager)),
        ("PyTorch eager, each configuration", 6, to_eager.min()),
        ("the fastest peer, geometric mean", 5, geometric_mean(to_best)),
        ("the fastest peer, each configuration", 3, to_best.min()),
    ]
    for published, peer in (("PyTorch", "PyTorch eager"), ("TorchRec", "FBGEMM lookups eager")):
        for (model, name), wanted in zip(NAMES.items(), PUBLISHED[published], strict=True):
            found = ratios(times(rows, peer), mine, model)
            if found.size:
                goals.append((f"the paper's average over {published}, {name}", wanted, found.mean()))
    return goals_table(goals)


def precisions(rows: Rows) -> str:
    exact = times(rows, GRAPH)
    lines = []
    for precision in ("fp32", "tf32", "fp16"):
        mine = times(rows, GRAPH, precision)
        errors = [
            float(row["error"]) for row in measured(rows) if (row["provider"], row["precision"]) == (GRAPH, precision)
        ]
        if mine:
            cells = [
                f"{geometric_mean(ratios(exact, mine, model)):.2f}"
                for model in NAMES
                if ratios(exact, mine, model).size
            ]
            lines.append([precision, *cells, f"{max(errors):.1g}"])
    return (
        f"Times as fast as float32, *{GRAPH}*, and the largest difference of a probability from float64:\n\n"
        + table(["", *NAMES.values(), "largest difference"], lines)
    )


def refusals(rows: Rows) -> str:
    """Who could not run what, in their own words, without the advice that follows."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["refusal"]:
            key = (row["provider"], row["refusal"].split(" Search for ")[0])
            found.setdefault(key, []).append(f"{NAMES[row['model']]} {row['dataset']} {row['dim']}/{row['hidden']}")
    return "\n".join(
        f"- {len(where)} configurations gave no numbers ({', '.join(where)}): {reason}"
        if provider == "all"
        else f"- {provider} refuses {len(where)} configurations: {reason}"
        for (provider, reason), where in found.items()
    )


def ablation_gpu(rows: Rows) -> str:
    by_model = {name: {row["provider"]: row for row in rows if row["model"] == name} for name in NAMES}
    lines = []
    for provider in providers(rows):
        cells = []
        for model in NAMES:
            row = by_model[model].get(provider)
            cells.append(f"{us(row):.0f}" if row and row["median_us"] else "refused")
        lines.append([provider, *cells])
    return f"{about(rows)}\n\n" + table(["µs", *NAMES.values()], lines) + "\n\n" + refusals(rows)


def modes_gpu(rows: Rows) -> str:
    """Each mode's time, and beside it ours of the same process: in the file the row behind it."""
    names = [name for name in providers(rows) if name not in (GRAPH, "all")]
    cells = {name: dict.fromkeys(NAMES, "refused") for name in names}
    for theirs, mine in pairwise(rows):
        if theirs["provider"] in names and theirs["median_us"] and mine["provider"] == GRAPH:
            cells[theirs["provider"]][theirs["model"]] = f"{us(theirs):.0f} ({us(mine):.0f})"
    lines = [[name, *own.values()] for name, own in cells.items()]
    return f"{about(rows)}\n\n" + table(["µs (ours beside it)", *NAMES.values()], lines) + "\n\n" + refusals(rows)


def quick_gpu(rows: Rows) -> str:
    """Each configuration's times, all providers and precisions."""
    settings = list(dict.fromkeys(map(setting, rows)))
    lines = []
    for provider, precision in dict.fromkeys((row["provider"], row["precision"]) for row in rows):
        own = {setting(row): row for row in rows if (row["provider"], row["precision"]) == (provider, precision)}
        cells = [f"{us(own[one]):.0f}" if one in own and own[one]["median_us"] else "refused" for one in settings]
        lines.append([f"{provider}, {precision}", *cells])
    header = ["µs", *(f"{NAMES[one[0]]}, {one[1]}" for one in settings)]
    return f"{about(rows)}\n\n{table(header, lines)}"


def scaling_gpu(rows: Rows) -> str:
    lines = []
    names = providers(rows)
    for key in dict.fromkeys(map(setting, rows)):
        own = {row["provider"]: row for row in rows if setting(row) == key}
        cells = [f"{us(own[name]):.1f}" if name in own and own[name]["median_us"] else "refused" for name in names]
        lines.append([f"{key[1]} x dim {key[2]}, batch {key[4]}", *cells])
    return f"{about(rows)}\n\n" + table(["µs, DCN", *names], lines)


def accuracy(rows: Rows) -> str:
    runs = list(dict.fromkeys((row["provider"], row["precision"]) for row in rows))
    lines = []
    for dataset, model in dict.fromkeys((row["dataset"], row["model"]) for row in rows):
        own = {
            (row["provider"], row["precision"]): row
            for row in rows
            if (row["dataset"], row["model"]) == (dataset, model)
        }
        cells = [
            f"{own[run]['auc']}, {own[run]['log_loss']} ({float(own[run]['largest_difference']):.0e})" for run in runs
        ]
        lines.append([dataset, NAMES[model], *cells])
    header = ["AUC, LogLoss (largest difference)", "", *(f"{provider} {precision}" for provider, precision in runs)]
    return f"{about(rows)}\n\n{table(header, lines)}"


def end_to_end_cpu(rows: Rows) -> str:
    names = providers(rows)
    lines = []
    for key in dict.fromkeys(map(setting, rows)):
        own = {row["provider"]: row for row in rows if setting(row) == key}
        cells = [f"{us(own[name]):.0f}" if name in own and own[name]["median_us"] else "refused" for name in names]
        lines.append([NAMES[key[0]], key[4], *cells, own[OURS]["ratio_to_best_peer"]])
    mine = [row for row in rows if row["provider"] == OURS]
    small = np.array([float(row["ratio_to_best_peer"]) for row in mine if int(row["batch"]) <= 64])
    every = np.array([float(row["ratio_to_best_peer"]) for row in mine])
    goals = [
        ("the fastest peer at batch 64 and below, geometric mean", 2, geometric_mean(small)),
        ("the fastest peer, each model and batch", 1, every.min()),
    ]
    header = ["µs", "batch", *names, "times as fast as the fastest peer"]
    return "\n\n".join([about(rows), table(header, lines), goals_table(goals)])


SECTIONS: dict[str, Callable[[Rows], str]] = {
    "end_to_end_gpu": end_to_end_gpu,
    "modes_gpu": modes_gpu,
    "quick_gpu": quick_gpu,
    "ablation_gpu": ablation_gpu,
    "scaling_gpu": scaling_gpu,
    "accuracy_cuda": accuracy,
    "accuracy_cpu": accuracy,
    "end_to_end_cpu": end_to_end_cpu,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--docs", type=Path, default=RESULTS.parents[1] / "docs", help="where performance*.md are")
    arguments = parser.parse_args()
    pages = {path: path.read_text() for path in sorted(arguments.docs.glob("performance*.md"))}
    for name, section in SECTIONS.items():
        path = arguments.results / f"{name}.csv"
        if not path.exists():
            continue
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        if name == "end_to_end_gpu" and (compiled := arguments.results / "compile_gpu.csv").exists():
            with compiled.open(newline="") as file:
                rows += csv.DictReader(file)
        if not rows:
            continue
        parts = [section(rows).strip()]
        draw = getattr(report_plots, name, None)
        if draw is not None:
            draw(rows, path)
            image = path.with_suffix(".png").resolve()
            parts.insert(0, f"![{name}]({os.path.relpath(image, arguments.docs.resolve())})")
        for page, text in pages.items():
            pages[page] = re.sub(
                rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)",
                lambda match, parts=parts: match[1] + "\n\n".join(parts) + "\n" + match[2],
                text,
                flags=re.DOTALL,
            )
    for page, text in pages.items():
        page.write_text(text)


if __name__ == "__main__":
    main()
