"""What the passes make of reference models, as printed kernels that run on the CPU: they agree with the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from dpiframe.export import export_model
from dpiframe.graph_passes.elementwise.program import parse_program
from dpiframe.graph_passes.pipeline import optimize_model
from tests.custom_ops.elementwise_programs import Case, numbers
from tests.custom_ops.test_elementwise_printed_source import check, pytestmark  # noqa: F401
from tests.models.schemas import batch, small_model


def programs(model: onnx.ModelProto) -> set[str]:
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    texts = [attribute.s.decode() for node in nodes for attribute in node.attribute if attribute.s]
    return {text for text in texts if text.startswith("elementwise ")}


@pytest.mark.parametrize("name", ["dcn", "deepfm", "din", "dlrm"])
def test_models(name: str, tmp_path: Path) -> None:
    model = small_model(name)
    path = tmp_path / "model.onnx"
    export_model(model, batch(model.schema, 3), path, exporter="torchscript", input_names=model.schema.input_names)
    texts = programs(optimize_model(onnx.load(path), provider="cuda").model)
    assert texts
    for text in texts:
        program = parse_program(text)
        rng = np.random.default_rng(0)
        inputs = []
        for value in program.inputs:
            rows = [size if letter == "x" else 1 for size, letter in zip((5, 3), value.mask, strict=False)]
            inputs.append(numbers(rng, value.type, (*rows, *value.sizes), special=False))
        check(Case(text, inputs), tmp_path, 0)
