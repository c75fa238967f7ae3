"""What can be said of a model without running it: operators nobody defines, and whether onnx.checker accepts it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx
import onnx.checker

from dpiframe.graph_passes.functions import DOMAIN, walk
from dpiframe.graph_passes.model_io import ModelError, external_files, save

# Domains whose operators ONNX Runtime has built in.
_KNOWN_DOMAINS = frozenset(
    {
        "",
        "ai.onnx",
        "ai.onnx.ml",
        "ai.onnx.preview.training",
        "ai.onnx.training",
        "com.microsoft",
        "com.microsoft.dml",
        "com.microsoft.experimental",
        "com.microsoft.nchwc",
        "com.ms.internal.nhwc",
        "org.pytorch.aten",
    }
)


def require_known_operators(path: Path, model: onnx.ModelProto) -> None:
    """Raise ModelError for an operator whose domain isn't ONNX Runtime's and which no function in the model defines."""
    functions = {(f.domain, f.name) for f in model.functions}
    for nodes in (model.graph.node, *(f.node for f in model.functions)):
        for node in walk(nodes):
            if node.domain not in _KNOWN_DOMAINS and (node.domain, node.op_type) not in functions:
                if node.domain == DOMAIN:
                    remedy = "has lost its function body, as in a model that ONNX Runtime saved; take the file before"
                else:
                    remedy = "is not ONNX Runtime's own; name its library with --custom-op-library FILE"
                raise ModelError(f"{path}: operator {node.domain}::{node.op_type} {remedy}")


def checker_complaint(path: Path, model: onnx.ModelProto, folder: Path) -> str | None:
    """Why onnx.checker (with full type and shape inference) rejects the model in `path`, or None.

    Where it has external data (in `folder`), the checker reads a copy from a place in which empty (sparse) files of the
    right sizes stand for the data: it looks at no value of theirs, but refuses files that have several hard links.
    """
    locations = external_files(model)
    if not locations:
        return _complaint(path)
    with tempfile.TemporaryDirectory(prefix="dpiframe-") as temporary:
        copy = Path(temporary, path.name)
        save(model, copy)
        for location in locations:
            stand_in = copy.parent / location
            stand_in.parent.mkdir(parents=True, exist_ok=True)
            with stand_in.open("wb") as file:
                file.truncate((folder / location).stat().st_size)
        return _complaint(copy)


def _complaint(path: Path) -> str | None:
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return " ".join(str(error).split()).replace(str(path), "the model")
    return None
