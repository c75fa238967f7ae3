"""The plots of whole models' measurements: one function a CSV, each draws it beside itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot

from benchmarks.model_rows import FLOOR, OURS

Rows = list[dict[str, str]]
BASE = "PyTorch eager"
SHORT = {"wide_deep": "W&D"}


def end_to_end_gpu(rows: Rows, path: Path) -> None:
    """Speedup over PyTorch eager, a panel a data set and a group of bars a configuration: the paper's Fig. 7."""
    rows = [
        row for row in rows if row["precision"] == "fp32" and (row["study"] != "compile" or OURS not in row["provider"])
    ]
    names = sorted(_measured_names(rows), key=lambda name: OURS in name)
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    figure, panels = pyplot.subplots(
        len(datasets), 1, figsize=(16, 4.5 * len(datasets)), layout="constrained", squeeze=False
    )
    for axes, dataset in zip(panels[:, 0], datasets, strict=True):
        own = [row for row in rows if row["dataset"] == dataset]
        keys = sorted(
            {(row["model"], int(row["dim"]), int(row["hidden"])) for row in own},
            key=lambda key: (list(dict.fromkeys(row["model"] for row in own)).index(key[0]), *key[1:]),
        )
        found = {(row["model"], int(row["dim"]), int(row["hidden"]), row["provider"]): _us(row) for row in own}
        places = np.arange(len(keys))
        for i, name in enumerate(names):
            heights = [found.get((*key, BASE), np.nan) / found.get((*key, name), np.nan) for key in keys]
            axes.bar(
                places + (i - len(names) / 2) * 0.85 / len(names),
                heights,
                0.85 / len(names),
                label=name,
                color=_colour(name, i),
            )
        axes.set_xticks(
            places, [f"{SHORT.get(model, model)}\n{dim}, {hidden}" for model, dim, hidden in keys], fontsize=8
        )
        axes.set(
            title=f"{dataset}, batch {own[0]['batch']}, float32, {own[0]['card']}",
            ylabel="times as fast as PyTorch eager",
        )
        axes.grid(axis="y", alpha=0.3)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    _save(figure, path)


def ablation_gpu(rows: Rows, path: Path) -> None:
    """Speedup over PyTorch eager of each component added: the paper's Fig. 8."""
    names = _measured_names(rows)
    models = list(dict.fromkeys(row["model"] for row in rows))
    found = {(row["model"], row["provider"]): _us(row) for row in rows}
    figure, axes = pyplot.subplots(figsize=(12, 4.5), layout="constrained")
    places = np.arange(len(models))
    for i, name in enumerate(names):
        heights = [found.get((model, BASE), np.nan) / found.get((model, name), np.nan) for model in models]
        bars = axes.bar(places + (i - len(names) / 2) * 0.85 / len(names), heights, 0.85 / len(names), label=name)
        axes.bar_label(bars, [f"{height:.0f}" if height > 1 else "" for height in heights], fontsize=7)
    axes.set_xticks(places, models)
    axes.set(title=_title(rows), ylabel="times as fast as PyTorch eager")
    axes.legend(fontsize=8, ncols=2)
    _save(figure, path)


def scaling_gpu(rows: Rows, path: Path) -> None:
    """Latency over batch, fields and rows, and throughput over batch, with the floors."""
    rows = [row for row in rows if row["median_us"]]
    uniform = [row for row in rows if "x" in row["dataset"]]
    for row in uniform:
        row["fields"], row["rows"] = row["dataset"].split("x")
    panels = {
        "batch": ([row for row in rows if "x" not in row["dataset"]], lambda row: int(row["batch"])),
        "fields of 10,000 rows": ([row for row in uniform if row["rows"] == "10000"], lambda row: int(row["fields"])),
        "rows in all tables together": (
            [row for row in uniform if row["rows"] != "10000"],
            lambda row: int(row["fields"]) * int(row["rows"]),
        ),
    }
    figure, axes = pyplot.subplots(1, 4, figsize=(20, 4.8), layout="constrained")
    for panel, (label, (own, key)) in zip(axes, panels.items(), strict=False):
        _lines(panel, own, key, lambda row: _us(row))
        panel.set(xlabel=label, ylabel="latency, µs", title=f"DCN over {label}")
    own, key = panels["batch"]
    _lines(axes[3], own, key, lambda row: int(row["batch"]) / _us(row) * 1e6)
    axes[3].set(xlabel="batch", ylabel="rows/s", title="throughput over batch")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=7)
    figure.suptitle(f"dim 16, hidden 256, batch 2048 where it isn't the axis, {rows[0]['card']}")
    _save(figure, path)


def end_to_end_cpu(rows: Rows, path: Path) -> None:
    """Latency over batch, a panel a model."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    figure, panels = pyplot.subplots(
        1, len(models), figsize=(4.5 * len(models), 4.5), layout="constrained", squeeze=False
    )
    for axes, model in zip(panels[0], models, strict=True):
        own = [row for row in rows if row["model"] == model]
        _lines(axes, own, lambda row: int(row["batch"]), _us)
        for row in own:
            if row["provider"] == OURS:
                at = (int(row["batch"]), _us(row))
                axes.annotate(
                    f"{float(row['ratio_to_best_peer']):.1f}x",
                    at,
                    (0, -14),
                    textcoords="offset points",
                    ha="center",
                    fontsize=8,
                )
        axes.set(xlabel="batch", ylabel="latency, µs", title=model)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.suptitle(f"{_title(rows)}; beside ours: times as fast as the fastest peer")
    _save(figure, path)


def _lines(axes: Any, rows: Rows, key: Any, value: Any) -> None:
    for i, name in enumerate(_measured_names(rows)):
        own = sorted((key(row), value(row)) for row in rows if row["provider"] == name)
        style = (
            {"linestyle": ":", "color": "black", "alpha": 0.4 + 0.3 * (i % 2)}
            if name.startswith(FLOOR)
            else {"marker": "o", "markersize": 3, "color": _colour(name, i)}
        )
        axes.plot(*zip(*own, strict=True), label=name, **style)
    axes.set(xscale="log", yscale="log")
    axes.grid(alpha=0.3)


def _measured_names(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row["provider"] for row in rows if row["median_us"]))


def _us(row: dict[str, str]) -> float:
    return float(row["median_us"] or "nan")


def _colour(name: str, index: int) -> str:
    if name.startswith(OURS):
        return "tab:red" if "graph" in name else "tab:orange"
    return f"C{(0, 2, 4, 5, 6, 7, 8, 9)[index % 8]}"


def _title(rows: Rows) -> str:
    first = rows[0]
    return f"{first['dataset']}, dim {first['dim']}, hidden {first['hidden']}, {first['card']}"


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path.with_suffix(".png"), dpi=110)
    pyplot.close(figure)
