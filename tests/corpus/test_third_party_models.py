"""Every third-party model optimizes and answers as PyTorch does: with the library, without it, and in
onnx.reference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx.reference import ReferenceEvaluator

import dpiframe
from dpiframe.graph_passes.model_io import load
from dpiframe.graph_passes.pipeline import optimize_model

Arrays = dict[str, np.ndarray]
Run = Callable[[Arrays], list[np.ndarray]]
BATCHES = (1, 7, 256)


def test_optimized_model_answers_as_pytorch_does(folder: Path, tmp_path: Path) -> None:
    original, optimized = folder / "model.onnx", tmp_path / "model.opt.onnx"
    result = dpiframe.optimize(original, optimized, provider="cpu")
    left_alone = [refusal for report in result.reports for refusal in report.refusals if report.name == "fuse_lookups"]
    assert len(left_alone) == result.lookups_before - result.lookups_fused, "every lookup left alone has its reason"
    assert result.fused or not result.lookups_fused
    if result.fused:
        assert result.verification is not None
        assert result.verification.mismatch is None
        assert result.nodes_after < result.nodes_before
    onnx.checker.check_model(optimized, full_check=True)

    names = [o.name for o in onnx.load(original, load_external_data=False).graph.output]
    theirs = runner(original, names)
    _compare(folder, names, theirs, runner(optimized, names, library=True))
    _compare(folder, names, theirs, runner(optimized, names))
    _compare_in_reference(folder, names, original, optimized)

    again = dpiframe.optimize(optimized, tmp_path / "again.onnx", provider="cpu")
    assert not again.fused
    assert (tmp_path / "again.onnx").read_bytes() == optimized.read_bytes()


def runner(path: Path, names: list[str], library: bool = False) -> Run:
    options = dpiframe.session_options() if library else ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(names, feeds)


def cases(folder: Path) -> list[tuple[Arrays, Arrays]]:
    found = []
    for batch in BATCHES:
        inputs = folder / f"inputs_{batch}.npz"
        if inputs.exists():
            found.append((dict(np.load(inputs)), dict(np.load(folder / f"outputs_{batch}.npz"))))
    return found


def _compare(folder: Path, names: list[str], original: Run, optimized: Run) -> None:
    """Within max(1e-5, 4 times the original file's own error) of PyTorch."""
    for inputs, expected in cases(folder):
        for name, ours, theirs in zip(names, optimized(inputs), original(inputs), strict=True):
            wanted = expected[name]
            assert (ours.shape, ours.dtype) == (wanted.shape, wanted.dtype)
            allowed = max(1e-5, 4 * float(np.abs(theirs - wanted).max(initial=0)))
            np.testing.assert_allclose(ours, wanted, rtol=0, atol=allowed)


def _compare_in_reference(folder: Path, names: list[str], original: Path, optimized: Path) -> None:
    """Where ONNX's reference implementation can run the original at all, it gives the same for the optimized model."""
    inputs, _ = cases(folder)[0]
    with np.errstate(all="ignore"):
        try:
            theirs = ReferenceEvaluator(onnx.load(original)).run(names, inputs)
        except Exception as error:  # the reference lacks operators and forms: then there is nothing to compare with
            pytest.skip(f"onnx.reference can't run the original: {type(error).__name__}")
        ours = ReferenceEvaluator(onnx.load(optimized)).run(names, inputs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)


def test_nearly_all_lookups_of_the_corpus_are_fused(corpus: list[Path]) -> None:
    results = [optimize_model(load(folder / "model.onnx")) for folder in corpus]
    total = sum(result.lookups_before for result in results)
    assert sum(result.lookups_fused for result in results) >= 0.99 * total
