"""Schema, metrics, data and the list of models work where PyTorch isn't installed."""

from __future__ import annotations

import subprocess
import sys


def test_without_torch() -> None:
    code = """
import sys
sys.modules["torch"] = None  # Any import of it fails from here on.
from dpiframe import models
from dpiframe.models.data import generate
data = generate(20, scale=1e-6)
assert models.FeatureSchema.from_dict(data.schema.to_dict()) == data.schema
assert "deepfm" in models.names()
assert models.auc([0, 1], [0.1, 0.2]) == 1.0
import dpiframe.models.cli, dpiframe.export.cli
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
