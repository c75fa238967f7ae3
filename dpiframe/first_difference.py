"""Which pass is to blame: runs the model as it was after each pass on the case whose answers differ."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from dpiframe.graph_passes.model_io import save
from dpiframe.output_file import StagedOutput
from dpiframe.verification import Verifier
from dpiframe.verify_result import Mismatch


def first_difference(
    verifier: Verifier, mismatch: Mismatch, stages: Iterable[tuple[str, onnx.ModelProto]], staged: StagedOutput
) -> str | None:
    """The first stage whose answers to the mismatch's case differ from the original's, or None if none alone does."""
    for name, model in stages:
        path = staged.scratch(name)
        save(model, path)
        verifier.add(mismatch.form, path)
        if not isinstance(verifier.compare(mismatch.form, mismatch.case), float):
            return name
    return None
