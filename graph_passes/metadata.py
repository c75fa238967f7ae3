"""A model's metadata as a dict."""

from __future__ import annotations

import onnx


def properties(model: onnx.ModelProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in model.metadata_props}


def set_properties(model: onnx.ModelProto, entries: dict[str, str]) -> None:
    """In place of all that are there."""
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, entries)
