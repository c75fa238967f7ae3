"""Hazard: nn.EmbeddingBag as PyTorch exports it today is no longer what the passes know, or comes out as something else."""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.graph_passes.harness import FP32_TOLERANCE, agree, blocks, op_types, optimize

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

IDS = np.array([1, 2, 3, 4, 5, 6, 7, 0, 3, 3])
OFFSETS = np.array([0, 2, 2, 5, 9])
BOUNDS = np.array([0, 2, 2, 5, 9, 10])
MATRIX = np.arange(12).reshape(4, 3) % 7
WEIGHTS = np.linspace(-1, 1, 10, dtype=np.float32)
LIST, ROWS = {0: "n"}, {0: "m"}


def bag(*arguments: str, **options: Any) -> Any:
    """A module that gives its arguments by name to an nn.EmbeddingBag."""

    class Bag(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.bag = torch.nn.EmbeddingBag(20, options.pop("dim", 4), **options)

        def forward(self, *given: Any) -> Any:
            named = dict(zip(arguments, given, strict=True))
            if "one_hot" in named:
                ids = named.pop("one_hot")
                named |= {"input": ids, "offsets": torch.arange(ids.shape[0])}
            if "matrix" in named:
                ids = named.pop("matrix")
                named |= {"input": ids.reshape(-1), "offsets": torch.arange(ids.shape[0]) * ids.shape[1]}
            if "hashed" in named:
                named["input"] = named.pop("hashed") % 20
            return self.bag(**named)

    return Bag()


LISTS = {"input": (IDS, LIST), "offsets": (OFFSETS, ROWS)}
CASES: dict[str, tuple[Any, dict[str, tuple[np.ndarray, dict[int, str]]], str]] = {
    **{f"{mode}": (bag("input", "offsets", mode=mode), LISTS, "bag") for mode in ("sum", "mean", "max")},
    "one column": (bag("input", "offsets", mode="sum", dim=1), LISTS, "bag"),
    **{
        f"{mode} with the last offset": (
            bag("input", "offsets", mode=mode, include_last_offset=True),
            {"input": (IDS, LIST), "offsets": (BOUNDS, ROWS)},
            "bag",
        )
        for mode in ("sum", "mean", "max")
    },
    "weights": (
        bag("input", "offsets", "per_sample_weights", mode="sum"),
        {**LISTS, "per_sample_weights": (WEIGHTS, LIST)},
        "bag",
    ),
    "hashed": (bag("hashed", "offsets", mode="sum"), {"hashed": (IDS * 31, LIST), "offsets": (OFFSETS, ROWS)}, "bag"),
    **{
        f"{mode} of a matrix": (bag("input", mode=mode), {"input": (MATRIX, ROWS)}, "pool")
        for mode in ("sum", "mean", "max")
    },
    "a matrix of any width": (bag("input", mode="sum"), {"input": (MATRIX, {0: "m", 1: "p"})}, "pool"),
    "a weighted matrix": (
        bag("input", "per_sample_weights", mode="sum"),
        {"input": (MATRIX, ROWS), "per_sample_weights": (WEIGHTS[:12].repeat(2)[:12].reshape(4, 3), ROWS)},
        "pool",
    ),
    "offsets of a matrix": (bag("matrix", mode="sum"), {"matrix": (MATRIX, ROWS)}, "pool"),
    "one-hot": (bag("one_hot", mode="mean"), {"one_hot": (IDS, ROWS)}, "row"),
}
PADDED = {
    f"{mode} with padding": (bag("input", "offsets", mode=mode, padding_idx=3), LISTS, "bag")
    for mode in ("sum", "mean", "max")
}


def export(
    module: Any, inputs: dict[str, tuple[np.ndarray, dict[int, str]]], path: Path, dynamo: bool
) -> onnx.ModelProto:
    arguments = tuple(torch.from_numpy(array.copy()) for array, _ in inputs.values())
    options: dict[str, Any] = {"input_names": list(inputs), "output_names": ["y"], "dynamo": dynamo}
    if dynamo:
        dims = {name: torch.export.Dim(name) for _, axes in inputs.values() for name in axes.values()}
        options["dynamic_shapes"] = {
            "given": tuple({a: dims[d] for a, d in axes.items()} for _, axes in inputs.values())
        }
        options["external_data"] = False
    else:
        options["dynamic_axes"] = {name: axes for name, (_, axes) in inputs.items()}
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), arguments, path, **options)
    return onnx.load(path)


def check(case: tuple[Any, dict[str, tuple[np.ndarray, dict[int, str]]], str], path: Path, dynamo: bool) -> None:
    module, inputs, block = case
    model = export(module, inputs, path, dynamo)
    result = optimize(model, bad_ids="clamp")
    assert result.lookups_fused == result.lookups_before == 1
    assert "Loop" not in op_types(result.model)
    assert blocks(result)[0].startswith(block)
    feeds = {name: array for name, (array, _) in inputs.items()}
    agree(model, result, feeds, tolerance=FP32_TOLERANCE)
    with torch.no_grad():
        wanted = module(*(torch.from_numpy(array) for array in feeds.values())).numpy()
    (theirs,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)
    # one exporter gives -inf where PyTorch's maximum of nothing is 0
    np.testing.assert_allclose(np.where(np.isinf(theirs), 0, theirs), wanted, atol=1e-6)


@pytest.mark.parametrize("dynamo", [False, True], ids=["TorchScript", "dynamo"])
@pytest.mark.parametrize("name", CASES)
def test_exported_bags_are_fused(name: str, dynamo: bool, tmp_path: Path) -> None:
    check(CASES[name], tmp_path / "model.onnx", dynamo)


@pytest.mark.parametrize("name", PADDED)
def test_exported_bags_with_padding_are_fused(name: str, tmp_path: Path) -> None:
    """Only one of the exporters takes it."""
    check(PADDED[name], tmp_path / "model.onnx", dynamo=True)
