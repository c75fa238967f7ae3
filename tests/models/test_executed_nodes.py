"""How many nodes the paper's four models have left on CUDA, by both exporters, with 39 fields of one dim."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch

from dpiframe.export import export_model
from dpiframe.export.exporters import Exporter
from dpiframe.graph_passes.gemm.fuse import FuseGemm
from dpiframe.graph_passes.pass_base import Pass
from dpiframe.graph_passes.pipeline import PASSES, optimize_model
from dpiframe.graph_passes.streams.assign import AssignStreams
from dpiframe.models import FeatureSchema, SparseField, create

# By model: without products and streams, without streams, with all passes.
NODES = {"dcn": (8, 6, 1), "dcnv2": (12, 8, 1), "wide_deep": (7, 5, 1), "deepfm": (8, 5, 1)}
LEFT_OUT: tuple[set[type[Pass]], ...] = ({FuseGemm, AssignStreams}, {AssignStreams}, set())


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("name", NODES)
def test_nodes(name: str, exporter: Exporter, tmp_path: Path) -> None:
    schema = FeatureSchema(sparse=tuple(SparseField(f"f{i}", 50 + i, 16) for i in range(39)))
    model = create(name, schema, hidden=(256, 256, 256)).eval()
    example = [torch.from_numpy(schema.random_batch(8)[0])]
    path = tmp_path / "model.onnx"
    export_model(model, example, path, exporter=exporter, input_names=schema.input_names)
    exported = onnx.load(path)
    counts = []
    for left_out in LEFT_OUT:
        passes = tuple(kind for kind in PASSES if kind not in left_out)
        counts.append(len(optimize_model(exported, provider="cuda", passes=passes).model.graph.node))
    assert tuple(counts) == NODES[name]
