"""Every reference model by both exporters: the same answers as PyTorch at any batch, and lookups as plain Gathers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from dpiframe.export import export_model
from dpiframe.export.exporters import Exporter
from dpiframe.models import CTRModel, names
from tests.models.schemas import ONE_DIM, batch, brief_schema, small_model


def check(model: CTRModel, path: Path, exporter: Exporter) -> onnx.ModelProto:
    names = model.schema.input_names
    result = export_model(
        model, batch(model.schema, 3), path, exporter=exporter, input_names=names, output_names=model.output_names
    )
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [value.name for value in session.get_inputs()] == names
    assert [value.name for value in session.get_outputs()] == ["probability"]
    assert {value.shape[0] for value in session.get_inputs()} == {"batch"}
    for rows in (1, 7, 64):
        inputs = batch(model.schema, rows, seed=rows)
        feed = {name: value.numpy() for name, value in zip(names, inputs, strict=True)}
        with torch.no_grad():
            expected = model(*inputs).numpy()
        (actual,) = session.run(None, feed)
        assert actual.shape == (rows, model.tasks)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)
    assert result.max_abs_error is not None
    assert result.max_abs_error < 1e-6
    assert result.batches == (3, 1, 7, 64)
    return onnx.load(path)


def lookups(model: onnx.ModelProto) -> list[str]:
    """The table of each Gather whose data is a table; they keep their parameter's name."""
    return [node.input[0] for node in model.graph.node if node.op_type == "Gather" and ".tables." in node.input[0]]


def expected_lookups(model: CTRModel) -> list[str]:
    """One for each field and embedding; fields that share a table read one initializer."""
    parts = [name for name, _ in model.named_parameters() if ".tables." in name]
    prefixes = sorted({name.split("tables.")[0] for name in parts if not name.startswith("crosses")})
    found = [f"{prefix}tables.{item.table_name}.weight" for prefix in prefixes for item in model.schema.id_fields]
    return sorted(found + [name for name in parts if name.startswith("crosses")])


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_matrix_of_ids(name: str, exporter: Exporter, tmp_path: Path) -> None:
    # Every kind of field goes through dynamo in these two; the others need not take its time again.
    brief = exporter == "dynamo" and name not in ("dcn", "din")
    model = small_model(name, brief_schema(mixed=name not in ONE_DIM) if brief else None).eval()
    assert sorted(lookups(check(model, tmp_path / "m.onnx", exporter))) == expected_lookups(model)


@pytest.mark.parametrize(
    ("name", "exporter"),
    [*((name, "torchscript") for name in names()), ("wide_deep", "dynamo")],
)
def test_an_input_a_field(name: str, exporter: Exporter, tmp_path: Path) -> None:
    matrix = small_model(name)
    model = small_model(name, matrix.schema.with_layout("fields")).eval()
    assert sorted(lookups(check(model, tmp_path / "m.onnx", exporter))) == expected_lookups(model)
