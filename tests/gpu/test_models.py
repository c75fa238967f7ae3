"""Every reference model on CUDA: all its lookups fused, the same answers as the original model's on the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from dpiframe import custom_ops
from dpiframe.export import export_model
from dpiframe.graph_passes.pipeline import optimize_model
from dpiframe.models import auc, log_loss, names
from dpiframe.models.schema import LAYOUTS, Layout
from tests.custom_ops import models
from tests.gpu import device
from tests.models.schemas import batch, small_model


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", names())
def test_every_model(name: str, layout: Layout, tmp_path: Path) -> None:
    model = small_model(name)
    if layout != model.schema.layout:
        model = small_model(name, model.schema.with_layout(layout))
    inputs_by_name = model.schema.input_names
    path = tmp_path / "model.onnx"
    export_model(model, batch(model.schema, 3), path, exporter="torchscript", input_names=inputs_by_name)
    result = optimize_model(onnx.load(path), provider="cuda")
    assert result.lookups_fused == result.lookups_before > 0
    original = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    session = device.session(result.model)
    for rows in (1, 7, 64, 1000):
        inputs = batch(model.schema, rows, seed=rows)
        feed = {name: value.numpy() for name, value in zip(inputs_by_name, inputs, strict=True)}
        (expected,) = original.run(None, feed)
        (actual,) = session.run(None, feed)
        assert np.abs(actual - expected).max() <= 1e-6 * max(1, np.abs(expected).max())
    # On the CPU an id outside its table would fail the run.
    assert custom_ops.bad_id_counts(models.tag(session)) == []
    ids = {name: np.full_like(value, 10**6) for name, value in feed.items() if value.dtype == np.int64}
    session.run(None, feed | ids)
    assert custom_ops.bad_id_counts(models.tag(session)) != []


@pytest.mark.parametrize("name", names())
def test_auc_and_log_loss_stay_to_the_sixth_decimal(name: str, tmp_path: Path) -> None:
    """Labels are drawn as likely as the original model says, so that it is right as often as it claims."""
    model = small_model(name)
    path = tmp_path / "model.onnx"
    export_model(model, batch(model.schema, 3), path, exporter="torchscript", input_names=model.schema.input_names)
    inputs = batch(model.schema, 20_000, seed=1)
    feed = {name: value.numpy() for name, value in zip(model.schema.input_names, inputs, strict=True)}
    (expected,) = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feed)
    (actual,) = device.session(optimize_model(onnx.load(path), provider="cuda").model).run(None, feed)
    theirs, ours = (np.asarray(scores).reshape(len(scores), -1).T for scores in (expected, actual))
    random = np.random.default_rng(0)
    for before, after in zip(theirs, ours, strict=True):
        labels = random.random(before.shape) < before
        assert abs(auc(labels, after) - auc(labels, before)) < 1e-6
        assert abs(log_loss(labels, after) - log_loss(labels, before)) < 1e-6
