"""`dpiframe tune` on a card: all plans are measured, and the file runs with the one that was written."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

pytest.importorskip("onnx_graphsurgeon")

from dpiframe.graph_passes.pipeline import optimize_model
from dpiframe.tuner import LEAST_GAIN, Plan, tune
from tests.custom_ops.regions import rows, towers
from tests.gpu.device import whole_session
from tests.graph_passes.harness import same, session


def test_what_is_fastest_here(tmp_path: Path) -> None:
    model = towers(4, 3)
    path = tmp_path / "model.opt.onnx"
    onnx.save(optimize_model(model, provider="cuda").model, path)
    result = tune(path, batches=(16, 64))
    assert len(result.tried) == 7
    assert all(0.005 < ms < 5 for tried in result.tried for ms in tried.ms.values())
    gains = {tried.plan: tried.gain for tried in result.tried}
    assert gains[result.best] == (max(gains.values()) if max(gains.values()) >= 1 + LEAST_GAIN else 1)
    assert result.verification.provider == "cuda"
    tuned = onnx.load(path)
    (region,) = [node for node in tuned.graph.node if node.op_type == "ParallelRegion"]
    streams = region.attribute[0].s.decode().splitlines()[2]
    assert streams == f"streams {result.best.streams}" or result.best == Plan(1, "breadth")
    runner = whole_session(tuned)
    for count in (1, 64, 500):
        (got,), (want,) = runner.run(None, rows(count)), session(model).run(None, rows(count))
        same(got, want, 2e-6, f"{count} rows")
